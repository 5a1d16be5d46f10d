"""Dynamic augmented multi-focus pseudo-labelling (DAMP).

A frozen vision-language model looks at the whole image and at a grid of randomly enlarged, weakly augmented tiles, afresh every
epoch; the similarities to the classes' prompts become pseudo-labels in {1, 0, -1}.
"""

from aevlp.damp.labels import pseudo_labels
from aevlp.damp.views import boxes

__all__ = ["boxes", "pseudo_labels"]
