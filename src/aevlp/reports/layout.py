"""Templates -> one HTML file that needs nothing else: style and script inside it, and no leave to load anything."""

from __future__ import annotations

import base64
from functools import cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from aevlp import __version__
from aevlp.reports.svg import DASHES, SERIES, VARIABLES

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

NOTHING = "\N{EN DASH}"


def page(template: str, **values: Any) -> str:
    """The text of a page. Every value is escaped unless it is a drawing of our own."""
    text = _environment().get_template(template).render(version=__version__, **values)
    return text.encode("utf-8", "replace").decode("utf-8")  # names of files need not be text


def number(value: float | None, key: str = "", digits: int = 2, scale: float = 1) -> Markup:
    """A figure as people read it, with all its digits in the markup; `key` says where it stands in the run's files."""
    from markupsafe import Markup

    if value is None or value != value:
        return Markup(NOTHING)
    said = Markup(' data-key="{}"').format(key) if key else ""
    shown = f"{scale * value:,.{digits}f}"
    return Markup('<data value="{}"{}>{}</data>').format(repr(value if isinstance(value, int) else float(value)), said, shown)


def swatch(position: int) -> Markup:
    """A piece of the line that the chart has for the series at that position, for a legend in words."""
    from markupsafe import Markup

    dashes = DASHES[position % len(DASHES)]
    pattern = "" if dashes == "-" else " ".join(str(2 * length) for length in dashes[1])
    return Markup(
        '<svg class="swatch" viewBox="0 0 28 6" aria-hidden="true"><line x1="0" y1="3" x2="28" y2="3" '
        'stroke="{}" stroke-width="3" stroke-dasharray="{}"/></svg>'
    ).format(VARIABLES[SERIES[position % len(SERIES)]], pattern)


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    made = Environment(
        loader=PackageLoader("aevlp.reports"), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    assert made.loader is not None
    script, style = (made.loader.get_source(made, name)[0] for name in ("sort.js", "style.css"))
    digest = base64.b64encode(sha256(script.encode()).digest()).decode()
    made.globals.update(script=Markup(script), script_digest=digest, style=Markup(style), swatch=swatch, nothing=NOTHING)
    made.filters.update(number=number, drawing=Markup)
    return made
