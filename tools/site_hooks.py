"""Hooks of mkdocs: pages that lie beside docs/, where people and code hosts look for them, are pages of the site too."""

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
OUTSIDE = {
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
    "tools/demo_models/README.md": "demo-models.md",
    "src/aevlp/experiments/demo/README.md": "demo-world.md",
}
"""File, relative to the checkout -> its page."""


def on_files(files: Files, config: Any, **_: Any) -> Files:
    """Add the pages; their links into docs/ lose the folder."""
    for name, page in OUTSIDE.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        for prefix in ("../../../../docs/", "../../docs/", "docs/"):
            text = text.replace(f"]({prefix}", "](")
        files.append(File.generated(config, page, content=_linked(text)))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Let links to those files lead to their pages."""
    return _linked(markdown)


def _linked(text: str) -> str:
    for name, page in OUTSIDE.items():
        for prefix in ("../../../../", "../../", "../", ""):
            text = text.replace(f"]({prefix}{name}", f"]({page}")
    return text


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """Let the links of a notebook, which lead to files of Markdown, lead to their pages."""
    return re.sub(r'(href="[^":]*)\.md(["#])', r"\1.html\2", output) if page.file.src_uri.endswith(".ipynb") else output
