"""aevlp: train a classifier that finds all the labels from images that carry only one each."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aevlp.cli.api import label as label
    from aevlp.cli.api import train as train
    from aevlp.config.methods import METHODS as METHODS
    from aevlp.core.errors import UserError as UserError
    from aevlp.inference.predictor import load as load

__version__ = "0.12.0"

_MODULES = {
    "METHODS": "aevlp.config.methods",
    "UserError": "aevlp.core.errors",
    "label": "aevlp.cli.api",
    "load": "aevlp.inference.predictor",
    "train": "aevlp.cli.api",
}
"""The Python interface: name -> the module that defines it."""
_PACKAGES = ("damp", "losses")


def __getattr__(name: str) -> Any:
    """Load a name of the Python interface when it is first used: `import aevlp` stays instant."""
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    if name in _PACKAGES:
        return import_module(f"aevlp.{name}")
    raise AttributeError(f"module 'aevlp' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*_MODULES, *_PACKAGES, "__version__"])
