"""The training of a run and its end: figures, the evidence for the report, the model card and the report."""

from typing import Any

from accelerate import Accelerator

from aevlp.config.config import Config
from aevlp.core.engine import make_accelerator
from aevlp.data.dataset import Dataset
from aevlp.reports.collect import collect_evidence
from aevlp.reports.evidence import write_evidence
from aevlp.reports.model_card import write_card
from aevlp.reports.run_page import write_report
from aevlp.training.finalize import evaluate_best, write_result
from aevlp.training.run import TrainedRun, run
from aevlp.training.run_folder import RunFolder


def train_and_finalize(
    config: Config, data: Dataset, folder: RunFolder, accelerator: Accelerator | None, *, resume: bool
) -> dict[str, Any]:
    """Train into a run folder that is free or may be resumed, and return the content of `result.json`."""
    with run(config, data, folder, accelerator or make_accelerator(config.engine), resume=resume) as trained:
        return finalize(trained)


def finalize(trained: TrainedRun) -> dict[str, Any]:
    """Write everything that a finished run has, and return its result."""
    setup, accelerator = trained.setup, trained.setup.accelerator
    final = evaluate_best(trained)
    evidence = collect_evidence(trained, final) if setup.config.run.report else None
    if evidence is not None and accelerator.is_main_process:
        write_evidence(trained.folder.evidence, evidence)
    result = write_result(trained, final)
    if accelerator.is_main_process:
        write_missing_pages(trained.folder)
        trained.trackers.log_result(result)
        trained.trackers.log_files()
    accelerator.wait_for_everyone()
    return result


def write_missing_pages(run: RunFolder) -> None:
    """Write the model card and the report of a finished run, unless they are there; the run folder has all they need."""
    if not run.card.is_file():
        write_card(run)
    if run.evidence.is_file() and not run.report.is_file():
        write_report(run)
