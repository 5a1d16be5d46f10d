"""The losses, one file each: `from aevlp.losses import gpr`.

A loss is a pure function of logits [N, C] and labels [N, C] that returns a scalar. A new file in this folder that registers a
loss needs no other line anywhere.
"""

from typing import TYPE_CHECKING

from aevlp.core.registry import load_files
from aevlp.losses.registry import LOSSES, Loss, register_loss

if TYPE_CHECKING:  # a type checker takes the name for the file otherwise
    from aevlp.losses.an import an as an
    from aevlp.losses.an_ls import an_ls as an_ls
    from aevlp.losses.asl import asl as asl
    from aevlp.losses.bce import bce as bce
    from aevlp.losses.em import em as em
    from aevlp.losses.em_apl import em_apl as em_apl
    from aevlp.losses.epr import epr as epr
    from aevlp.losses.full import full as full
    from aevlp.losses.gpr import gpr as gpr
    from aevlp.losses.gr import gr as gr
    from aevlp.losses.hill import hill as hill
    from aevlp.losses.ll_cp import ll_cp as ll_cp
    from aevlp.losses.ll_ct import ll_ct as ll_ct
    from aevlp.losses.ll_r import ll_r as ll_r
    from aevlp.losses.role import role as role
    from aevlp.losses.smile import smile as smile
    from aevlp.losses.soft_gpr import soft_gpr as soft_gpr
    from aevlp.losses.splc import splc as splc
    from aevlp.losses.vlpl import vlpl as vlpl
    from aevlp.losses.wan import wan as wan

for _name, _module in load_files(__name__).items():
    # A loss's file and its function share a name; `aevlp.losses.NAME` is the function.
    globals()[_name] = getattr(_module, _name, _module)

__all__ = ["LOSSES", "Loss", "register_loss"]
