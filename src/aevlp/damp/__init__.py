"""Dynamic augmented multi-focus pseudo-labelling (DAMP).

In every epoch a frozen vision-language model embeds the whole image and a grid of randomly enlarged, weakly augmented tiles.
Their similarities to the prompts of the classes become pseudo-labels in {1, 0, -1}.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aevlp.damp.labels import pseudo_labels
    from aevlp.damp.views import boxes

__all__ = ["boxes", "pseudo_labels"]


def __getattr__(name: str) -> Any:
    """Import the functions that need torch on first use, so that the options load without it."""
    if name == "pseudo_labels":
        from aevlp.damp.labels import pseudo_labels

        return pseudo_labels
    if name == "boxes":
        from aevlp.damp.views import boxes

        return boxes
    raise AttributeError(f"module 'aevlp.damp' has no attribute {name!r}")
