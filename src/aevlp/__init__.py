"""aevlp: train a classifier that finds all the labels from images that carry only one each."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aevlp.api import label as label
    from aevlp.api import train as train
    from aevlp.methods import METHODS as METHODS
    from aevlp.trained import load as load

__version__ = "0.5.0"

_MODULES = {"METHODS": "aevlp.methods", "label": "aevlp.api", "load": "aevlp.trained", "train": "aevlp.api"}
"""The Python interface: name -> the module that it is in."""


def __getattr__(name: str) -> Any:
    """Names of the Python interface, loaded when first asked for: `import aevlp` stays instant."""
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module 'aevlp' has no attribute {name!r}")
