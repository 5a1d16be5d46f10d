"""What the report of a run says in words: the verdict, the figures that matter, what to be careful about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

import numpy as np
from markupsafe import Markup

from aevlp.config.methods import find_method
from aevlp.core.progress import duration
from aevlp.reports.evidence import Evidence
from aevlp.reports.layout import number
from aevlp.training.thresholds import Thresholds

Result = dict[str, Any]
History = Sequence[dict[str, Any]]
LONG_NAME = {"val": "validation", "test": "test", "train": "training"}


@dataclass(frozen=True)
class Figure:
    """A figure at the top of the page."""

    label: str
    value: Markup | str
    note: Markup | str = ""


def labels_of(result: Result) -> dict[str, float | None]:
    """The figures of the labels that the thresholds give; empty for a run that has none."""
    return result.get("labels") or {}


def title(result: Result) -> str:
    """The method and what it was trained on."""
    name = PurePath(result.get("data") or "").name
    return f"{result['method']} on {name}" if name else str(result["method"])


def verdict(result: Result, evidence: Evidence) -> Markup:
    """The run in one sentence."""
    key = "val_mAP" if result["mAP"] is None else "mAP"
    said = Markup("<b>{}</b> ranks the labels of {} {} images with a mAP of <b>{}</b>").format(
        result["method"], number(evidence.images, digits=0), LONG_NAME[evidence.split], number(result[key], key)
    )
    if not evidence.is_complete:
        said += " (against the observed labels alone: a lower bound)"
    if (f1 := labels_of(result).get("macro_F1")) is not None:
        said += Markup(" and gives them with a macro F1 of <b>{}</b>").format(number(f1, "labels.macro_F1"))
    said += Markup(", trained on {} images with {} each").format(
        number(result["images"]["train"], "images.train", 0), _observed(evidence.observed_per_image)
    )
    if evidence.worst:
        best, worst = evidence.best[0], evidence.worst[-1]
        said += Markup("; best at {} ({}), weakest at {} ({})").format(
            best.label, number(best.ap, digits=1), worst.label, number(worst.ap, digits=1)
        )
    return said + "."


def _observed(per_image: float) -> Markup:
    """So many observed labels."""
    if abs(per_image - 1) < 0.05:
        return Markup("one observed label")
    return Markup("{} observed labels").format(number(per_image, digits=1))


def figures(result: Result, history: History) -> list[Figure]:
    """The figures that matter; those that are not known are left out."""
    found, labels, pseudo = [], labels_of(result), result["pseudo_labels"]
    if result["mAP"] is not None:
        differs = abs(result["mAP"] - result["mAP_present"]) > 1e-9
        present = Markup("{} over classes with a positive").format(number(result["mAP_present"], "mAP_present"))
        found.append(Figure("Test mAP", number(result["mAP"], "mAP"), present if differs else "percent, over all classes"))
    epoch = Markup("epoch {} of {}").format(number(result["best_epoch"], "best_epoch", 0), number(result["epochs"], "epochs", 0))
    bound = "" if result["val_labels"] == "complete" else "; a lower bound"
    found.append(Figure("Validation mAP", number(result["val_mAP"], "val_mAP"), epoch + bound))
    if labels.get("macro_F1") is not None:
        half = Markup("fitted thresholds; {} with 0.5").format(number(labels.get("macro_F1_at_half"), "labels.macro_F1_at_half"))
        found.append(Figure("Macro F1", number(labels["macro_F1"], "labels.macro_F1"), half))
        both = Markup("{} / {}").format(*(number(labels.get(key), f"labels.{key}", 1) for key in ("precision", "recall")))
        found.append(Figure("Precision / recall", both, "of all labels given"))
    if pseudo["precision"] is not None:
        for key in ("precision", "recall"):
            total = f"accumulated_{key}"
            accumulated = Markup("{} accumulated").format(number(pseudo[total], f"pseudo_labels.{total}", 1, 100))
            value = number(pseudo[key], f"pseudo_labels.{key}", 1, 100)
            found.append(Figure(f"Pseudo-label {key}", value, accumulated))
    others = [f"{count:,} {LONG_NAME[name]}" for name, count in result["images"].items() if name != "train"]
    found.append(Figure("Training images", number(result["images"]["train"], "images.train", 0), ", ".join(others)))
    seconds = sum(result["images"]["train"] / line["images_per_second"] for line in history)
    rate = Markup("{} images/s").format(number(result["images_per_second"], "images_per_second", 0))
    found.append(Figure("Time in training", duration(seconds), rate))
    return found


def notes(result: Result, evidence: Evidence, thresholds: Thresholds) -> list[str]:
    """What a reader should be careful about, or could do better."""
    found = []
    if result["best_epoch"] == result["epochs"] > 1:
        found.append("The best epoch is the last one: more epochs may do better (--epochs).")
    if result["val_labels"] != "complete":
        found.append("The validation labels are incomplete: validation mAP is measured on the observed ones, a lower bound.")
    if thresholds.basis == "estimated":
        found.append(
            f"Thresholds rest on an estimate of {thresholds.positives:.2f} labels per image, since the labels "
            "that they were fitted on are incomplete."
        )
    if not np.allclose(evidence.thresholds, list(thresholds.classes.values())):
        found.append(
            "The thresholds have been fitted anew since the training: precision, recall and F1 of the classes and all galleries "
            "are those of the thresholds before."
        )
    if without := int((evidence.support == 0).sum()):
        found.append(
            f"{without} of {len(evidence.classes)} classes have no positive among the {LONG_NAME[evidence.split]} images: mAP "
            "counts them as 0, as the literature does."
        )
    return found


def facts(result: Result, thresholds: Thresholds) -> list[tuple[str, str]]:
    """The settings in short."""
    wanted = f" {100 * thresholds.precision:g} %" if thresholds.precision is not None else ""
    expected = result.get("expected_positives")
    tuned = ", ".join(f"{key} {value}" for key, value in (result.get("chosen") or {}).items())
    found = [
        ("image set", result.get("data")),
        ("method", result["method"]),
        ("recipe", f"{result['recipe']}, {result.get('protocol', 'common')} protocol, seed {result['seed']}"),
        ("backbone", result["backbone"] or f"none: features of {result['features']}"),
        ("mode", result.get("mode", "full")),
        ("teacher", result["teacher"]),
        ("chosen by tuning", tuned or None),
        ("classes", f"{len(result['classes']):,}"),
        ("expected positives", None if expected is None else f"{expected:.2f} per image"),
        ("thresholds", f"for {thresholds.aim}{wanted}, on {thresholds.images:,} {LONG_NAME[thresholds.split]} images"),
        ("versions", ", ".join(f"{name} {version}" for name, version in result["versions"].items())),
    ]
    return [(name, value) for name, value in found if value is not None]


def why_no_pseudo_labels(result: Result) -> str:
    """Why the section of pseudo-labels is left out."""
    source = find_method(result["method"]).source
    if source.name == "none":
        return f"{result['method']} uses no pseudo-labels."
    if source.yields != "pseudo":
        return f"what {result['method']} adds to the observed labels are no pseudo-labels of 0 or 1."
    return "the true labels of the training images are not known, so there is nothing to measure them by."


def found_summary(evidence: Evidence) -> str:
    """How many labels nobody had given, and how many of them are true."""
    found = evidence.found
    text = f"In {evidence.sample:,} training images looked at again it finds {found.total:,} of them"
    if found.agreed is None or not found.total:
        return f"{text}." if found.agreed is not None else f"{text}; whether they are true is not known."
    return f"{text}, of which {100 * found.agreed / found.total:.1f} % are true."


def teacher_summary(evidence: Evidence) -> str:
    """Which pseudo-labels are shown, and of how many."""
    teacher = evidence.teacher
    text = f"Of the {teacher.total:,} pseudo-labels of {evidence.sample:,} images in the first epoch"
    if teacher.agreed is None:
        return f"{text}, those that the trained model doubts most."
    return f"{text}, {teacher.total - teacher.agreed:,} are wrong; here are those that the teacher was surest of."
