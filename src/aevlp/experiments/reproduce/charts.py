"""The charts of tables and figures, as PNG, in the style of the reports."""

import io
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence

import matplotlib
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from aevlp.reports.pictures import shortened
from aevlp.reports.svg import BLUE, GREEN, INK, ORANGE, STYLE

GRID = "#d9d9d9"  # in a report, the page defines the colour
WIDTH = 6.4  # inches
DOTS = 160  # per inch
LONGEST = 40  # letters of a row's name
KINDS = {"positive": BLUE, "negative": ORANGE}


def dots(values: Mapping[str, Sequence[float]], figures: Mapping[str, float], *, label: str, title: str) -> bytes:
    """Draw a row per name, from top to bottom: a dot per seed, a line at their mean, a diamond at the paper's figure."""
    places = np.arange(len(values))[::-1]

    def draw(axes: Axes) -> None:
        for place, (row, found) in zip(places, values.items(), strict=True):
            if found:
                axes.plot([np.mean(found)] * 2, [place - 0.3, place + 0.3], color=ORANGE, linewidth=2.6, zorder=3)
                axes.plot(found, [place] * len(found), "o", color=BLUE, markersize=7, alpha=0.75, zorder=2)
            if row in figures:
                axes.plot(figures[row], place, "D", color=GREEN, markersize=6, markerfacecolor="none")
        axes.set(xlabel=label, ylim=(-0.7, len(values) - 0.3), title=title)
        axes.set_yticks(places, [shortened(row, LONGEST) for row in values])
        axes.tick_params(axis="y", length=0)
        axes.margins(x=0.08)
        _legend(axes, figures)

    return _png(lambda axes: draw(axes[0]), height=1.7 + 0.32 * len(values))


def curve(values: Mapping[str, Sequence[float]], figures: Mapping[str, float], *, label: str, name: str, title: str) -> bytes:
    """Draw a line over rows whose names are numbers: the mean with its standard deviation, a dot per seed, and the paper's."""
    places = {row: float(row) for row in values}

    def draw(axes: Axes) -> None:
        there = {places[row]: found for row, found in values.items() if found}
        for place, found in there.items():
            axes.plot([place] * len(found), found, "o", color=BLUE, markersize=6, alpha=0.5)
        axes.errorbar(list(there), *_means_and_spreads(there.values()), color=ORANGE, capsize=3, marker="_", markersize=12)
        if known := [row for row in values if row in figures]:
            style = {"color": GREEN, "linestyle": "--", "marker": "D", "markerfacecolor": "none"}
            axes.plot([places[row] for row in known], [figures[row] for row in known], **style)  # type: ignore[arg-type]
        axes.set(xlabel=name, ylabel=label, title=title)
        axes.set_xticks(list(places.values()))
        _legend(axes, figures)

    return _png(lambda axes: draw(axes[0]), height=3.8)


def bars(values: Mapping[str, Sequence[float]], figures: Mapping[str, float], *, title: str) -> bytes:
    """Draw a group of bars per figure, in percent: ours with its standard deviation, and the paper's."""

    def draw(axes: Axes) -> None:
        places = np.arange(len(values))
        width = 0.38 if figures else 0.6
        means, spreads = _means_and_spreads(values.values())
        axes.bar(places - (width / 2 if figures else 0), means, width, yerr=spreads, capsize=3, color=BLUE, label="here")
        if figures:
            axes.bar(places + width / 2, [figures[name] for name in values], width, color=GREEN, label="paper")
            axes.legend(loc="best")
        axes.set(ylabel="%", title=title)
        axes.set_xticks(places, [name.replace("_", "\n") if "_" in name else f"average\n{name}" for name in values])
        axes.grid(visible=False, axis="x")

    return _png(lambda axes: draw(axes[0]), height=3.8)


def densities(panels: Mapping[str, Mapping[str, npt.NDArray[np.floating]]], *, title: str) -> bytes:
    """Draw a panel per method: densities of the probabilities of positives and of negatives."""

    def draw(all_axes: Sequence[Axes]) -> None:
        for axes, (name, kinds) in zip(all_axes, panels.items(), strict=True):
            for kind, density in kinds.items():
                color = KINDS[kind]
                edges = np.linspace(0, 1, len(density) + 1)
                axes.stairs(density, edges, color=color, fill=True, alpha=0.35, linewidth=0)
                axes.stairs(density, edges, color=color, linewidth=1.4, label=f"{kind}s")
            axes.set(xlabel="probability", xlim=(0, 1), title=name)
            axes.set_ylim(bottom=0)
        all_axes[0].set_ylabel("density")
        figure = all_axes[0].figure
        figure.suptitle(title, fontsize=11)
        figure.legend(*all_axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(KINDS))

    return _png(draw, height=3.2, panels=len(panels), width=9.6)


def _means_and_spreads(values: Iterable[Sequence[float]]) -> tuple[list[float], list[float]]:
    """Return the mean of each list, 0 without values, and its standard deviation, 0 below two values."""
    lists = list(values)
    means = [float(np.mean(found)) if found else 0.0 for found in lists]
    return means, [float(np.std(found, ddof=1)) if len(found) > 1 else 0.0 for found in lists]


def _legend(axes: Axes, figures: Mapping[str, float]) -> None:
    """Explain the marks below the axes: among the rows they could be taken for figures."""
    marks = [
        Line2D([], [], marker="o", color=BLUE, linestyle="", alpha=0.75, label="a seed"),
        Line2D([], [], color=ORANGE, linewidth=2.4, label="mean"),
        *([Line2D([], [], marker="D", color=GREEN, linestyle="", markerfacecolor="none", label="paper")] if figures else []),
    ]
    axes.figure.legend(handles=marks, loc="outside lower center", ncols=len(marks))


def _png(draw: Callable[[Sequence[Axes]], None], *, height: float, panels: int = 1, width: float = WIDTH) -> bytes:
    """Return a PNG with `panels` axes side by side, which `draw` fills."""
    with matplotlib.rc_context(), warnings.catch_warnings():
        matplotlib.rcdefaults()  # not the user's own style
        matplotlib.rcParams.update({**STYLE, "grid.color": GRID, "axes.titlesize": 11, "axes.titlecolor": INK})
        warnings.filterwarnings("ignore", message="Glyph .* missing from")  # the table has the name too
        figure = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasAgg(figure)
        draw([figure.add_subplot(1, panels, 1 + place) for place in range(panels)])
        content = io.BytesIO()
        figure.savefig(content, format="png", dpi=DOTS, metadata={"Software": None})
    return content.getvalue()
