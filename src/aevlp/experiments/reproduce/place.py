"""The folder that tables are made in: whose it is, and the image set of the demo in it."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import TYPE_CHECKING

from aevlp.core.errors import UserError
from aevlp.core.files import write_json
from aevlp.core.processes import is_first_process
from aevlp.experiments.demo.scenes import write_world
from aevlp.experiments.reproduce.request import Request
from aevlp.store.location import store_root

if TYPE_CHECKING:
    from aevlp.core.processes import EngineOptions
    from aevlp.data.dataset import Dataset

MARK, RUNS = "reproduce.json", "runs"
QUICK_WORLD = {"train": 400, "test": 200}  # images; the whole one has 2,000 and 1,000
log = logging.getLogger("aevlp")


def check_place(request: Request) -> None:
    """Refuses a folder that holds something else, or figures of the other kind (quick or not)."""
    out = request.out
    if not out.exists():
        return
    if not out.is_dir():
        raise UserError(f"--out {out}: exists and is not a folder; choose another place")
    if (out / MARK).is_file():
        try:
            was_quick = bool(json.loads((out / MARK).read_text())["quick"])
        except (ValueError, KeyError, TypeError):
            raise UserError(f"--out {out}: {MARK} in it is not one of aevlp reproduce; choose another place") from None
        if was_quick != request.quick:
            here, now = ("with --quick", "without") if was_quick else ("without --quick", "with it")
            raise UserError(f"--out {out}: what is in it was made {here}, and cannot go on {now}; choose another place")
        return
    store = store_root(request.said.get("store"))
    content = [path for path in out.iterdir() if not path.name.startswith(".") and (store is None or path != store)]
    if content:
        raise UserError(
            f"--out {out}: exists and was not made by aevlp reproduce ({content[0].name} is in it); choose another place"
        )


def claim_place(request: Request, data: Dataset | None = None) -> None:
    """Marks the folder as one of tables, of that image set; refused if they are of another one."""
    file = request.out / MARK
    known = json.loads(file.read_text()) if file.is_file() else {}
    mark = {"made_by": "aevlp reproduce", "quick": request.quick, **known}
    if data is not None:
        from aevlp.data.dataset import data_fingerprint
        from aevlp.training.provenance import require_same_images

        if "fingerprint" in known:
            require_same_images(request.out, known, data)
        mark |= {"data": str(data.train.root.resolve()), "fingerprint": data_fingerprint(data)}
    if is_first_process() and mark != known:
        write_json(file, mark)


def image_set(request: Request, engine: EngineOptions) -> Path:
    """Where the image set is; that of the demo is drawn first, if it is not there yet."""
    if request.data is not None:
        return request.data
    world = request.out / "world"

    from aevlp.core.engine import make_accelerator

    accelerator = make_accelerator(engine)
    if accelerator.is_main_process and not world.is_dir():
        log.info("drawing the world: %s", world)
        write_world(world, **(QUICK_WORLD if request.quick else {}))
    accelerator.wait_for_everyone()
    return world
