"""The folder of all stores."""

import os
from pathlib import Path

from aevlp.core.remote import location


def store_root(option: str | None) -> Path | None:
    """Return the folder that `--store` means: None is the user's cache; "none" is no store at all, returned as None."""
    if option == "none":
        return None
    if option is not None:
        return location(option).expanduser()
    cache = os.environ.get("AEVLP_CACHE")
    return (Path(cache) if cache else Path.home() / ".cache" / "aevlp") / "views"
