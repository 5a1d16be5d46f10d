"""Heads that replace a backbone's own, one file each.

A new file in this folder that registers a head needs no other change. Like the losses, these files load without torch.
"""

from aevlp.core.registry import load_files
from aevlp.models.heads.registry import HEADS, HeadKind, register_head

load_files(__name__)

__all__ = ["HEADS", "HeadKind", "register_head"]
