"""Dynamic augmented multi-focus pseudo-labelling (DAMP).

In every epoch a frozen vision-language model embeds the whole image and a grid of randomly enlarged, weakly augmented tiles.
Their similarities to the prompts of the classes become pseudo-labels in {1, 0, -1}.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aevlp.damp.labels import pseudo_labels
    from aevlp.damp.views import boxes

__all__ = ["boxes", "pseudo_labels"]
_MODULES = {"boxes": "views", "pseudo_labels": "labels"}


def __getattr__(name: str) -> Any:
    """Import the functions that need torch on first use, so that the options load without it."""
    if name not in _MODULES:
        raise AttributeError(f"module 'aevlp.damp' has no attribute {name!r}")
    return getattr(import_module(f"aevlp.damp.{_MODULES[name]}"), name)
