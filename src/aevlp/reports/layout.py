"""Rendering of the templates into one self-contained HTML file: style and script inline, all loading forbidden."""

import base64
from functools import cache
from hashlib import sha256
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from aevlp import __version__
from aevlp.reports.svg import DASHES, SERIES, VARIABLES

UNKNOWN = "\N{EN DASH}"


def render_page(template: str, **values: Any) -> str:
    """Render a page. Every value is escaped, except for our own SVG."""
    text = _environment().get_template(template).render(version=__version__, **values)
    return text.encode("utf-8", "replace").decode("utf-8")  # file names need not be valid Unicode


def number(value: float | None, key: str = "", digits: int = 2, scale: float = 1) -> Markup:
    """Format a number, rounded, with all its digits in the markup; `key` is its key in the run's files."""
    if value is None or value != value:
        return Markup(UNKNOWN)
    attribute = Markup(' data-key="{}"').format(key) if key else ""
    shown = f"{scale * value:,.{digits}f}"
    return Markup('<data value="{}"{}>{}</data>').format(
        repr(value if isinstance(value, int) else float(value)), attribute, shown
    )


def swatch(position: int) -> Markup:
    """Return a short piece of the chart's line of the series at that position, for a legend."""
    dashes = DASHES[position % len(DASHES)]
    pattern = "" if dashes == "-" else " ".join(str(2 * length) for length in dashes[1])
    return Markup(
        '<svg class="swatch" viewBox="0 0 28 6" aria-hidden="true"><line x1="0" y1="3" x2="28" y2="3" '
        'stroke="{}" stroke-width="3" stroke-dasharray="{}"/></svg>'
    ).format(VARIABLES[SERIES[position % len(SERIES)]], pattern)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("aevlp.reports"), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    assert environment.loader is not None
    sort, gallery, style = (
        environment.loader.get_source(environment, name)[0] for name in ("sort.js", "gallery.js", "style.css")
    )
    script = f"{sort}\n{gallery}"
    digest = base64.b64encode(sha256(script.encode()).digest()).decode()
    environment.globals.update(script=Markup(script), script_digest=digest, style=Markup(style), swatch=swatch, unknown=UNKNOWN)
    environment.filters.update(number=number, drawing=Markup)
    return environment
