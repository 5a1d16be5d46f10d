"""Device, precision and processes: the one place where the Accelerator is made."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

from aevlp.core.errors import UserError
from aevlp.core.options import Options

if TYPE_CHECKING:
    import torch
    from accelerate import Accelerator


@dataclass(frozen=True)
class EngineOptions(Options):
    """What computes, and in what precision; options without a section."""

    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    """Device to compute on; auto: the fastest there is."""
    precision: Literal["fp32", "bf16", "fp16"] = "fp32"
    """Arithmetic of the classifier's forward passes; losses are computed in fp32 always."""


def is_first_process() -> bool:
    """Whether this process is the one that speaks to the user: the only one, or the first of several."""
    return os.environ.get("RANK", "0") == "0"


def shut_down_processes() -> None:
    """Ends the work of several processes and the threads by which they talk: one that lives on can abort Python's end."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1 or "torch" not in sys.modules:
        return
    import torch.distributed as processes

    if processes.is_available() and processes.is_initialized():
        processes.barrier()
        processes.destroy_process_group()


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
    if on_cpu:
        keep_freed_memory()
    if torch.distributed.is_available():
        # Its functions take the group of processes, as it is when they are defined, for a default. Loaded later, as transformers
        # does, they would keep the group and its threads alive after its end.
        import torch.distributed.nn.functional
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


def keep_freed_memory() -> None:
    """Has the C library keep the memory of freed tensors for the next ones, where it is glibc's.

    By default large blocks go back to the system and come again empty, page by page, which costs much of a training step.
    """
    if sys.platform != "linux" or (mallopt := getattr(ctypes.CDLL(None), "mallopt", None)) is None:
        return
    m_trim_threshold, m_mmap_max, m_arena_max = -1, -4, -8  # malloc.h
    for parameter, value in ((m_trim_threshold, 2**31 - 1), (m_mmap_max, 0), (m_arena_max, 1)):
        mallopt(parameter, value)


def teacher_precision(option: str, device: torch.device) -> str:
    """What `--teacher.precision` means on a device: auto is half precision on a GPU and full precision elsewhere."""
    if option == "auto":
        return "fp16" if device.type == "cuda" else "fp32"
    if option == "int8" and device.type != "cpu":
        raise UserError(f"--teacher.precision int8: only a CPU computes in it, not {device.type}; use auto")
    if option == "fp16" and device.type == "cpu":
        raise UserError("--teacher.precision fp16: a CPU cannot compute in it; use auto")
    return option


def can_resize(device: torch.device) -> bool:
    """Whether images can be resized with antialiasing on a device: not on all that can run a model."""
    return device.type in ("cpu", "cuda")


def autocast(device: torch.device, precision: str) -> AbstractContextManager[Any]:
    """Within it, forward passes on the device are in that precision (of int8, what is not a linear layer in full precision)."""
    import torch

    kinds = {"bf16": torch.bfloat16, "fp16": torch.float16}
    return torch.autocast(device.type, kinds[precision]) if precision in kinds else nullcontext()


def gpu_count() -> int:
    """The GPUs that jobs can be shared between."""
    import torch

    return torch.cuda.device_count()


def environment_of_job(ours: Mapping[str, str], slot: int, threads: int, gpus: int) -> dict[str, str]:
    """The environment of a training: its share of the cores unless the user set one, and one of several GPUs."""
    theirs = {"OMP_NUM_THREADS": str(threads), **ours}
    if gpus > 1:
        visible = ours.get("CUDA_VISIBLE_DEVICES") or ",".join(map(str, range(gpus)))
        theirs["CUDA_VISIBLE_DEVICES"] = visible.split(",")[slot % gpus]
    return theirs
