"""The texts of a run's page that depend on many facts; the others are in the templates."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

import numpy as np

from aevlp.config.methods import find_method
from aevlp.reports.evidence import Evidence
from aevlp.training.thresholds import Thresholds

Result = dict[str, Any]  # the content of `result.json`
SPLIT_NAMES = {"val": "validation", "test": "test", "train": "training"}


def title(result: Result) -> str:
    """Return the method and the name of the image set."""
    name = PurePath(result.get("data") or "").name
    return f"{result['method']} on {name}" if name else str(result["method"])


def notes(result: Result, evidence: Evidence, thresholds: Thresholds) -> list[str]:
    """Return warnings and advice for the reader."""
    found = []
    if result["best_epoch"] == result["epochs"] > 1:
        found.append("The best epoch is the last one: more epochs may help (--epochs).")
    if result["val_labels"] != "complete":
        found.append("The validation labels are incomplete: validation mAP counts observed labels only and is a lower bound.")
    if thresholds.basis == "estimated":
        found.append(
            f"The thresholds rest on an estimate of {thresholds.positives:.2f} labels per image, because they were fitted on "
            "incomplete labels."
        )
    if not np.allclose(evidence.thresholds, list(thresholds.classes.values())):
        found.append(
            "The thresholds were refitted after training: precision, recall and F1 per class and all examples still use the "
            "earlier thresholds."
        )
    if without := int((evidence.support == 0).sum()):
        found.append(
            f"{without} of {len(evidence.classes)} classes have no positive among the {SPLIT_NAMES[evidence.split]} images: mAP "
            "counts them as 0, as the literature does."
        )
    return found


def facts(result: Result, thresholds: Thresholds) -> list[tuple[str, str]]:
    """Return names and values of the main settings; unknown ones are left out."""
    precision = f" {100 * thresholds.precision:g} %" if thresholds.precision is not None else ""
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
        ("thresholds", f"for {thresholds.aim}{precision}, on {thresholds.images:,} {SPLIT_NAMES[thresholds.split]} images"),
        ("versions", ", ".join(f"{name} {version}" for name, version in result["versions"].items())),
    ]
    return [(name, value) for name, value in found if value is not None]


def why_no_pseudo_labels(result: Result) -> str:
    """Return why the section of pseudo-labels is left out."""
    source = find_method(result["method"]).source
    if source.name == "none":
        return f"{result['method']} uses no pseudo-labels."
    if source.yields != "pseudo":
        return f"{result['method']} adds no binary pseudo-labels to the observed labels."
    return "the true labels of the training images are not known, so the pseudo-labels cannot be checked."
