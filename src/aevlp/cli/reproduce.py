"""aevlp reproduce: the paper's tables and figures."""

from __future__ import annotations

from collections.abc import Sequence

from aevlp.core.tables import show
from aevlp.experiments.compare import stop_for_failures
from aevlp.experiments.reproduce.request import read_request


def reproduce(argv: Sequence[str]) -> None:
    """Make a table or a figure of the paper on an image set, with the paper's figures beside it where the set is the paper's."""
    request = read_request(reproduce.__doc__ or "", argv)

    from aevlp.experiments.reproduce.make import make

    text, sheet = make(request)
    show(text)
    base = request.out / request.target.name
    show(f"written: {base}.md, {base}.csv, {base}.png")
    stop_for_failures(sheet.outcomes, "seeds" if request.target.kind == "labels" else "trainings")
