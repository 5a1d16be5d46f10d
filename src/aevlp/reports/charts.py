"""The charts of a run's report. Each is an `<svg>` element; the words around it are the page's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from aevlp.reports.curves import Counts, Curve
from aevlp.reports.svg import AMBER, BLUE, DASHES, FAINT, GREEN, INK, ORANGE, drawn, line
from aevlp.training.calibration import Reliability

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MARKED = 40  # epochs up to which every one has a marker
GROUP_LINES = ((GREEN, "--"), (AMBER, ":"))


def training(name: str, history: Sequence[dict[str, Any]], key: str, best: int, *, label: str) -> str:
    """A figure per epoch, with the best epoch marked."""
    epochs, values = [each["epoch"] for each in history], [each[key] for each in history]

    def draw(axes: Axes) -> None:
        axes.plot(epochs, values, color=BLUE, marker="o" if len(epochs) <= MARKED else "")
        axes.axvline(best, color=ORANGE, linewidth=1.2, linestyle="--")
        axes.plot([best], [values[epochs.index(best)]], "o", color=ORANGE, markersize=8)
        axes.set(xlabel="epoch", ylabel=label)
        axes.locator_params(axis="y", nbins=6)
        whole_epochs(axes, epochs)

    return drawn(name, draw)


def quality(name: str, history: Sequence[dict[str, Any]], figure: str) -> str:
    """Precision or recall of the pseudo-labels, in percent: of each epoch, averaged and accumulated so far."""
    lines = [each for each in history if each["pseudo_labels"] is not None]
    epochs = [each["epoch"] for each in lines]
    kinds = ((f"epoch_{figure}", "of the epoch"), (figure, "average so far"), (f"accumulated_{figure}", "accumulated"))

    def draw(axes: Axes) -> None:
        for position, (key, label) in enumerate(kinds):
            figures = [each["pseudo_labels"][key] for each in lines]
            values = [np.nan if value is None else 100 * value for value in figures]
            axes.plot(epochs, values, **line(position), marker="o" if len(epochs) <= MARKED else "", label=label)
        axes.set(xlabel="epoch", ylabel=f"{figure}, %", ylim=(0, 103))
        axes.legend(loc="best")
        whole_epochs(axes, epochs)

    return drawn(name, draw)


def distribution(name: str, counts: Counts, thresholds: npt.NDArray[np.floating], overall: float, *, what: str) -> str:
    """Shares of labels by probability from counts [G, bins]: of all classes, and of the best and the worst third."""
    edges = np.linspace(0, 1, counts.shape[1] + 1)
    shares = 100 * counts / np.maximum(counts.sum(1, keepdims=True), 1)
    color = BLUE if what == "positives" else ORANGE

    def draw(axes: Axes) -> None:
        axes.stairs(shares[0], edges, color=color, fill=True, alpha=0.35, linewidth=0)
        axes.stairs(shares[0], edges, color=color, linewidth=1.4, label="all classes")
        for values, (other, dashes), label in zip(shares[1:], GROUP_LINES, ("best third", "worst third"), strict=False):
            axes.stairs(values, edges, color=other, linewidth=1.3, linestyle=dashes, label=label)
        axes.axvline(overall, color=INK, linewidth=1.2, linestyle="--", label=f"threshold {overall:.2f}")
        on_axis = axes.get_xaxis_transform()
        axes.plot(thresholds, np.full(len(thresholds), 0.025), "|", color=INK, markersize=7, alpha=0.6, transform=on_axis)
        axes.set(xlabel="probability", ylabel=f"share of {what}, %", xlim=(0, 1))
        axes.set_ylim(bottom=0)
        axes.locator_params(axis="y", nbins=6)
        axes.legend(loc="best")

    return drawn(name, draw)


def precision_recall(name: str, curves: Sequence[Curve]) -> str:
    """Precision over recall of a few classes; a dot where the threshold is."""

    def draw(axes: Axes) -> None:
        for position, curve in enumerate(curves):
            recall, precision = zip(*curve.points, strict=True)
            axes.plot(recall, precision, **line(position), linewidth=1.6)
            if curve.chosen is not None:
                axes.plot(*curve.chosen, "o", color=line(position)["color"], markersize=6)
        axes.set(xlabel="recall", ylabel="precision", xlim=(0, 1.01), ylim=(0, 1.03))

    return drawn(name, draw)


def reliability(name: str, before: Reliability, after: Reliability | None) -> str:
    """Share of positives over probability, before and after calibration, if there is one; larger dots stand for more labels."""

    def draw(axes: Axes) -> None:
        axes.plot([0, 1], [0, 1], color=INK, linewidth=1, linestyle=":", alpha=0.7)
        for state, color, dashes, label in ((before, ORANGE, DASHES[1], "before"), (after, BLUE, DASHES[0], "after")):
            if state is None:
                continue
            mean, share, cells = zip(*state.bins, strict=True)
            sizes = 6 + 90 * np.sqrt(np.array(cells) / max(cells))
            axes.plot(mean, share, color=color, linestyle=dashes, label=f"{label}: error {100 * state.error:.1f} %")
            axes.scatter(mean, share, sizes, color=color, alpha=0.7, linewidth=0)
        axes.set(xlabel="probability", ylabel="share of positives", xlim=(0, 1), ylim=(0, 1.02))
        axes.legend(loc="upper left")

    return drawn(name, draw)


def whole_epochs(axes: Axes, epochs: Sequence[int]) -> None:
    """Ticks at epochs, never between them."""
    from matplotlib.ticker import MaxNLocator

    axes.set_xlim(min(epochs, default=1) - 0.5, max(epochs, default=1) + 0.5)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=9, integer=True))
    axes.xaxis.grid(visible=False)
    axes.grid(color=FAINT, axis="y")
