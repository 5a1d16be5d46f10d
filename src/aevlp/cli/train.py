"""aevlp train: one run."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from aevlp.cli.arguments import DRY_RUN, configured
from aevlp.core.errors import UserError
from aevlp.core.options import Parser
from aevlp.core.remote import local_path, location
from aevlp.core.tables import next_steps, show
from aevlp.data.answers import completed_file
from aevlp.training.run_folder import RunFolder

ALWAYS = "always"
RESUME = ("auto", ALWAYS)
RESUME_HELP = "continue the run in --out where it stopped; auto: or start it, if it is not there (default: start)"
RESUME_OR_OVERWRITE = "--resume and --overwrite exclude each other: leave one out"


def train(argv: Sequence[str]) -> None:
    """Train a classifier that finds all labels from images of which only some are known."""

    def add(parser: Parser) -> None:
        parser.add_argument("data", type=location, metavar="DATA", help="the image set")
        parser.add_argument("--out", type=local_path, required=True, metavar="RUN", help="folder for the run")
        parser.add_argument("--resume", choices=RESUME, metavar="[auto]", help=RESUME_HELP)
        parser.add_argument("--overwrite", action="store_true", help="replace the run in --out (default: false)")
        parser.add_argument("--dry-run", action="store_true", help=DRY_RUN)

    example, words = "aevlp train photos --out runs/first", _with_resume(argv)
    given, config = configured("train", train.__doc__ or "", words, add, example=example)
    if given.resume and given.overwrite:
        raise UserError(RESUME_OR_OVERWRITE)

    from aevlp.experiments.train import estimate_run, train_run

    if given.dry_run:
        show("\n".join(estimate_run(config, given.data)))
        show(next_steps(["train", *(word for word in argv if word != "--dry-run")]))
        return
    folder = RunFolder(given.out)
    resume: Literal["auto"] | bool = "auto" if given.resume == "auto" else given.resume is not None
    try:
        result = train_run(config, given.data, folder, resume=resume, overwrite=given.overwrite)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(_how_to_go_on(given.data, folder)) from None
    show(_summary(result, given.out, given.data))


def _with_resume(argv: Sequence[str]) -> list[str]:
    """Return the words with a value for `--resume`: alone it means always. argparse would take DATA after it for its value."""
    words: list[str] = []
    for word in argv:
        if words[-1:] == [f"--resume={ALWAYS}"] and word == "auto":
            words[-1] = "--resume=auto"
        else:
            words.append(f"--resume={ALWAYS}" if word == "--resume" else word)
    return words


def _how_to_go_on(data: Path, folder: RunFolder) -> str:
    """Return the command that goes on with an interrupted training; the run folder knows its options."""
    if not folder.config.is_file():
        return "the training had not begun"
    return f"go on with: {shlex.join(['aevlp', 'train', str(data), '--out', str(folder.path), '--resume'])}"


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
    return "\n".join([*lines, next_steps(*_next(result, baselines, out, data))])


def _next(result: dict[str, Any], baselines: dict[str, Any], out: Path, data: Path) -> list[list[object]]:
    """Return the commands that people mostly give after a training: what to do depends on how good it is."""
    if baselines.get("beats_chance") is False:
        return [["check", data]]
    predict, label = ["predict", out, "PATH"], ["label", data, "--out", completed_file(data)]
    teacher_alone = [*label, "--recipe", RunFolder(out).config]
    if not result["epochs"]:
        return [teacher_alone]
    return [teacher_alone, predict] if baselines.get("beats_teacher") is False else [predict, [*label, "--run", out]]
