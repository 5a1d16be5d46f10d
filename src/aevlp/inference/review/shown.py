"""Grids, images and the audit as the page gets them."""

from dataclasses import asdict
from typing import Any

import numpy as np

from aevlp.data.annotations import ScoreKind
from aevlp.inference.review.seats import Grid, ImageMode
from aevlp.inference.review.session import ReviewSession
from aevlp.training.intervals import Interval

FEW_AUDITED = 20  # images, below which nobody is told that the proposals are too often wrong
KINDS = {ScoreKind.PROPOSED: "proposed", ScoreKind.CANDIDATE: "candidate", ScoreKind.DOUBTED: "doubted"}


def shown_grid(session: ReviewSession, grid: Grid | None) -> dict[str, Any] | None:
    """Return a grid: its class, what settling it does, and its cells."""
    if grid is None:
        return None
    scores = session.state.scores
    return {
        "label": grid.column,
        "accepts": grid.accepts,
        "reason": grid.reason,
        "open": int(np.count_nonzero(session.state.is_open & (scores.columns == grid.column))),
        "cells": [
            {
                "cell": cell,
                "row": int(scores.rows[cell]),
                "file": session.table.names[scores.rows[cell]],
                "confidence": round(float(scores.confidence[cell]), 4),
                "kind": KINDS[ScoreKind(int(scores.kinds[cell]))],
            }
            for cell in grid.cells.tolist()
        ],
    }


def shown_image(session: ReviewSession, row: int | None, mode: ImageMode) -> dict[str, Any] | None:
    """Return an image with everything that is known about its labels, those to answer first."""
    if row is None:
        return None
    state, earlier = session.state, session.table.annotations.answers
    chips: dict[int, dict[str, Any]] = {}
    with session.lock:
        unanswered, values = set(state.unanswered(row).tolist()), state.labels[row].copy()
        is_complete = bool(state.is_complete[row])
        for column in np.flatnonzero(values).tolist():
            is_answer = (row, column) in state.answered or (row, column) in earlier
            found = "rejected" if values[column] < 0 else "accepted" if is_answer else "observed"
            chips[column] = {"label": column, "state": found}
    for cell in state.cells_of(row).tolist():
        kind, column = ScoreKind(int(state.scores.kinds[cell])), int(state.scores.columns[cell])
        if cell in unanswered:
            chips[column] = {"label": column, "state": KINDS[kind]}
        if column in chips and kind in KINDS:
            chips[column]["confidence"] = round(float(state.scores.confidence[cell]), 4)
    return {
        "row": row,
        "mode": mode,
        "file": session.table.names[row],
        "complete": is_complete,
        "chips": sorted(chips.values(), key=_place),
    }


def _place(chip: dict[str, Any]) -> tuple[int, float, int]:
    order = ("doubted", "proposed", "observed", "accepted", "candidate", "rejected")
    return order.index(chip["state"]), -chip.get("confidence", 0.0), chip["label"]


def shown_audit(session: ReviewSession, wished: int | None) -> dict[str, Any]:
    """Return what the audit has measured, and what may be accepted together because of it."""
    figures, drawn = session.figures(), len(session.audit_rows)
    line = None if figures is None else figures.line
    above = 0
    if line is not None:
        with session.lock:
            above = int(np.count_nonzero(session.above(line, wished)))
    return {
        "drawn": drawn,
        "answered": 0 if figures is None else figures.answered,
        "precision": _share(None if figures is None else figures.precision),
        "recall": _share(None if figures is None else figures.recall),
        "wished": session.precision,
        "line": line,
        "above": above,
        "reason": _why_no_line(session),
        "bands": [] if figures is None else [asdict(band) for band in figures.bands],
    }


def _share(interval: Interval | None) -> dict[str, float] | None:
    return None if interval is None or interval.value is None else {key: round(v, 6) for key, v in asdict(interval).items()}


def _why_no_line(session: ReviewSession) -> str:
    """Return why labels cannot be accepted together; empty: they can."""
    figures, percent = session.figures(), f"{100 * session.precision:g} %"
    if not session.audit_rows:
        return "Labels can be accepted together only where an audit has measured their precision, and none was drawn."
    if figures is None:
        return "Labels can be accepted together once the audit has measured their precision: none of its images is answered yet."
    if figures.line is not None:
        return ""
    if figures.answered < FEW_AUDITED:
        return f"No line keeps a precision of {percent} for sure yet: {figures.answered} images of the audit are answered."
    if figures.more_images is not None:
        left, more = figures.drawn - figures.answered, f"about {figures.more_images} more images of the audit are needed"
        if figures.more_images > left:
            more += f", and it has {left} left, so look at the proposals in grids"
        return f"No line keeps a precision of {percent} for sure yet: {more}."
    return f"No line keeps a precision of {percent}: the proposals are not right often enough, so look at them in grids."
