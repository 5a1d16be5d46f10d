"""The losses, one file each: `from aevlp.losses import gpr`.

A loss is a pure function of logits [N, C] and labels [N, C] that returns a scalar. A new file in this folder that registers a
loss needs no other line anywhere.
"""

from aevlp.core.registry import load_files
from aevlp.losses.registry import LOSSES, Loss, register_loss

for _name, _module in load_files(__name__).items():
    # A loss's file and its function share a name; `aevlp.losses.NAME` is the function.
    globals()[_name] = getattr(_module, _name, _module)

__all__ = ["LOSSES", "Loss", "register_loss"]
