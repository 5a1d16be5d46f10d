"""aevlp label: complete the labels of an image set."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aevlp.cli.arguments import configured
from aevlp.config.config import Config
from aevlp.core.errors import UserError, require
from aevlp.core.options import Parser
from aevlp.core.tables import show
from aevlp.inference.completion.formats import FORMATS, OPTION, check, check_place, format_of, write
from aevlp.inference.model_location import require_same_classes
from aevlp.store.location import store_root
from aevlp.training.run_folder import RunFolder, open_run

if TYPE_CHECKING:
    from aevlp.data.dataset import Dataset
    from aevlp.inference.completion.complete import Completion

log = logging.getLogger("aevlp")


def label(argv: Sequence[str]) -> None:
    """Complete the labels: every image with its observed labels, the proposed ones, and how sure."""
    completion, out = completed(argv)
    show(_summary(completion, out))


def completed(argv: Sequence[str]) -> tuple[Completion, Path]:
    """(the completed labels, the file that they were written to) for the arguments of the command."""

    def add(parser: Parser) -> None:
        parser.add_argument("data", type=Path, metavar="DATA", help="the image set")
        parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="the file to write")
        formats = "; ".join(f"{name}: {kind.summary}" for name, kind in FORMATS.items())
        parser.add_argument(OPTION, dest="out_format", metavar="NAME", help=f"{formats} (default: by the name of the file)")
        parser.add_argument(
            "--image-prefix", metavar="TEXT", help="how the images' addresses begin, in a format that has such (default: its own)"
        )
        parser.add_argument("--run", type=Path, metavar="RUN", help="ask the model of this run too (default: the teacher alone)")
        parser.add_argument(
            "--folds",
            type=int,
            metavar="N",
            help="train N models like the run's, and ask of each image one that has not seen it (default: ask the run's own)",
        )
        parser.add_argument(
            "--witness",
            choices=["teacher", "model", "both"],
            help="whom to ask (default: the teacher, and the model if --run names one)",
        )
        parser.add_argument(
            "--min-precision", type=float, metavar="P", help="propose as many labels as this precision allows (default: best F1)"
        )
        parser.add_argument(
            "--min-negative-precision",
            type=float,
            default=0.99,
            metavar="P",
            help="propose as many absences as this precision allows (default: 0.99)",
        )

    given, config = configured("label", label.__doc__ or "", _with_recipe_of_run(argv), add)
    require(given.folds is None or given.folds >= 2, "folds", "at least 2", given.folds)
    for name in ("min_precision", "min_negative_precision"):
        value = getattr(given, name)
        require(value is None or 0 < value <= 1, name.replace("_", "-"), "above 0 and at most 1", value)
    run = None if given.run is None else open_run(given.run)
    asks_teacher, asks_model = _witnesses(given.witness, run, config)
    if given.folds is not None and not asks_model:
        raise UserError("--folds: trains models like a run's; name the run with --run, and ask it (--witness model or both)")
    out, format = given.out, format_of(given.out, given.out_format)
    check_place(format, out, image_prefix=given.image_prefix)

    from aevlp.data.load import load

    root = store_root(config.run.store)
    data = load(given.data, config.data, root)
    images = len(data.train.names)
    require(
        given.folds is None or given.folds <= images, "folds", f"at most {images}, the number of training images", given.folds
    )
    check(format, out, root=data.train.root, classes=data.classes, image_prefix=given.image_prefix)

    from aevlp.core.engine import make_accelerator
    from aevlp.inference.completion.complete import Request, complete
    from aevlp.models.model_folder import model_classes

    if run is not None:
        config = _as_chosen(config, run)
    if run is not None and asks_model:
        require_same_classes(data.classes, model_classes(run.model), given.data, given.run)
        _warn_of_told_labels(data, run, given.folds)
    accelerator = make_accelerator(config.engine)
    request = Request(
        config=config,
        data=data,
        run=run if asks_model else None,
        folds=given.folds,
        asks_teacher=asks_teacher,
        min_precision=given.min_precision,
        min_negative_precision=given.min_negative_precision,
        root=root,
    )
    completion = complete(request, accelerator)
    if accelerator.is_main_process:
        place = {"root": data.train.root, "classes": data.classes, "image_prefix": given.image_prefix}
        write(format, out, completion.records(), **place)
    return completion, out


def _with_recipe_of_run(argv: Sequence[str]) -> list[str]:
    """The arguments, with the configuration of `--run` as the recipe unless they name another."""
    words = list(argv)
    options = {word.split("=")[0] for word in words}
    if "--run" not in options or "--recipe" in options:
        return words
    at = next(i for i, word in enumerate(words) if word.split("=")[0] == "--run")
    run = words[at].partition("=")[2] or (words[at + 1] if at + 1 < len(words) else "")
    return [*words, "--recipe", str(open_run(Path(run)).config)] if run else words


def _witnesses(asked: str | None, run: RunFolder | None, config: Config) -> tuple[bool, bool]:
    """(whether the teacher is asked, whether a model is)."""
    has_teacher = config.method.source.name == "damp"
    if asked is None:
        asked = "teacher" if run is None else "both" if has_teacher else "model"
    if asked != "model" and not has_teacher:
        raise UserError(
            f"--witness {asked}: the method {config.method.name} has no teacher to ask; use --witness model, "
            "or name a recipe that has one (--recipe)"
        )
    if asked != "teacher" and run is None:
        raise UserError(f"--witness {asked}: no model to ask; name a trained run with --run")
    return asked != "model", asked != "teacher"


def _as_chosen(config: Config, run: RunFolder) -> Config:
    """The configuration with what the run's training has chosen itself: it is not chosen anew."""
    chosen = {key.removeprefix("damp."): value for key, value in ((run.read_result() or {}).get("chosen") or {}).items()}
    options: Any = config.source
    is_left_to_it = getattr(options, "tune", False)
    return replace(config, source=replace(options, **chosen, tune=False)) if chosen and is_left_to_it else config


def _warn_of_told_labels(data: Dataset, run: RunFolder, folds: int | None) -> None:
    """Says so where a model judges images whose labels it was trained on."""
    result = run.read_result() or {}
    if folds is not None or result.get("data") != str(data.train.root.resolve()):
        return
    log.warning("the model of %s was trained on labels of these images and hardly doubts them; --folds 5 avoids that", run.path)
    from aevlp.data.dataset import data_fingerprint

    if result.get("fingerprint") != data_fingerprint(data):
        log.warning("since then images, labels or their order have changed: it may have been trained on validation images too")


def _summary(completion: Completion, out: Path) -> str:
    """What was done, in a few lines."""
    verdicts, data = completion.verdicts, completion.data
    splits = [split for split in (data.train, data.val) if split.name in verdicts]
    images = sum(len(split.names) for split in splits)

    def per_image(count: int) -> str:
        return f"{count / max(images, 1):.2f}"

    observed = sum(int((split.observed == 1).sum()) for split in splits)
    proposed, denied, doubted = (
        sum(int(getattr(verdict, name).sum()) for verdict in verdicts.values()) for name in ("proposed", "denied", "doubted")
    )
    lines = [
        f"{images} images: {per_image(observed)} observed labels each, {per_image(proposed)} proposed, "
        f"{per_image(denied)} proposed to be absent; {doubted} observed ones are doubted"
    ]
    if (weighing := completion.weighing) is not None:
        basis = {
            "complete": "measured on fully labelled validation images",
            "estimated": "estimated from observed labels, too high if the witnesses are weak; --train.expected_positives helps",
        }[weighing.basis]
        if weighing.to_find == 0:
            lines.append("nothing is proposed: the images to weigh by have no label that is not observed")
        elif weighing.propose == float("inf"):
            lines.append("nothing is proposed: no confidence reaches the precision that was asked for")
        else:
            lines.append(f"proposed labels: precision {weighing.precision:.3f}, recall {weighing.recall:.3f} ({basis})")
    else:
        lines.append("no label to weigh by: proposed by the teacher's own rule, or the run's thresholds")
    if data.train.truth is not None and (data.train.observed == 0).any():
        lines.append(_against_truth(completion))
    return "\n".join([*lines, f"written: {out}"])


def _against_truth(completion: Completion) -> str:
    """How good the proposals are where the truth is known; nothing was fitted to it."""
    from aevlp.damp.quality import precision_recall

    train = completion.data.train
    assert train.truth is not None
    verdict = completion.verdicts["train"]
    precision, recall = precision_recall(verdict.proposed, train.observed, train.truth)
    labels = verdict.proposed | (train.observed == 1)
    there = train.truth == 1
    hits = int((labels & there).sum())
    wrong = int((verdict.denied & there).sum()) / max(int(verdict.denied.sum()), 1)
    shown = [f"{value:.3f}" if value is not None else "-" for value in (precision, recall)]
    return (
        f"against the labels that were hidden: proposed labels precision {shown[0]}, recall {shown[1]}; with the observed ones "
        f"precision {hits / max(labels.sum(), 1):.3f}, recall {hits / max(there.sum(), 1):.3f}; "
        f"{100 * wrong:.2f} % of the absences wrong"
    )
