"""Where the view store is."""

from __future__ import annotations

import os
from pathlib import Path


def store_root(option: str | None) -> Path | None:
    """The folder that `--store` means: null is the user's cache, `none` is no store at all."""
    if option == "none":
        return None
    if option is not None:
        return Path(option).expanduser()
    cache = os.environ.get("AEVLP_CACHE")
    return (Path(cache) if cache else Path.home() / ".cache" / "aevlp") / "views"
