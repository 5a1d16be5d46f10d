"""Matplotlib figures as SVG for an HTML page, in one style: text is text, colours are the page's own and follow light and dark.

Colours are those of Okabe and Ito, which people with any kind of colour vision can tell apart. In a figure they stand as plain
values; in its SVG each becomes the variable that the page's style sheet defines, and `INK` the colour of the text around it.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK, FAINT = "#010101", "#020202"
BLUE, ORANGE, GREEN, PINK, AMBER, SKY = "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"
VARIABLES = {
    INK: "currentColor",
    FAINT: "var(--line)",
    BLUE: "var(--blue)",
    ORANGE: "var(--orange)",
    GREEN: "var(--green)",
    PINK: "var(--pink)",
    AMBER: "var(--amber)",
    SKY: "var(--sky)",
}
SERIES = (BLUE, ORANGE, GREEN, PINK, AMBER, SKY)
DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1, 1.2)), (0, (5, 1.2, 1, 1.2)))
"""Lines differ in more than their colour."""
DISTINCT = 12  # lines that can be told apart

WIDTH, HEIGHT = 5.2, 2.9  # inches of 72 units
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "aevlp",
    "text.parse_math": False,  # a dollar in a name is a dollar
    "text.color": INK,
    "font.size": 10,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": FAINT,
    "grid.linewidth": 0.6,
    "xtick.color": INK,
    "ytick.color": INK,
    "lines.linewidth": 1.8,
    "lines.markersize": 5,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "legend.handlelength": 2.4,
    "path.simplify": True,
}

SVG = "http://www.w3.org/2000/svg"
HREF = "{http://www.w3.org/1999/xlink}href"
ElementTree.register_namespace("", SVG)


def line(position: int) -> dict[str, Any]:
    """Colour and dashes of the series at a position; `layout.swatch` shows the same in words."""
    return {"color": SERIES[position % len(SERIES)], "linestyle": DASHES[position % len(DASHES)]}


def drawn(name: str, draw: Callable[[Axes], None], *, height: float = HEIGHT, left: float = 0.12) -> str:
    """An `<svg>` element with what `draw` puts on its axes; `name` is unlike that of any other in the page.

    `left` is the share of the width that the labels of the y-axis take.
    """
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(), warnings.catch_warnings():
        matplotlib.rcdefaults()  # whatever the user's own style is
        matplotlib.rcParams.update(STYLE)
        warnings.filterwarnings("ignore", message="Glyph .* missing from")  # the browser has it
        figure = Figure(figsize=(WIDTH, height))
        figure.subplots_adjust(left=left, right=0.985, top=1 - 0.14 / height, bottom=0.5 / height)
        draw(figure.add_subplot())
        content = io.BytesIO()
        figure.savefig(content, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return _inlined(name, content.getvalue().decode())


def _inlined(name: str, text: str) -> str:
    """A document of matplotlib's as an element of a page: without metadata and sizes, its ids its own, its colours the page's."""
    root = ElementTree.fromstring(text)
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag == f"{{{SVG}}}metadata":
                parent.remove(child)
    referred = set(re.findall(r"#([A-Za-z]\w*)", " ".join(_references(root))))
    for element in root.iter():
        if element.get("id") in referred:
            element.set("id", f"{name}-{element.get('id')}")
        else:
            element.attrib.pop("id", None)
        for attribute, value in list(element.attrib.items()):
            if attribute == HREF:
                del element.attrib[attribute]
                element.set("href", f"#{name}-{value[1:]}")
            else:
                element.set(attribute, _coloured(value.replace("url(#", f"url(#{name}-")))
    for size in ("width", "height", "version"):
        root.attrib.pop(size, None)
    root.set("aria-hidden", "true")  # the figure around it says it in words
    return ElementTree.tostring(root, encoding="unicode")


def _references(root: ElementTree.Element) -> list[str]:
    """The attributes in which one element refers to another."""
    return [v for e in root.iter() for k, v in e.attrib.items() if k == HREF or "url(#" in v]


def _coloured(value: str) -> str:
    """A style with the page's colours."""
    return re.sub("|".join(VARIABLES), lambda found: VARIABLES[found[0]], value)
