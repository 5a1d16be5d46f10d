"""Device, precision and processes: the one place where the Accelerator is made."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import TYPE_CHECKING

from aevlp.config import EngineOptions
from aevlp.errors import UserError

if TYPE_CHECKING:
    from accelerate import Accelerator


def is_first_process() -> bool:
    """Whether this process is the one that speaks to the user: the only one, or the first of several."""
    return os.environ.get("RANK", "0") == "0"


def make_accelerator(options: EngineOptions) -> Accelerator:
    """The Accelerator of this process. Batches given to its loaders are global: they are split over the processes."""
    import torch
    from accelerate import Accelerator
    from accelerate.utils import DataLoaderConfiguration, InitProcessGroupKwargs

    there = {"auto": True, "cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if not there[options.device]:
        raise UserError(f"--device {options.device}: this machine has none that torch can use; use --device auto")
    # Said outright: where it only finds no GPU, accelerate computes on the CPU too, but each process for itself.
    on_cpu = options.device == "cpu" or (options.device == "auto" and not (there["cuda"] or there["mps"]))
    if on_cpu and options.precision == "fp16":
        raise UserError("--precision fp16: a CPU cannot compute in it; use --precision bf16 or fp32")
    accelerator = Accelerator(
        cpu=on_cpu,
        mixed_precision="no" if options.precision == "fp32" else options.precision,
        dataloader_config=DataLoaderConfiguration(split_batches=True),
        # A process may wait for another that scores a large image set.
        kwargs_handlers=[InitProcessGroupKwargs(timeout=timedelta(days=2))],
    )
    started = int(os.environ.get("WORLD_SIZE", "1"))
    if accelerator.num_processes != started:
        raise RuntimeError(f"{started} processes were started, and {accelerator.num_processes} work together")
    return accelerator
