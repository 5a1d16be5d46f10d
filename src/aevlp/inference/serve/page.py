"""The page for people: one HTML text with all that it needs in it, which may ask nobody but this service."""

from __future__ import annotations

import base64
from dataclasses import asdict, dataclass
from hashlib import sha256
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from aevlp.inference.serve.answers import About
from aevlp.inference.serve.uploads import megabytes


@dataclass(frozen=True)
class Page:
    """A page with the headers that it is sent with."""

    text: str
    headers: dict[str, str]


def page(about: About) -> Page:
    """The page for a model."""
    environment = Environment(
        loader=PackageLoader("aevlp.inference.serve"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates = files("aevlp.inference.serve") / "templates"
    script, own_style = ((templates / name).read_text("utf-8") for name in ("page.js", "page.css"))
    style = (files("aevlp.reports") / "templates" / "style.css").read_text("utf-8")  # it looks like the reports
    text = environment.get_template("page.html.j2").render(
        about=about,
        facts=asdict(about),
        size=megabytes(about.limits.file_bytes),
        script=Markup(script),
        style=Markup(style + own_style),
    )
    digest = base64.b64encode(sha256(script.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; img-src blob: data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    headers = {
        "Content-Security-Policy": policy,
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-cache",  # the next model may be served at the same address
    }
    return Page(text, headers)
