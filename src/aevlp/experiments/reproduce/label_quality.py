"""Table 3: the quality of DAMP's labels, epoch by epoch; nothing is trained."""

import logging
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from accelerate import Accelerator

from aevlp.config.sweep import Failure, Outcome, Trial, mean_and_spread
from aevlp.core.engine import make_accelerator
from aevlp.core.errors import UserError
from aevlp.core.files import json_object, write_json
from aevlp.core.processes import is_first_process
from aevlp.damp.quality import Quality
from aevlp.data.dataset import Dataset, data_fingerprint
from aevlp.experiments.compare import failure_of
from aevlp.experiments.reproduce import charts, paper
from aevlp.experiments.reproduce.plan import flat
from aevlp.experiments.reproduce.sheets import Sheet
from aevlp.experiments.reproduce.targets import ReproduceRequest
from aevlp.sources.damp import Damp
from aevlp.store.location import store_root
from aevlp.training.provenance import require_same_images
from aevlp.training.run_folder import FREE

NAMES = {
    "precision": "average precision",
    "accumulated_precision": "accumulated precision",
    "recall": "average recall",
    "accumulated_recall": "accumulated recall",
}
COLUMNS = ("seed", "epoch", "epoch_precision", "epoch_recall", *NAMES)
log = logging.getLogger("aevlp")


def label_sheet(request: ReproduceRequest, trials: Sequence[Trial], data: Dataset, column: str | None) -> Sheet:
    """Return the table; `column`: the paper's data set that `data` is."""
    if data.train.truth is None:
        raise UserError(
            f"{data.place}: the labels of the training images are not known to be complete, so that the quality of "
            "pseudo-labels cannot be measured; say --observe single for a set that is fully labelled"
        )
    outcomes = _outcomes(request, trials, data)
    done = [(trial.seed, outcome) for trial, outcome in outcomes if not isinstance(outcome, Failure)]
    found = {name: [100 * value for _, outcome in done if (value := outcome["epochs"][-1][name]) is not None] for name in NAMES}
    figures = {name: getattr(sets, column) for name, sets in paper.TABLE3.items()} if column else {}
    failed = len(outcomes) - len(done)
    note = f" ({failed} failed)" if failed and done else ""
    rows = [[called, (mean_and_spread(found[name]) if done else "failed") + note] for name, called in NAMES.items()]
    rows = [[*row, f"{figures[name]:.2f}"] for row, name in zip(rows, NAMES, strict=True)] if figures else rows
    lines = [{"seed": seed, **line} for seed, outcome in done for line in outcome["epochs"]]
    config = trials[0].config
    return Sheet(
        headings=[*request.target.headings, "here", *([f"paper, {paper.TITLES[column]}"] if column else [])],
        rows=rows,
        notes=[request.target.remark],
        values=[{name: line[name] for name in COLUMNS} for line in lines] or [dict.fromkeys(COLUMNS, "")],
        chart=charts.bars(found, figures, title=request.chart_title),
        outcomes=[(f"seed {trial.seed}", outcome) for trial, outcome in outcomes],
        made_with=[
            ("teacher", f"`{config.teacher.name}`"),
            ("epochs", str(config.train.epochs)),
            ("versions", ", ".join(f"{name} {version(name)}" for name in ("aevlp", "torch", "transformers"))),
        ],
    )


def _outcomes(request: ReproduceRequest, trials: Sequence[Trial], data: Dataset) -> list[tuple[Trial, Outcome]]:
    """Return the figures of each seed; those of an earlier call are kept."""
    files = {trial.name: request.out / "labels" / f"{trial.name}.json" for trial in trials}
    saved = {trial.name: _saved(files[trial.name], trial, data) for trial in trials}
    outcomes: list[tuple[Trial, Outcome]] = []
    for trial in trials:
        accelerator = make_accelerator(trial.config.engine)
        outcome: Outcome | None = saved[trial.name]
        if outcome is None:
            try:
                outcome = _quality(trial, data, accelerator)
                if is_first_process():
                    write_json(files[trial.name], outcome)
            except Exception as error:
                if accelerator.num_processes > 1:
                    raise  # the other processes may wait for this one
                outcome = failure_of(error, trial.name)
                log.info("failed: seed %d: %s", trial.seed, outcome.line)
        outcomes.append((trial, outcome))
    return outcomes


def _quality(trial: Trial, data: Dataset, accelerator: Accelerator) -> dict[str, Any]:
    """Return the figures, 0 to 1, of every epoch's labels, averaged so far and of all labels so far together."""
    config = trial.config
    assert data.train.truth is not None
    context = config.source_context(data.train, data.classes, store_root(config.run.store), accelerator, data.val)
    source = Damp(context, config.source)
    source.fill()
    quality = Quality(data.train.observed, data.train.truth)
    epochs = []
    for epoch in range(1, config.train.epochs + 1):
        epochs.append({"epoch": epoch, **quality.update(source.labels(epoch).numpy())})
        log.info("seed %d: labels of epoch %d of %d", trial.seed, epoch, config.train.epochs)
    return {
        "options": _fixed_options(trial),
        "data": str(data.place.resolve()),
        "fingerprint": data_fingerprint(data),
        "epochs": epochs,
    }


def _saved(file: Path, trial: Trial, data: Dataset) -> dict[str, Any] | None:
    """Return the figures of an earlier call; refuse those of other images or other options."""
    if not file.is_file():
        return None
    try:
        found = json_object(file)
        before = found["options"]
        require_same_images(file, found, data)
    except (ValueError, KeyError, TypeError):
        raise UserError(f"{file}: damaged; remove it, and the same command makes it again") from None
    now = _fixed_options(trial)
    if changed := [f"{key} was {before.get(key)} and is now {now[key]}" for key in now if before.get(key) != now[key]]:
        raise UserError(f"{file}: made with other options: {', '.join(changed)}; choose another --out, or remove it")
    log.info("%s: these labels are evaluated", file)
    return found


def _fixed_options(trial: Trial) -> dict[str, Any]:
    """Return the options that decide the labels: all but those that a resumed run may change."""
    return {key: value for key, value in flat(trial.config).items() if key not in FREE}
