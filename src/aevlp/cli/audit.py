"""aevlp audit: the quality of proposed labels, by the answers of an audit."""

from argparse import Namespace
from collections.abc import Sequence
from math import floor
from pathlib import Path

import numpy as np
from rich.table import Table

from aevlp.core.errors import UserError, require
from aevlp.core.options import Parser
from aevlp.core.remote import local_path, location
from aevlp.core.tables import next_steps, show
from aevlp.data.annotations import ScoreKind
from aevlp.data.answers import AnswerStore, answers_file
from aevlp.data.dataset import ImageTable
from aevlp.data.readers import read
from aevlp.inference.review.audit import AuditFigures, Band, measure_audit
from aevlp.training.intervals import LEVEL, Interval

PRECISION = 0.9


def audit(argv: Sequence[str]) -> None:
    """Read out an audit: the measured precision and recall of the proposed labels."""
    parser = Parser("audit", audit.__doc__ or "", "aevlp audit completed.jsonl")
    parser.add_argument("data", type=location, metavar="FILE", help="the labels that are judged, as aevlp label writes them")
    parser.add_argument("--answers", type=local_path, metavar="FILE", help="the answers (default: answers.sqlite beside FILE)")
    parser.add_argument(
        "--precision",
        type=float,
        default=PRECISION,
        metavar="P",
        help=f"precision that proposals must keep to be accepted together (default: {PRECISION:g})",
    )
    given = parser.read(argv)
    require(0 < given.precision <= 1, "precision", "above 0 and at most 1", given.precision)
    if given.answers is None and not (file := answers_file(given.data)).is_file():
        raise UserError(f"{file}: nobody has answered yet; begin an audit on the page of aevlp review {given.data}")
    store = AnswerStore(given.answers or answers_file(given.data), must_exist=True)
    table = read(given.data, None)
    rows = _audited(table, store, given.data)
    answered, _ = store.apply(table)
    if answered.annotations.complete.intersection(rows.tolist()) and table.annotations.complete.issuperset(rows.tolist()):
        show(
            f"the labels in {given.data} were proposed after the {len(rows)} images of the audit were answered; these are "
            "validation images now, and aevlp label has measured the new labels on them"
        )
        return
    figures = measure_audit(answered, rows, given.precision, known=table.labels == 1)
    show(_headline(figures))
    if figures.answered:
        show(_band_table(figures.bands))
        show(_line(figures, answered, given.precision))
    show(_next(figures, given))


def _audited(table: ImageTable, store: AnswerStore, path: Path) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    """Return the rows of the audit's images."""
    if not len(table.annotations.scores.of(ScoreKind.PROPOSED)):
        raise UserError(f"{path}: holds no proposed labels to judge; name the file that aevlp label wrote (.jsonl or .csv)")
    drawn = set(store.audit())
    if not drawn:
        raise UserError(f"{store.path}: no audit has been drawn; begin one on the page of aevlp review {path}")
    rows = np.array([row for row, key in enumerate(store.keys_of(table.root, table.names)) if key in drawn], np.intp)
    if not len(rows):
        raise UserError(f"{store.path}: none of the {len(drawn)} images of the audit is in {path}; name another file of answers")
    return rows


def _headline(figures: AuditFigures) -> str:
    lines = [f"audit: {figures.answered} of {figures.drawn} images answered"]
    if figures.answered:
        lines += [f"{name} of the new labels: {_measured(each)}" for name, each in _shares(figures)]
    return "\n".join(lines)


def _shares(figures: AuditFigures) -> tuple[tuple[str, Interval], ...]:
    return ("precision", figures.precision), ("recall", figures.recall)


def _measured(share: Interval) -> str:
    if share.value is None:
        return "unknown; the answered images have none"
    value, low, high = (floor(100 * each + 0.5) for each in (share.value, share.low, share.high))  # half up, as the page rounds
    return f"{value} % ({100 * LEVEL:.0f} % interval {low} to {high} %)"


def _band_table(bands: Sequence[Band]) -> Table:
    table = Table(box=None, pad_edge=False)
    for name in ("confidence", "proposed", "audited", "right"):
        table.add_column(name, justify="left" if name == "confidence" else "right")
    for band in bands:
        share = f"{band.right} ({100 * band.right / band.audited:.0f} %)" if band.audited else "-"
        table.add_row(f"{band.low:.1f} to {band.high:.1f}", str(band.proposed), str(band.audited), share)
    return table


def _line(figures: AuditFigures, table: ImageTable, precision: float) -> str:
    """Return which proposals may be accepted together."""
    if figures.line is not None:
        proposed = table.annotations.scores.of(ScoreKind.PROPOSED)
        is_open = table.labels[proposed.rows, proposed.columns] == 0
        count = int((is_open & (proposed.confidence >= figures.line)).sum())
        return (
            f"from confidence {figures.line:.2f} on, new labels keep a precision of {100 * precision:g} % by the lower end of "
            f"the interval: {count} of {int(is_open.sum())} open ones may be accepted together"
        )
    if figures.more_images is None:
        advice = "more audited images would hardly change that; a better model helps (aevlp label --run RUN --folds 5)"
    else:
        advice = f"about {figures.more_images} more audited images could show one, if they are like these"
        if figures.more_images > (left := figures.drawn - figures.answered):
            advice += f"; the audit has {left} left, so look at the proposals in grids"
    return f"no confidence is sure to keep a precision of {100 * precision:g} % by the lower end of the interval; {advice}"


def _next(figures: AuditFigures, given: Namespace) -> str:
    store = [] if given.answers is None else ["--answers", given.answers]
    if figures.answered < figures.drawn:
        return next_steps(["review", given.data, *store])
    return next_steps(["label", given.data, "--out", given.data.with_name(f"{given.data.stem}-next{given.data.suffix}"), *store])
