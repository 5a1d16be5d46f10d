"""Large loss correction, permanent: the unknown cells whose loss is largest count as positives from now on.

This is the pure form for one batch: the formula of `ll_ct` on the current labels. The caller makes the correction permanent by
keeping the cells of `large_cells` as positives. The method `ll-cp` is `bce` with a label source that does this, so this function
is not registered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aevlp.losses.ll_ct import ll_ct

if TYPE_CHECKING:
    from torch import Tensor


def ll_cp(logits: Tensor, observed: Tensor, *, count: int) -> Tensor:
    """`ll_ct` of the labels so far: observed [N, C] is 1 for the cells corrected before, too."""
    return ll_ct(logits, observed, count=count)
