"""aevlp train: one run."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from aevlp.cli.arguments import DRY_RUN, configured
from aevlp.core.errors import UserError
from aevlp.core.options import Parser
from aevlp.core.tables import next_steps, show
from aevlp.training.run_folder import RunFolder

RESUME_OR_OVERWRITE = "--resume and --overwrite exclude each other: leave one out"


def train(argv: Sequence[str]) -> None:
    """Train a classifier that finds all labels from images of which only some are known."""

    def add(parser: Parser) -> None:
        parser.add_argument("data", type=Path, metavar="DATA", help="the image set")
        parser.add_argument("--out", type=Path, required=True, metavar="RUN", help="folder for the run")
        parser.add_argument("--resume", action="store_true", help="continue the run in --out where it stopped (default: false)")
        parser.add_argument("--overwrite", action="store_true", help="replace the run in --out (default: false)")
        parser.add_argument("--dry-run", action="store_true", help=DRY_RUN)

    given, config = configured("train", train.__doc__ or "", argv, add, example="aevlp train photos --out runs/first")
    if given.resume and given.overwrite:
        raise UserError(RESUME_OR_OVERWRITE)

    from aevlp.experiments.train import estimate_run, train_run

    if given.dry_run:
        show("\n".join(estimate_run(config, given.data)))
        show(next_steps(["train", *(word for word in argv if word != "--dry-run")]))
        return
    result = train_run(config, given.data, RunFolder(given.out), resume=given.resume, overwrite=given.overwrite)
    show(_summary(result, given.out, given.data))


def _summary(result: dict[str, Any], out: Path, data: Path) -> str:
    """Describe a finished run in a few lines: its figures, warnings and files, and what to do next."""
    bound = "" if result["val_labels"] == "complete" else " (of observed labels: a lower bound)"
    baselines = result.get("baselines") or {}  # runs of 0.6.0 have neither them nor warnings
    beside = {"chance": baselines.get("chance"), "the teacher alone": baselines.get("teacher")}
    others = ", ".join(f"{name} {value:.2f}" for name, value in beside.items() if value is not None)
    epochs = f"best epoch {result['best_epoch']} of {result['epochs']}" if result["epochs"] else "nothing trained"
    lines = [f"{result['method']}, {epochs}: val mAP {result['val_mAP']:.2f}{bound}{'; ' if others else ''}{others}"]
    if result["mAP"] is not None:
        lines.append(f"test mAP {result['mAP']:.2f}")
        if abs(result["mAP"] - result["mAP_present"]) > 1e-9:
            lines[-1] += f" ({result['mAP_present']:.2f} over the classes that have a positive there)"
    found, split = (result["labels"], "test") if result["labels"] else (result.get("labels_on_val"), "val")
    if found:
        basis = found.get("basis", "measured")
        half = f"{found['macro_F1_at_half']:.2f} at 0.5"
        if basis == "estimated":
            basis += f" for {found['labels_per_image']:.2f} labels per image"
        fitted = "" if split == "test" else ", the images that they were fitted on"
        lines.append(f"labels by thresholds: macro F1 {found['macro_F1']:.2f} on {split}{fitted}, {basis} ({half})")
    lines += [f"WARNING: {text}" for text in result.get("warnings") or ()]
    report = RunFolder(out).report
    content = "model and figures" if result["epochs"] else "figures"
    lines.append(f"{content}: {out}{f'; report: {report}' if report.is_file() else ''}")
    use = [["predict", out, "PATH"], ["label", data, "--run", out, "--out", "completed.csv"]]
    if not result["epochs"]:
        use = [["label", data, "--recipe", RunFolder(out).config, "--out", "completed.csv"]]
    is_bad = False in (baselines.get("beats_chance"), baselines.get("beats_teacher"))
    return "\n".join([*lines, next_steps(*([["check", data]] if is_bad else use))])
