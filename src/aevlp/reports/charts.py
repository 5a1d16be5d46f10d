"""The charts of the pages. Each function returns an `<svg>` element; `name` is its unique name in the page."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from aevlp.reports.evidence import Counts, Curve
from aevlp.reports.pictures import shortened
from aevlp.reports.svg import AMBER, BLUE, DASHES, DISTINCT, FAINT, GREEN, INK, ORANGE, line, render_svg
from aevlp.training.calibration import Reliability

MARKED = 40  # epochs up to which every one has a marker
GROUP_LINES = ((GREEN, "--"), (AMBER, ":"))
LONGEST = 34  # letters of a setting's name

History = Sequence[dict[str, Any]]  # the lines of `metrics.jsonl`
EpochValues = tuple[Sequence[int], Sequence[float]]  # epochs, validation mAP


def metric_per_epoch(name: str, history: History, key: str, best: int, *, label: str) -> str:
    """Draw a metric per epoch, with the best epoch marked."""
    epochs, values = [each["epoch"] for each in history], [each[key] for each in history]

    def draw(axes: Axes) -> None:
        axes.plot(epochs, values, color=BLUE, marker="o" if len(epochs) <= MARKED else "")
        axes.axvline(best, color=ORANGE, linewidth=1.2, linestyle="--")
        axes.plot([best], [values[epochs.index(best)]], "o", color=ORANGE, markersize=8)
        axes.set(xlabel="epoch", ylabel=label)
        axes.locator_params(axis="y", nbins=6)
        _integer_epochs(axes, epochs)

    return render_svg(name, draw)


def pseudo_label_quality(name: str, history: History, metric: str) -> str:
    """Draw precision or recall of the pseudo-labels, in percent: per epoch, averaged and accumulated so far."""
    lines = [each for each in history if each["pseudo_labels"] is not None]
    epochs = [each["epoch"] for each in lines]
    kinds = ((f"epoch_{metric}", "per epoch"), (metric, "average so far"), (f"accumulated_{metric}", "accumulated"))

    def draw(axes: Axes) -> None:
        for position, (key, label) in enumerate(kinds):
            fractions = [each["pseudo_labels"][key] for each in lines]
            values = [np.nan if value is None else 100 * value for value in fractions]
            axes.plot(epochs, values, **line(position), marker="o" if len(epochs) <= MARKED else "", label=label)
        axes.set(xlabel="epoch", ylabel=f"{metric}, %", ylim=(0, 103))
        axes.legend(loc="best")
        _integer_epochs(axes, epochs)

    return render_svg(name, draw)


def probability_histogram(name: str, counts: Counts, thresholds: npt.NDArray[np.floating], overall: float, *, what: str) -> str:
    """Draw shares of labels by probability from counts [G, bins]: of all classes, and of the best and the worst third."""
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

    return render_svg(name, draw)


def precision_recall(name: str, curves: Sequence[Curve]) -> str:
    """Draw precision over recall of a few classes, in percent, with a dot at each threshold."""

    def draw(axes: Axes) -> None:
        for position, curve in enumerate(curves):
            axes.plot(*(100 * np.array(curve.points)).T, **line(position), linewidth=1.6)
            if curve.chosen is not None:
                axes.plot(*(100 * np.array(curve.chosen)), "o", color=line(position)["color"], markersize=6)
        axes.set(xlabel="recall, %", ylabel="precision, %", xlim=(0, 101), ylim=(0, 103))

    return render_svg(name, draw)


def reliability(name: str, before: Reliability, after: Reliability | None) -> str:
    """Draw the share of positives over probability, before and after any calibration; larger dots stand for more labels."""

    def draw(axes: Axes) -> None:
        axes.plot([0, 1], [0, 1], color=INK, linewidth=1, linestyle=":", alpha=0.7)
        for state, color, dashes, label in ((before, ORANGE, DASHES[1], "before"), (after, BLUE, DASHES[0], "after")):
            if state is None:
                continue
            mean, share, cells = zip(*state.bins, strict=True)
            sizes = 6 + 90 * np.sqrt(np.array(cells) / max(cells))
            axes.plot(mean, share, color=color, linestyle=dashes, label=f"{label}: error {state.error:.3f}")
            axes.scatter(mean, share, sizes, color=color, alpha=0.7, linewidth=0)
        axes.set(xlabel="probability", ylabel="share of positives", xlim=(0, 1), ylim=(0, 1.02))
        axes.legend(loc="upper left")

    return render_svg(name, draw)


def seeds_per_setting(name: str, settings: Mapping[str, Sequence[float]], *, label: str) -> str:
    """Draw a row per setting of a sweep, from top to bottom: a dot per seed and a bar at their mean."""
    names = [shortened(each, LONGEST) for each in settings]
    rows = np.arange(len(names))[::-1]

    def draw(axes: Axes) -> None:
        for row, values in zip(rows, settings.values(), strict=True):
            axes.plot([np.mean(values)] * 2, [row - 0.28, row + 0.28], color=ORANGE, linewidth=2.4)
            axes.plot(values, [row] * len(values), "o", color=BLUE, markersize=7, alpha=0.75)
        axes.set(xlabel=label, ylim=(-0.7, len(names) - 0.3))
        axes.set_yticks(rows, names)
        axes.tick_params(axis="y", length=0)
        axes.margins(x=0.08)

    left = 0.03 + 0.0155 * max(map(len, names))
    return render_svg(name, draw, height=max(0.8 + 0.3 * len(names), 2.2), left=left)


def validation_curves(name: str, settings: Sequence[Sequence[EpochValues]]) -> str:
    """Draw validation mAP per epoch of every run, a line style per setting; settings beyond `DISTINCT` are faint."""

    def draw(axes: Axes) -> None:
        for position, runs in reversed(list(enumerate(settings))):  # the first on top
            style = line(position) if position < DISTINCT else {"color": FAINT}
            for epochs, values in runs:
                axes.plot(epochs, values, **style, linewidth=1.5, alpha=0.9, marker="o" if len(epochs) == 1 else "")
        axes.set(xlabel="epoch", ylabel="validation mAP, %")
        _integer_epochs(axes, [epoch for runs in settings for epochs, _ in runs for epoch in epochs])

    return render_svg(name, draw, height=3.6)


def _integer_epochs(axes: Axes, epochs: Sequence[int]) -> None:
    """Put ticks at epochs, never between them."""
    axes.set_xlim(min(epochs, default=1) - 0.5, max(epochs, default=1) + 0.5)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=9, integer=True))
    axes.xaxis.grid(visible=False)
    axes.grid(color=FAINT, axis="y")
