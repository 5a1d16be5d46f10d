"""Dynamic augmented multi-focus pseudo-labelling (DAMP).

A frozen vision-language model looks at the whole image and at a grid of randomly enlarged, weakly augmented tiles, afresh every
epoch; the similarities to the classes' prompts become pseudo-labels in {1, 0, -1}.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aevlp.damp.labels import pseudo_labels
    from aevlp.damp.views import boxes

__all__ = ["boxes", "pseudo_labels"]


def __getattr__(name: str) -> Any:
    """What needs torch, loaded when first asked for: the store can be looked at without."""
    if name == "pseudo_labels":
        from aevlp.damp.labels import pseudo_labels

        return pseudo_labels
    if name == "boxes":
        from aevlp.damp.views import boxes

        return boxes
    raise AttributeError(f"module 'aevlp.damp' has no attribute {name!r}")
