"""The processes of a command, and the options of the device that it computes on. Loads without torch."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from aevlp.core.options import Options


@dataclass(frozen=True)
class EngineOptions(Options):
    """The device and its arithmetic; options without a section."""

    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    """Device to compute on; auto: the fastest there is."""
    precision: Literal["fp32", "bf16", "fp16"] = "fp32"
    """Arithmetic of the classifier's forward passes; losses are always computed in fp32."""
    deterministic: bool = True
    """On a GPU: algorithms that give the same numbers every time, wherever torch has them; false: whichever is fastest."""


def is_first_process() -> bool:
    """Return whether this process is the only one, or the first of several: the one that speaks to the user."""
    return os.environ.get("RANK", "0") == "0"


def shut_down_processes() -> None:
    """Wait for the other processes and destroy the process group: a live one can abort interpreter shutdown."""
    distributed = sys.modules.get("torch.distributed")
    if int(os.environ.get("WORLD_SIZE", "1")) == 1 or distributed is None:
        return
    if distributed.is_available() and distributed.is_initialized():
        distributed.barrier()
        distributed.destroy_process_group()


def environment_of_job(ours: Mapping[str, str], slot: int, threads: int, gpus: int) -> dict[str, str]:
    """Return the environment of a training beside others: its share of the cores, unless the user set one, and a GPU."""
    theirs = {"OMP_NUM_THREADS": str(threads), **ours}
    if gpus > 1:
        visible = ours.get("CUDA_VISIBLE_DEVICES") or ",".join(map(str, range(gpus)))
        theirs["CUDA_VISIBLE_DEVICES"] = visible.split(",")[slot % gpus]
    return theirs
