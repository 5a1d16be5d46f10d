"""aevlp: train a classifier that finds all the labels from images that carry only one each."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aevlp.methods import METHODS as METHODS

__version__ = "0.4.0"


def __getattr__(name: str) -> Any:
    """Names of the Python interface, loaded when first asked for: `import aevlp` stays instant."""
    if name == "METHODS":
        from aevlp.methods import METHODS

        return METHODS
    raise AttributeError(f"module 'aevlp' has no attribute {name!r}")
