"""Reproduce a target: from the request to TARGET.md, TARGET.csv and TARGET.png in its folder."""

import json
import time
from collections.abc import Sequence

from aevlp.config.sweep import Trial, trials_of
from aevlp.core.errors import UserError
from aevlp.core.files import write_json
from aevlp.core.processes import is_first_process
from aevlp.core.progress import duration
from aevlp.data.dataset import Dataset, data_fingerprint, require_examples
from aevlp.data.load import load
from aevlp.experiments.compare import train_all
from aevlp.experiments.demo.run import ensure_world
from aevlp.experiments.reproduce.distributions import distribution_sheet, require_test
from aevlp.experiments.reproduce.label_quality import label_sheet
from aevlp.experiments.reproduce.map_tables import map_sheet, trained_rows, training_seconds
from aevlp.experiments.reproduce.page import Sheet, page_text, paper_column, write_files
from aevlp.experiments.reproduce.plan import PlannedRow, differences, plan, trainings_of
from aevlp.experiments.reproduce.targets import ReproduceRequest
from aevlp.store.location import store_root
from aevlp.training.provenance import require_same_images

MARK = "reproduce.json"
QUICK_WORLD = {"train": 400, "test": 200}  # images; the whole one has 2,000 and 1,000


def run_target(request: ReproduceRequest) -> tuple[str, Sheet]:
    """Make a target, write its files and return (the text of TARGET.md, its table).

    Finished runs of an earlier call are kept. Mistakes are refused before anything is computed.
    """
    started = time.monotonic()
    check_folder(request)
    planned = plan(request)
    trials = trials_of(request.recipe, trainings_of(planned), request.seeds)
    if not trials:
        raise UserError(f"{request.target.name}: none of its rows can be trained ({planned[0].skipped})")
    config = trials[0].config
    if request.data is None:
        mark_folder(request)  # before the world is drawn into it
        ensure_world(request.image_set, config.engine, **(QUICK_WORLD if request.quick else {}))
    data = load(request.image_set, config.data, store_root(config.run.store))
    require_examples(data)
    column = paper_column(request, data.classes)
    sheet, times = _sheet(request, planned, trials, data, column)
    times.append(f"this call took {duration(time.monotonic() - started)}")
    text = page_text(request, sheet, data, column, differences(planned), times)
    if is_first_process():
        write_files(request, sheet, text)
    return text, sheet


def _sheet(
    request: ReproduceRequest, planned: Sequence[PlannedRow], trials: Sequence[Trial], data: Dataset, column: str | None
) -> tuple[Sheet, list[str]]:
    """Compute the target; return its table and a remark on the time of its trainings."""
    if request.target.kind == "labels":
        mark_folder(request, data)
        return label_sheet(request, trials, data, column), []
    if request.target.kind == "distributions":
        require_test(data)
    outcomes = train_all(
        trials, request.image_set, request.runs, jobs=request.jobs, on_progress=lambda _: mark_folder(request, data)
    )
    rows = trained_rows(planned, outcomes)
    times = [f"the epochs of all its trainings together {duration(training_seconds(request, rows))}"]
    if request.target.kind == "distributions":
        return distribution_sheet(request, rows, data), times
    return map_sheet(request, rows, data, column), times


def check_folder(request: ReproduceRequest) -> None:
    """Refuse a folder that holds something else, or figures of the other kind (quick or not)."""
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
    store = store_root(request.options.get("store"))
    content = [path for path in out.iterdir() if not path.name.startswith(".") and (store is None or path != store)]
    if content:
        raise UserError(
            f"--out {out}: exists and was not made by aevlp reproduce ({content[0].name} is in it); choose another place"
        )


def mark_folder(request: ReproduceRequest, data: Dataset | None = None) -> None:
    """Mark the folder as one of `aevlp reproduce`, of that image set; refuse a folder of another image set."""
    file = request.out / MARK
    known = json.loads(file.read_text()) if file.is_file() else {}
    mark = {"made_by": "aevlp reproduce", "quick": request.quick, **known}
    if data is not None:
        if "fingerprint" in known:
            require_same_images(request.out, known, data)
        mark |= {"data": str(data.train.root.resolve()), "fingerprint": data_fingerprint(data)}
    if is_first_process() and mark != known:
        write_json(file, mark)
