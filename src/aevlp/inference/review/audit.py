"""An audit: a random sample of images that a person labels completely, and what it says about the proposed labels.

Every image has the same chance to be drawn, so that shares in the sample estimate shares in the whole set. The audited images are
part of that set, and theirs are known; only the rest is uncertain.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aevlp.core.errors import UserError
from aevlp.core.seeds import seed_for
from aevlp.data.annotations import WHOLE_IMAGE, Rows, ScoredCells, ScoreKind
from aevlp.data.dataset import ImageTable
from aevlp.inference.completion.claims import lowest_cut
from aevlp.training.intervals import ImageBootstrap, Interval

Doubles = NDArray[np.float64]
Flags = NDArray[np.bool_]
LEAST_WORTH = 0.2  # of an image in an interval
BANDS = (0.0, 0.3, 0.5, 0.7, 0.9, 1.0)  # limits of the bands of confidence
ALL_RIGHT = 1.92  # m proposals, all right, show a precision of 1 - 1.92 / m by the lower end of a 90 % interval
NORMAL = 1.645  # standard deviations from the middle to the end of a 90 % interval


@dataclass(frozen=True)
class Band:
    """The proposals whose confidence is from `low` to below `high`."""

    low: float
    high: float
    proposed: int  # in the whole set
    audited: int  # of which are answered in the audit
    right: int  # of which are right


@dataclass(frozen=True)
class AuditFigures:
    """The quality of the proposed labels, measured on the answered images of an audit."""

    answered: int  # images
    drawn: int  # images
    precision: Interval  # of the new labels of the whole set
    recall: Interval  # of the new labels, among all labels that were not known before
    line: float | None  # least confidence above which all proposals keep the wished precision; None: none is sure to
    more_images: int | None  # images to answer beyond these, roughly, for a line; None: there is one, or more do not help
    bands: tuple[Band, ...]  # the surest first; without those that hold no proposal


def draw_audit(table: ImageTable, count: int, seed: int) -> Rows:
    """Return the rows of a random sample of the training images, in random order.

    Complete images are left out: nothing is proposed there. The sample is spread evenly over the images in the order of their
    summed confidence of proposals, so that every stratum has its share, and every image has the same chance.
    """
    is_train = np.array(table.splits, dtype=object) == "train"
    rows = np.flatnonzero(is_train & ~np.isin(np.arange(len(is_train)), list(table.annotations.complete)))
    if not len(rows):
        raise UserError(f"{table.place}: no image is left to audit; all training images are complete")
    rng = np.random.default_rng(seed_for(seed, "audit"))
    proposed = table.annotations.scores.of(ScoreKind.PROPOSED)
    confidence = np.bincount(proposed.rows, proposed.confidence, len(is_train))
    rows = rng.permutation(rows)  # images of equal confidence in random order
    ranked = rows[np.argsort(confidence[rows], kind="stable")]
    count = min(count, len(rows))
    places = np.floor((np.arange(count) + rng.random()) * (len(rows) / count)).astype(np.intp)
    return rng.permutation(ranked[np.minimum(places, len(rows) - 1)])


def measure_audit(table: ImageTable, audited_rows: Rows, precision: float, *, known: Flags | None = None) -> AuditFigures:
    """Return the quality of the proposals in `table.annotations.scores` by an audit's answers, which the table holds.

    `precision` is the one that proposals are to keep if they are accepted together. `known` [N, C] are the labels that were
    confirmed when the proposals were made; None: those that nobody has answered.
    """
    complete = np.isin(np.arange(len(table.names)), list(table.annotations.complete))
    is_answered = np.zeros(len(table.names), bool)
    is_answered[audited_rows] = complete[audited_rows]
    answered = np.flatnonzero(is_answered)
    proposed = table.annotations.scores.of(ScoreKind.PROPOSED)
    is_audited = is_answered[proposed.rows]
    sample = _AuditSample(table, answered, proposed.at(is_audited), _known(table) if known is None else known)
    unaudited = proposed.at(~is_audited)
    # An image that was complete before anything was proposed has no score, and nothing to find.
    has_score = np.bincount(table.annotations.scores.rows, minlength=len(complete)) > 0
    is_train = np.array(table.splits, dtype=object) == "train"
    rest = int((is_train & ~is_answered & (has_score | ~complete)).sum())
    line = sample.line(unaudited, precision)
    return AuditFigures(
        answered=len(answered),
        drawn=len(audited_rows),
        precision=sample.precision(unaudited),
        recall=sample.recall(rest),
        line=line,
        more_images=sample.more_images(precision, rest) if line is None else None,
        bands=sample.bands(proposed),
    )


def _known(table: ImageTable) -> Flags:
    """Return the positives that nobody has answered: they were given with the images."""
    known: Flags = table.labels == 1
    cells = [cell for cell in table.annotations.answers if cell[1] != WHOLE_IMAGE]
    if cells:
        rows, columns = np.array(cells).T
        known[rows, columns] = False
    return known


class _AuditSample:
    """The answered images of an audit, n of them, with their proposals."""

    def __init__(self, table: ImageTable, rows: Rows, proposed: ScoredCells, known: Flags) -> None:
        self.images, self.proposed = len(rows), proposed
        self.is_right = table.labels[proposed.rows, proposed.columns] == 1
        self.image = np.searchsorted(rows, proposed.rows)  # 0..n-1 of each proposal
        self.to_find = ((table.labels[rows] == 1) & ~known[rows]).sum(1).astype(np.float64)

    def precision(self, others: ScoredCells) -> Interval:
        """Return the precision of these proposals and others together."""
        hits, claims = self._per_image(self.is_right), self._per_image()
        return _of_all(_share(hits, claims, len(others)), hits, claims, len(others))

    def recall(self, others: int) -> Interval:
        """Return the recall over these images and others together."""
        hits, to_find = self._per_image(self.is_right), round(float(self.to_find.sum()) * others / max(self.images, 1))
        return _of_all(_share(hits, self.to_find, to_find), hits, self.to_find, to_find)

    def line(self, others: ScoredCells, precision: float) -> float | None:
        """Return the least confidence from which on other proposals keep a precision; None: none is sure to."""

        def low(cut: float, is_best_case: bool) -> float:
            above = self.proposed.confidence >= cut
            hits = above if is_best_case else above & self.is_right
            return _share(self._per_image(hits), self._per_image(above), int((others.confidence >= cut).sum())).low

        cut = lowest_cut(others.confidence.astype(np.float64), low, precision)
        return None if cut == np.inf else cut

    def _per_image(self, chosen: Flags | None = None) -> Doubles:
        """Return the number of chosen proposals of each image, or of all."""
        image = self.image if chosen is None else self.image[chosen]
        return np.bincount(image, minlength=self.images).astype(np.float64)

    def more_images(self, precision: float, rest: int) -> int | None:
        """Return how many images beyond these would show a line, if proposals go on to be as right as they are here.

        None: more images do not help, as no proposals of high confidence are right often enough or too few images are left.
        """
        order = np.argsort(-self.proposed.confidence, kind="stable")
        count = np.arange(1, len(order) + 1)
        share = self.is_right[order].cumsum() / count
        if precision >= 1 or not (share > precision).any():
            return None
        spread = NORMAL**2 * share * (1 - share) / np.maximum(share - precision, 1e-9) ** 2
        wanted = np.where(share > precision, np.maximum(spread, ALL_RIGHT / (1 - precision)), np.inf)
        images = int(np.ceil((self.images * (wanted / count)).min())) - self.images
        return max(images, 1) if images <= rest else None

    def bands(self, proposed: ScoredCells) -> tuple[Band, ...]:
        """Return the bands of confidence that hold some of all the proposals."""

        def counts(confidence: NDArray[np.float32]) -> Sequence[int]:
            found: list[int] = np.histogram(confidence, BANDS)[0].tolist()
            return found

        right = counts(self.proposed.confidence[self.is_right])
        every = zip(BANDS[:-1], BANDS[1:], counts(proposed.confidence), counts(self.proposed.confidence), right, strict=True)
        return tuple(band for band in (Band(*values) for values in every) if band.proposed)[::-1]


def _share(hits: Doubles, claims: Doubles, others: int) -> Interval:
    """Return the share of hits in `others` further claims, given the hits and claims [n] of each image."""
    hits, claims = hits[claims > 0], claims[claims > 0]  # the others have no weight
    # Where a few images hold most of the claims, an interval is that of a few images: wider, as Student's is, and an image that
    # holds many claims varies more than its distance from the mean that it has drawn to itself says.
    part = claims / max(claims.sum(), 1)
    alike = 1 / max((part**2).sum(), 1e-9)
    worth = np.maximum((1 - part) ** 2 * (alike - 1) / (alike + 3), LEAST_WORTH)
    return ImageBootstrap(len(claims), seed_for(0, "audit"), worth).share(hits, claims, others)


def _of_all(share: Interval, hits: Doubles, claims: Doubles, others: int) -> Interval:
    """Return the share among these claims, whose hits are known, and others of which `share` is known."""
    if share.value is None:
        return share
    low, high = ((float(hits.sum()) + others * end) / (float(claims.sum()) + others) for end in (share.low, share.high))
    return Interval(share.value, low, high)
