"""What follows the last epoch: thresholds, the figures on the test split, and what tells about them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from aevlp.config.config import Config
from aevlp.core.files import write_json
from aevlp.data.splits import Dataset, Split
from aevlp.models.model_folder import load_classifier
from aevlp.reports.evidence import gather, write_evidence
from aevlp.reports.model_card import write_card
from aevlp.reports.run_page import write_report
from aevlp.sources import Source
from aevlp.training.evaluate import judge, probabilities
from aevlp.training.inputs import Sight
from aevlp.training.results import Record, summarize
from aevlp.training.run_folder import RunFolder
from aevlp.training.thresholds import Thresholds, as_json, fit_thresholds

if TYPE_CHECKING:
    from accelerate import Accelerator


def conclude(
    config: Config, data: Dataset, source: Source, run: RunFolder, accelerator: Accelerator, record: Record, sight: Sight
) -> dict[str, Any]:
    """The result of a training that is over; everything that a finished run has is written."""
    best = load_classifier(run.model).to(accelerator.device)
    on_val = probabilities(best, sight(data.val), accelerator)
    thresholds = thresholds_for(config, data.val, data.classes, on_val)
    shown, judged = (data.val, on_val), None
    if data.test is not None:
        shown = (data.test, probabilities(best, sight(data.test), accelerator))
        judged = judge(shown[1], data.test.judged_by, data.classes, thresholds.above(shown[1]))
    evidence = gather(config, data, best, source, shown, thresholds, sight, accelerator) if config.run.report else None
    result = summarize(config, data, record, judged)
    if accelerator.is_main_process:
        write_thresholds(run, thresholds)
        if evidence is not None:
            write_evidence(run.evidence, evidence)
        run.write_result(result)
        present_missing(run)
    accelerator.wait_for_everyone()
    return result


def thresholds_for(config: Config, split: Split, classes: Sequence[str], found: npt.NDArray[np.float32]) -> Thresholds:
    """Thresholds fitted on what a model found [N, C] in the images of a split, by the options of `config`."""
    return fit_thresholds(
        found,
        split.judged_by,
        classes,
        config.thresholds,
        is_complete=split.truth is not None,
        expected_positives=config.train.expected_positives,
        split=split.name,
    )


def write_thresholds(run: RunFolder, thresholds: Thresholds) -> None:
    """Writes them into the run and, for those who take the model alone, into the model's folder."""
    for file in (run.model / run.thresholds.name, run.thresholds):
        write_json(file, as_json(thresholds))


def present_missing(run: RunFolder) -> None:
    """Writes what the folder of a finished run lacks of its model card and its report, from the rest of it."""
    if not run.card.is_file():
        write_card(run)
    if run.evidence.is_file() and not run.report.is_file():
        write_report(run)
