"""Table 3: the labels of DAMP epoch by epoch, and how good they are; nothing is trained."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aevlp.config.sweep import Failure, Outcome, Trial, trials_of
from aevlp.core.errors import UserError
from aevlp.core.files import write_json
from aevlp.core.processes import is_first_process
from aevlp.experiments.compare import failure_of
from aevlp.experiments.reproduce import paper
from aevlp.experiments.reproduce.plan import Planned, flat, rows_of
from aevlp.experiments.reproduce.request import Request
from aevlp.experiments.reproduce.sheet import NOTHING, Sheet, mean_and_spread
from aevlp.store.location import store_root
from aevlp.training.provenance import require_same_images
from aevlp.training.run_folder import FREE

if TYPE_CHECKING:
    from aevlp.data.dataset import Dataset

FOLDER = "labels"
NAMES = {
    "precision": "average precision",
    "accumulated_precision": "accumulated precision",
    "recall": "average recall",
    "accumulated_recall": "accumulated recall",
}
log = logging.getLogger("aevlp")


def label_sheet(request: Request, planned: Sequence[Planned], data: Dataset, column: str | None) -> Sheet:
    """The table; `column`: the paper's data set that this one is."""
    from aevlp.core.engine import make_accelerator
    from aevlp.experiments.reproduce import pictures

    if data.train.truth is None:
        raise UserError(
            f"{data.train.root}: the labels of the training images are not known to be complete, so that nothing tells how good "
            "pseudo-labels are; say --observe single for a set that is fully labelled"
        )
    trials = trials_of(request.recipe, rows_of(planned), request.seeds)
    kept = {trial.name: _kept(trial, request.out, data) for trial in trials}
    outcomes: list[tuple[Trial, Outcome]] = []
    for trial in trials:
        accelerator = make_accelerator(trial.config.engine)
        outcome: Outcome | None = kept[trial.name]
        if outcome is None:
            try:
                outcome = _judged(trial, data, accelerator)
                if is_first_process():
                    write_json(_file(trial, request.out), outcome)
            except Exception as error:
                if accelerator.num_processes > 1:
                    raise  # the other processes may wait for this one
                outcome = failure_of(error, trial.name)
                log.info("failed: seed %d: %s", trial.seed, outcome.line)
        outcomes.append((trial, outcome))
    done = [(trial.seed, outcome) for trial, outcome in outcomes if not isinstance(outcome, Failure)]
    found = {name: [100 * value for _, outcome in done if (value := outcome["epochs"][-1][name]) is not None] for name in NAMES}
    figures = {name: getattr(sets, column) for name, sets in paper.TABLE3.items()} if column else {}
    failed = len(outcomes) - len(done)
    note = f" ({failed} failed)" if failed and done else ""
    rows = [[called, (mean_and_spread(found[name]) if done else "failed") + note] for name, called in NAMES.items()]
    rows = [[*row, f"{figures[name]:.2f}"] for row, name in zip(rows, NAMES, strict=True)] if figures else rows
    empty = {"seed": "", "epoch": "", **dict.fromkeys(["epoch_precision", "epoch_recall", *NAMES], "")}
    values = [{"seed": seed, **line} for seed, outcome in done for line in outcome["epochs"]]
    config = trials[0].config
    return Sheet(
        headings=[*request.target.headings, "here", *([f"paper, {paper.TITLES[column]}"] if column else [])],
        rows=rows,
        notes=[request.target.remark],
        values=[dict(zip(empty, (value[key] for key in empty), strict=True)) for value in values] or [empty],
        picture=pictures.labels(found, figures, title=pictures.title_of(request)),
        outcomes=[(f"seed {trial.seed}", outcome) for trial, outcome in outcomes],
        made=[
            ("teacher", f"`{config.teacher.name}`"),
            ("epochs", str(config.train.epochs)),
            ("versions", _versions() or NOTHING),
        ],
    )


def _judged(trial: Trial, data: Dataset, accelerator: Any) -> dict[str, Any]:
    """A line per epoch with the figures, 0 to 1, of its labels, the average so far and all labels so far together."""
    from aevlp.damp.quality import Quality
    from aevlp.data.dataset import data_fingerprint
    from aevlp.sources.damp import Damp

    config = trial.config
    assert data.train.truth is not None
    task = config.source_context(data.train, data.classes, store_root(config.run.store), accelerator, data.val)
    source = Damp(task, config.source)
    source.fill()
    quality = Quality(data.train.observed, data.train.truth)
    epochs = []
    for epoch in range(1, config.train.epochs + 1):
        epochs.append({"epoch": epoch, **quality.update(source.labels(epoch).numpy())})
        log.info("seed %d: labels of epoch %d of %d", trial.seed, epoch, config.train.epochs)
    return {
        "options": {key: value for key, value in flat(config).items() if key not in FREE},
        "data": str(data.train.root.resolve()),
        "fingerprint": data_fingerprint(data),
        "epochs": epochs,
    }


def _file(trial: Trial, out: Path) -> Path:
    return out / FOLDER / f"{trial.name}.json"


def _kept(trial: Trial, out: Path, data: Dataset) -> dict[str, Any] | None:
    """What an earlier call found; refused if that was of other images or with other options."""
    file = _file(trial, out)
    if not file.is_file():
        return None
    try:
        found: dict[str, Any] = json.loads(file.read_text())
        before = found["options"]
        require_same_images(file, found, data)
    except (ValueError, KeyError, TypeError):
        raise UserError(f"{file}: damaged; remove it, and the same command makes it again") from None
    now = {key: value for key, value in flat(trial.config).items() if key not in FREE}
    if changed := [f"{key} was {before.get(key)} and is now {now[key]}" for key in now if before.get(key) != now[key]]:
        raise UserError(f"{file}: made with other options: {', '.join(changed)}; choose another --out, or remove it")
    log.info("%s: these labels are judged", file)
    return found


def _versions() -> str:
    from importlib.metadata import version

    return ", ".join(f"{name} {version(name)}" for name in ("aevlp", "torch", "transformers"))
