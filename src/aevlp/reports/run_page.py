"""The page of a run (`report.html`), made from the run folder and the image files that still exist."""

import logging
import shlex
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

import numpy as np
from jinja2 import TemplateError

from aevlp.config.methods import find_method
from aevlp.core.errors import UserError, one_line
from aevlp.core.files import read_json, short_name, write_text
from aevlp.core.progress import duration
from aevlp.reports import charts
from aevlp.reports.charts import History
from aevlp.reports.evidence import GRIDS, Evidence, Example, read_evidence
from aevlp.reports.layout import render_page
from aevlp.reports.pictures import shown_examples
from aevlp.training.calibration import Reliability
from aevlp.training.run_folder import RunFolder
from aevlp.training.thresholds import Thresholds, read_thresholds

log = logging.getLogger("aevlp")
Result = dict[str, Any]  # the content of `result.json`

MOST_ROWS = 2000  # classes in the table; of more, the best and the worst
SPLIT_NAMES = {"val": "validation", "test": "test", "train": "training"}
SECTIONS = {
    "training": "Training",
    "distributions": "Probabilities",
    "pseudo-labels": "Pseudo-labels",
    "classes": "Classes",
    "curves": "Precision and recall",
    "reliability": "Reliability",
    "mistakes": "Worst mistakes",
    "found": "New labels",
    "teacher": "Teacher",
    "settings": "Settings",
}


def write_report(run: RunFolder) -> Path:
    """Write the page of a finished run and return its path."""
    result = run.read_whole_result()
    if result is None:
        raise UserError(
            f"{run.path}: the training is not finished; continue with aevlp train DATA --out {run.path} --resume, "
            "which writes the report at its end"
        )
    if not run.evidence.is_file():
        raise UserError(
            f"{run.path}: {run.evidence.name} is missing (trained with --report false or by aevlp before 0.4), so there is no "
            f"data for a report; train it again: aevlp train DATA --out OTHER --recipe {run.config}"
        )
    evidence = read_evidence(run.evidence)
    thresholds = read_thresholds(run.thresholds, evidence.classes)
    history = run.read_metrics()
    config = run.config.read_text(encoding="utf-8", errors="replace")
    before = read_json(run.rounds).get("verdict") if run.rounds.is_file() else None
    try:
        page = _page(run, result, history, evidence, thresholds, config, before)
    except (ArithmeticError, LookupError, TemplateError, TypeError, ValueError) as error:
        # Each file is sound by itself; the debug log has the traceback.
        log.debug("the report of %s failed", run.path, exc_info=True)
        names = ", ".join(file.name for file in (run.result, run.metrics, run.evidence, run.thresholds))
        raise UserError(f"{run.path}: {names} are not of one training ({one_line(error)}); train the run again") from error
    write_text(run.report, page)
    return run.report


def _page(
    run: RunFolder,
    result: Result,
    history: History,
    evidence: Evidence,
    thresholds: Thresholds,
    config: str,
    before: str | None,
) -> str:
    """Return the page; `before` is the sentence about the comparison with the run before a review."""
    drawings, descriptions = _charts(result, history, evidence, thresholds)
    review = ["aevlp", "review", str(run.path.resolve())]

    def of_class(example: Example) -> str:
        return shlex.join([*review, "--class", example.label])

    def of_image(example: Example) -> str:  # a review is about training images
        return shlex.join([*review, "--image", example.path])

    return render_page(
        "run.html.j2",
        title=_title(result),
        result=result,
        labels=result.get("labels") or result.get("labels_on_val") or {},  # F1, precision and recall with the thresholds
        labels_key="labels" if result.get("labels") else "labels_on_val",
        labels_basis=_labels_basis(result, thresholds),
        threshold_head="threshold" if thresholds.basis == "complete" else "threshold, estimated",
        warnings=result.get("warnings") or [],
        answers=result.get("answers"),
        before=before,
        baselines=result.get("baselines") or {},
        evidence=evidence,
        split=SPLIT_NAMES[evidence.split],
        split_names=SPLIT_NAMES,
        sections=SECTIONS,
        notes=_notes(result, evidence, thresholds),
        training_time=duration(sum(result["images"]["train"] / line["images_per_second"] for line in history)),
        charts=drawings,
        descriptions=descriptions,
        rows=class_metrics(result, evidence, thresholds),
        ap_key="per_class_AP" if result["per_class_AP"] is not None else "",
        why_no_pseudo_labels=_why_no_pseudo_labels(result),
        mistaken=shown_examples(evidence.mistaken, of_class),
        missed=shown_examples(evidence.missed, of_class),
        found=shown_examples(evidence.found, of_image),
        teacher=shown_examples(evidence.teacher, of_image),
        shown_classes=sorted({each.label for name in GRIDS for each in getattr(evidence, name).examples}),
        label_command=_label_command(run, result),
        facts=_facts(result, thresholds),
        config=config,
    )


@dataclass(frozen=True)
class ClassMetrics:
    """A row of the table of classes; in percent, except for the threshold and the counts."""

    name: str
    ap: float | None
    threshold: float
    support: int
    observed: int
    predicted: int
    precision: float | None
    recall: float | None
    f1: float | None


def class_metrics(result: Result, evidence: Evidence, thresholds: Thresholds) -> list[ClassMetrics]:
    """Return a row per class, the best average precision first; of very many classes the best and the worst.

    Where labels are incomplete, the classes with the most observed labels come first: their average precision is not known.
    """
    measured = result["per_class_AP"] or dict(zip(evidence.classes, evidence.ap.tolist(), strict=True))
    rows = []
    for c, name in enumerate(evidence.classes):
        support, predicted, hits = (int(counts[c]) for counts in (evidence.support, evidence.given, evidence.hits))
        ap = measured[name]
        rows.append(
            ClassMetrics(
                name=name,
                ap=None if ap is None or np.isnan(ap) else ap,
                threshold=thresholds.classes[name],
                support=support,
                observed=int(evidence.observed[c]),
                predicted=predicted,
                precision=100 * hits / predicted if predicted else None,
                recall=100 * hits / support if support else None,
                f1=200 * hits / (predicted + support) if predicted + support else None,
            )
        )
    if evidence.is_complete:
        rows.sort(key=lambda row: -1.0 if row.ap is None else row.ap, reverse=True)
    else:
        rows.sort(key=lambda row: row.support + row.observed, reverse=True)
    half = MOST_ROWS // 2
    return rows if len(rows) <= MOST_ROWS else [*rows[:half], *rows[-half:]]


def _charts(
    result: Result, history: History, evidence: Evidence, thresholds: Thresholds
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the charts and their descriptions in words."""
    best = result["best_epoch"]
    limits = np.array(list(thresholds.classes.values()))
    support = int(evidence.support.sum())
    others = evidence.images * len(evidence.classes) - support
    rejected = others - int((evidence.given - evidence.hits).sum())
    drawings: dict[str, Any] = {
        "curves": [
            (heading, curves, charts.precision_recall(name, curves))
            for name, heading, curves in (
                ("best", "Best classes" if evidence.worst else "Classes", evidence.best),
                ("worst", "Worst classes", evidence.worst),
            )
            if curves and evidence.is_complete
        ],
        "reliability": _reliability(evidence, thresholds),
    }
    negatives = "negatives" if evidence.is_complete else "labels not observed"
    for name, what, counts in (
        ("positives", "positives", evidence.histograms[:, 0]),
        ("negatives", negatives, evidence.histograms[:, 1]),
    ):
        shown = counts if evidence.is_complete else counts[:1]  # the best and the worst third are not known
        drawings[name] = charts.probability_histogram(name, shown, limits, thresholds.overall, what=what)
    descriptions = {
        "positives": f"{_percent(int(evidence.hits.sum()), support)} above their thresholds",
        "negatives": f"{_percent(rejected, others)} below their thresholds",
    }
    if history:
        drawings["loss"] = charts.metric_per_epoch("loss", history, "loss", best, label="loss")
        drawings["val"] = charts.metric_per_epoch("val", history, "val_mAP", best, label="mAP, %")
        descriptions["loss"] = f"The loss goes from {history[0]['loss']:.4f} to {history[-1]['loss']:.4f}."
        descriptions["val"] = f"The best validation mAP, {result['val_mAP']:.2f}, is that of epoch {best}."
    if any(line["pseudo_labels"] is not None for line in history):
        last = history[-1]["pseudo_labels"]
        for metric in ("precision", "recall"):
            drawings[metric] = charts.pseudo_label_quality(metric, history, metric)
            average, total = (
                "unknown" if last[key] is None else f"{100 * last[key]:.1f} %" for key in (metric, f"accumulated_{metric}")
            )
            descriptions[metric] = f"Average {metric} {average}, accumulated {total}."
    return drawings, descriptions


def _reliability(evidence: Evidence, thresholds: Thresholds) -> list[tuple[str, str, str]]:
    """Return (title, chart, description) for the images that calibration was fitted on and for the evaluated split."""
    found: list[tuple[str, Reliability, Reliability | None]] = []
    if (fitted := thresholds.calibration) is not None:
        name = SPLIT_NAMES[thresholds.split].capitalize()
        found.append((f"{name} images, each half calibrated on the other", fitted.before, fitted.after))
    if evidence.reliability is not None and (evidence.split != thresholds.split or not found):
        found.append((f"{SPLIT_NAMES[evidence.split].capitalize()} images", *evidence.reliability))
    described = []
    for number, (heading, before, after) in enumerate(found):
        error = f"Calibration error {before.error:.3f}"
        error += "." if after is None else f" before, {after.error:.3f} after."
        described.append((heading, charts.reliability(f"reliability-{number}", before, after), error))
    return described


def _label_command(run: RunFolder, result: Result) -> str:
    """Return the command that makes the proposals that a review of the run shows."""
    model = ["--recipe", str(run.config.resolve())] if run.is_zero_shot else ["--run", str(run.path.resolve())]
    return shlex.join(["aevlp", "label", str(result.get("data")), *model, "--out", str(run.completed.resolve())])


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "none"


def _title(result: Result) -> str:
    """Return the method and the name of the image set."""
    name = short_name(PurePath(result.get("data") or ""))
    return f"{result['method']} on {name}" if name else str(result["method"])


def _labels_basis(result: Result, thresholds: Thresholds) -> str:
    """Return what the metrics of the predicted labels rest on, in a few words."""
    fitted = "measured" if thresholds.basis == "complete" else "estimated"
    if result.get("labels"):
        return f"measured on test images; thresholds {fitted} on {SPLIT_NAMES[thresholds.split]} images"
    own = result.get("labels_on_val") or {}
    if own.get("basis") == "estimated":
        return f"estimated from observed validation labels, for {own['labels_per_image']:.2f} labels per image"
    return "measured on the validation images that the thresholds were fitted on"


def _notes(result: Result, evidence: Evidence, thresholds: Thresholds) -> list[str]:
    """Return warnings and advice for the reader."""
    found = []
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


def _facts(result: Result, thresholds: Thresholds) -> list[tuple[str, str]]:
    """Return names and values of the main settings; unknown ones are left out."""
    precision = f" {100 * thresholds.precision:g} %" if thresholds.precision is not None else ""
    expected = result.get("expected_positives")
    tuned = ", ".join(f"{key} {value}" for key, value in (result.get("chosen") or {}).items())
    found = [
        ("image set", result.get("data")),
        ("method", result["method"]),
        ("recipe", f"{result['recipe']}, {result.get('protocol', 'common')} protocol, seed {result['seed']}"),
        ("backbone", f"none: features of {result['features']}" if result.get("features") else result["backbone"]),
        ("mode", result.get("mode", "full")),
        ("teacher", result["teacher"]),
        ("teacher check", _teacher_check(result)),
        ("chosen by tuning", tuned or None),
        ("classes", f"{len(result['classes']):,}"),
        ("expected positives", None if expected is None else f"{expected:.2f} per image"),
        ("thresholds", f"for {thresholds.aim}{precision}, on {thresholds.images:,} {SPLIT_NAMES[thresholds.split]} images"),
        ("versions", ", ".join(f"{name} {version}" for name, version in result["versions"].items())),
    ]
    return [(name, value) for name, value in found if value is not None]


def _teacher_check(result: Result) -> str | None:
    """Return how well the teacher knows the classes; None if it was not checked."""
    if not (check := result.get("teacher_check")):
        return None
    first, chance = f"{100 * check['first']:.0f} %", f"{100 * check['chance']:.0f} %"
    text = f"the tag is first in {first} of {check['images']:,} training images; chance {chance}"
    return f"{text}; classes that it does not see: {', '.join(check['unseen'])}" if check["unseen"] else text


def _why_no_pseudo_labels(result: Result) -> str:
    """Return why the section of pseudo-labels is left out."""
    method = find_method(result["method"])
    source = method.source
    if method.loss is None:
        return f"{method.name} trains nothing, so it uses none."
    if source.name == "none":
        return f"{result['method']} uses no pseudo-labels."
    if not source.has_pseudo_labels:
        return f"{result['method']} adds no binary pseudo-labels to the observed labels."
    return "the true labels of the training images are not known, so the pseudo-labels cannot be checked."
