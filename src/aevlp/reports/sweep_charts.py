"""The charts of a sweep's report: every setting with its seeds, and every run's way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from aevlp.reports.charts import whole_epochs
from aevlp.reports.pictures import shortened
from aevlp.reports.svg import BLUE, DISTINCT, FAINT, ORANGE, drawn, line

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LONGEST = 34  # letters of a setting's name
Course = tuple[Sequence[int], Sequence[float]]  # epochs, validation mAP


def seeds(name: str, settings: Mapping[str, Sequence[float]], *, label: str) -> str:
    """A row per setting, from top to bottom: a dot per seed, a line at their mean."""
    names = [shortened(each, LONGEST) for each in settings]
    places = np.arange(len(names))[::-1]

    def draw(axes: Axes) -> None:
        for place, values in zip(places, settings.values(), strict=True):
            axes.plot([np.mean(values)] * 2, [place - 0.28, place + 0.28], color=ORANGE, linewidth=2.4)
            axes.plot(values, [place] * len(values), "o", color=BLUE, markersize=7, alpha=0.75)
        axes.set(xlabel=label, ylim=(-0.7, len(names) - 0.3))
        axes.set_yticks(places, names)
        axes.tick_params(axis="y", length=0)
        axes.margins(x=0.08)

    left = 0.03 + 0.0155 * max(map(len, names))
    return drawn(name, draw, height=max(0.8 + 0.3 * len(names), 2.2), left=left)


def courses(name: str, settings: Sequence[Sequence[Course]]) -> str:
    """Validation mAP per epoch of every run, a line style per setting; settings beyond what can be told apart are faint."""

    def draw(axes: Axes) -> None:
        for position, runs in reversed(list(enumerate(settings))):  # the first on top
            style = line(position) if position < DISTINCT else {"color": FAINT}
            for epochs, values in runs:
                axes.plot(epochs, values, **style, linewidth=1.5, alpha=0.9, marker="o" if len(epochs) == 1 else "")
        axes.set(xlabel="epoch", ylabel="validation mAP, %")
        whole_epochs(axes, [epoch for runs in settings for epochs, _ in runs for epoch in epochs])

    return drawn(name, draw, height=3.6)
