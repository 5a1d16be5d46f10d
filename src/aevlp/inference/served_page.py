"""A page of a local server: one HTML text that needs no other file and may contact only this server."""

import base64
from hashlib import sha256
from importlib.resources import files
from typing import Any

from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup


def served_page(package: str, name: str, *, images: str, **values: Any) -> HTMLResponse:
    """Render the template NAME.html.j2 of a package with its NAME.js and NAME.css, which look like the reports.

    `images` is where images may come from, in the words of a Content-Security-Policy.
    """
    environment = Environment(
        loader=PackageLoader(package), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    script, own_style = ((files(package) / "templates" / f"{name}.{kind}").read_text("utf-8") for kind in ("js", "css"))
    style = (files("aevlp.reports") / "templates" / "style.css").read_text("utf-8")
    template = environment.get_template(f"{name}.html.j2")
    text = template.render(script=Markup(script), style=Markup(style + own_style), **values)
    digest = base64.b64encode(sha256(script.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; img-src {images}; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    headers = {
        "Content-Security-Policy": policy,
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-cache",  # something else may be served at the same address next time
    }
    return HTMLResponse(text, headers=headers)
