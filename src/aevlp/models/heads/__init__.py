"""What turns features into logits, one file per head. Every file in this folder that registers a head is found by itself.

The files load without torch; the modules they make are in `layers`.
"""

from importlib import import_module
from pkgutil import iter_modules

from aevlp.models.heads.registry import HEADS, HeadKind, register_head

for _module in iter_modules(__path__):
    if _module.name != "layers":
        import_module(f"{__name__}.{_module.name}")

__all__ = ["HEADS", "HeadKind", "register_head"]
