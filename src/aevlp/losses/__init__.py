"""The losses, one file each: `from aevlp.losses import gpr`.

A loss is a pure function of logits [N, C] and labels [N, C] that returns a scalar. Every file in this folder that registers
a loss is found by itself; nothing here needs a line for a new one.
"""

import pkgutil
from importlib import import_module

from aevlp.losses.registry import LOSSES, Loss, register_loss

for _file in pkgutil.iter_modules(__path__):
    _module = import_module(f"{__name__}.{_file.name}")
    # A loss's file and its function share a name; the function is what `aevlp.losses.NAME` means.
    globals()[_file.name] = getattr(_module, _file.name, _module)

__all__ = ["LOSSES", "Loss", "register_loss"]
