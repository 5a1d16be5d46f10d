"""Matplotlib figures as inline SVG in one style: text stays text, and colours follow the page's light or dark theme.

The palette is that of Okabe and Ito, which is safe for colour-blind readers. Matplotlib draws with plain values; in the SVG each
becomes a variable of the page's style sheet, and `INK` becomes the colour of the surrounding text.
"""

import io
import re
import warnings
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

INK, FAINT = "#010101", "#020202"
BLUE, ORANGE, GREEN, PINK, AMBER, SKY = "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"
SERIES = (BLUE, ORANGE, GREEN, PINK, AMBER, SKY)
VARIABLES = {INK: "currentColor", FAINT: "var(--line)"}
VARIABLES |= zip(SERIES, (f"var(--{name})" for name in ("blue", "orange", "green", "pink", "amber", "sky")), strict=True)
DASHES: tuple[Any, ...] = (
    "-",
    (0, (5, 1.5)),
    (0, (1, 1.2)),
    (0, (5, 1.2, 1, 1.2)),
)  # lines differ in more than their colour
DISTINCT = 12  # combinations of colour and dashes

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
    """Return colour and dashes of the series at a position; `layout.swatch` draws the same for legends."""
    return {"color": SERIES[position % len(SERIES)], "linestyle": DASHES[position % len(DASHES)]}


def render_svg(name: str, draw: Callable[[Axes], None], *, height: float = HEIGHT, left: float = 0.12) -> str:
    """Return an `<svg>` element with what `draw` puts on its axes; `name` is unique in the page and prefixes its ids.

    `height` is in inches; `left` is the share of the width for the labels of the y-axis.
    """
    with matplotlib.rc_context(), warnings.catch_warnings():
        matplotlib.rcdefaults()  # ignore the user's own style
        matplotlib.rcParams.update(STYLE)
        warnings.filterwarnings("ignore", message="Glyph .* missing from")  # the browser has the font
        figure = Figure(figsize=(WIDTH, height))
        figure.subplots_adjust(left=left, right=0.985, top=1 - 0.14 / height, bottom=0.5 / height)
        draw(figure.add_subplot())
        content = io.BytesIO()
        figure.savefig(content, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return _inlined(name, content.getvalue().decode())


def _inlined(name: str, text: str) -> str:
    """Turn matplotlib's document into an element of a page: no metadata or size, unique ids, the page's colours."""
    root = ElementTree.fromstring(text)
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag == f"{{{SVG}}}metadata":
                parent.remove(child)
    references = [value for e in root.iter() for key, value in e.attrib.items() if key == HREF or "url(#" in value]
    referred = set(re.findall(r"#([A-Za-z]\w*)", " ".join(references)))
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
                value = value.replace("url(#", f"url(#{name}-")
                element.set(attribute, re.sub("|".join(VARIABLES), lambda found: VARIABLES[found[0]], value))
    for size in ("width", "height", "version"):
        root.attrib.pop(size, None)
    root.set("aria-hidden", "true")  # the enclosing figure has a text alternative
    return ElementTree.tostring(root, encoding="unicode")
