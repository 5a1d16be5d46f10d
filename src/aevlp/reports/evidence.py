"""Evidence: what a report shows beside a run's figures, gathered when its training ends and kept in one file of bounded size."""

from __future__ import annotations

import io
import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from aevlp.core.errors import UserError, one_line
from aevlp.core.files import whole_file
from aevlp.core.seeds import seed_for
from aevlp.data.splits import Split
from aevlp.reports.curves import Counts, Curve, calibrated, extremes, histograms, precision_recall
from aevlp.reports.examples import Exhibit, Gallery, Scene, Tile, gallery
from aevlp.sources import Source
from aevlp.training.calibration import Reliability
from aevlp.training.evaluate import probabilities, ranking_metrics

if TYPE_CHECKING:
    from aevlp.training.finalize import FinalEvaluation
    from aevlp.training.run import TrainedRun

FORMAT = 1
SAMPLE = 1000  # training images that are looked at again, at most
THIRDS = 6  # classes from which on the best and the worst third are told apart

Values = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Evidence:
    """What a report shows beside the figures; C classes, G groups of them (all; the best and the worst third)."""

    classes: tuple[str, ...]
    split: str  # that the model is judged on
    is_complete: bool  # whether the labels of that split are
    images: int  # in that split
    sample: int  # training images that were looked at again
    observed_per_image: float  # positives, in training
    thresholds: Values  # [C], as they were then
    ap: Values  # [C], percent; NaN: no positive in the split
    support: Counts  # [C]: positives in the split
    given: Counts  # [C]: labels above their threshold there
    hits: Counts  # [C]: positives among those
    observed: Counts  # [C]: positives in training
    histograms: Counts  # [G, 2, bins]: positives and others by probability
    best: tuple[Curve, ...]
    worst: tuple[Curve, ...]
    reliability: tuple[Reliability, Reliability | None] | None  # before and after calibration; None: it cannot be known
    mistaken: Gallery  # labels given and not there
    missed: Gallery
    found: Gallery  # labels of training images that nobody had given
    teacher: Gallery


def gather(trained: TrainedRun, final: FinalEvaluation) -> Evidence:
    """Return the evidence of a training that is over, the same in every process; all of them call it together.

    At most `SAMPLE` training images, drawn by the run's seed, are shown to the model again.
    """
    config, data, accelerator = trained.setup.config, trained.setup.data, trained.setup.accelerator
    split, found, thresholds = final.split, final.probabilities, final.thresholds
    labels, limits = split.evaluation_labels, np.array(list(thresholds.classes.values()))
    measured = ranking_metrics(found, labels, data.classes).per_class_AP
    ap = np.array([np.nan if value is None else value for value in measured.values()])
    scene = Scene(split.paths, data.classes, labels, split.truth is not None, found, limits)
    given, there = [scene.given(c) for c in range(len(data.classes))], [scene.there(c) for c in range(len(data.classes))]

    def curves(columns: list[int]) -> tuple[Curve, ...]:
        return tuple(precision_recall(found[:, c], there[c], limits[c], label=data.classes[c], ap=float(ap[c])) for c in columns)

    best, worst = extremes(ap)
    train = data.train
    count = len(train.names)
    rows = np.sort(np.random.default_rng(seed_for(config.run.seed, "report")).permutation(count)[:SAMPLE])
    part = train.part(rows)
    seen = probabilities(final.classifier, trained.inputs(part), accelerator)
    sample = Scene(part.paths, data.classes, train.evaluation_labels[rows], train.truth is not None, seen, limits)
    return Evidence(
        classes=tuple(data.classes),
        split=split.name,
        is_complete=split.truth is not None,
        images=len(split.names),
        sample=len(rows),
        observed_per_image=float((train.observed == 1).sum(1).mean()),
        thresholds=limits,
        ap=ap,
        support=_counts(there),
        given=_counts(given),
        hits=_counts([a & b for a, b in zip(given, there, strict=True)]),
        observed=(train.observed == 1).sum(0).astype(np.int64),
        histograms=histograms(found, labels, _groups(ap)),
        best=curves(best),
        worst=curves(worst),
        reliability=calibrated(found, labels, thresholds.calibration) if split.truth is not None else None,
        mistaken=gallery(scene, lambda c: given[c] & ~there[c]),
        missed=gallery(scene, lambda c: ~given[c] & there[c], lowest=True),
        found=gallery(sample, lambda c: sample.given(c) & (train.observed[rows, c] == 0)),
        teacher=_teacher(trained.setup.source, sample, rows, train),
    )


def _counts(masks: list[npt.NDArray[np.bool_]]) -> Counts:
    """Int64 [C]: how many each of C masks [N] names."""
    return np.array([np.count_nonzero(mask) for mask in masks], np.int64)


def _groups(ap: Values) -> list[npt.NDArray[np.intp]]:
    """The columns of all classes and, if they are enough, of the third with the best average precision and of the worst third."""
    order = np.array([c for c in np.argsort(-ap, kind="stable") if np.isfinite(ap[c])], np.intp)
    third = len(order) // 3
    return [np.arange(len(ap)), *([order[:third], order[-third:]] if len(order) >= THIRDS else [])]


def _teacher(source: Source, sample: Scene, rows: npt.NDArray[np.intp], train: Split) -> Gallery:
    """The pseudo-labels to look at, or why there are none."""
    from aevlp.sources.damp import Damp

    if not isinstance(source, Damp):
        return Gallery(reason="Only a method with DAMP has tiles to show.")
    if source.views.store is None:
        return Gallery(reason="What the teacher saw was not kept (--store none).")

    from aevlp.reports.tiles import gallery_of_teacher

    return gallery_of_teacher(source, sample, rows, train.observed[rows])


def write_evidence(file: Path, evidence: Evidence) -> None:
    """Writes one .npz, whole: arrays as they are, all else as JSON text."""
    values = {field.name: getattr(evidence, field.name) for field in fields(Evidence)}
    arrays: dict[str, Any] = {name: value for name, value in values.items() if isinstance(value, np.ndarray)}
    others = {"format": FORMAT, **{name: value for name, value in asdict(evidence).items() if name not in arrays}}
    content = io.BytesIO()  # numpy writing to a file itself would not say that the disk is full
    np.savez_compressed(content, text=np.frombuffer(json.dumps(others).encode(), np.uint8), **arrays)
    with whole_file(file) as out:
        out.write(content.getbuffer())


def read_evidence(file: Path) -> Evidence:
    """What `write_evidence` wrote."""
    try:
        with np.load(file, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
        others = json.loads(arrays.pop("text").tobytes())
        number = others.pop("format")
        if number <= FORMAT:
            return Evidence(**arrays, **_restored(others))
    except Exception as error:  # what numpy raises for a damaged file is not a closed list
        raise UserError(f"{file}: not what a training leaves for its report ({one_line(error)}); train the run again") from None
    raise UserError(f"{file}: written by a newer aevlp (format {number}, this one knows {FORMAT}); update aevlp")


def _restored(others: dict[str, Any]) -> dict[str, Any]:
    """The parts of the evidence that JSON knows only as lists and mappings."""

    def curve(value: dict[str, Any]) -> Curve:
        points = tuple((recall, precision) for recall, precision in value["points"])
        return Curve(value["label"], value["ap"], points, tuple(value["chosen"]) if value["chosen"] else None)

    def exhibit(value: dict[str, Any]) -> Exhibit:
        tiles = tuple(Tile(**{**tile, "box": tuple(tile["box"])}) for tile in value["tiles"])
        return Exhibit(**{**value, "others": tuple(value["others"]), "tiles": tiles})

    def reliability(value: dict[str, Any]) -> Reliability:
        return Reliability(value["error"], tuple((mean, share, cells) for mean, share, cells in value["bins"]))

    restored = {**others, "classes": tuple(others["classes"])}
    for name in ("best", "worst"):
        restored[name] = tuple(map(curve, others[name]))
    for name in ("mistaken", "missed", "found", "teacher"):
        restored[name] = Gallery(**{**others[name], "exhibits": tuple(map(exhibit, others[name]["exhibits"]))})
    if others["reliability"] is not None:
        before, after = others["reliability"]
        restored["reliability"] = (reliability(before), None if after is None else reliability(after))
    return restored
