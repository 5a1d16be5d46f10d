"""Device and precision: the one place where the Accelerator is made."""

import ctypes
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from functools import cache
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import DataLoaderConfiguration, InitProcessGroupKwargs

from aevlp.core.errors import UserError
from aevlp.core.processes import EngineOptions

if torch.distributed.is_available():
    # Its functions bind the current process group as a default argument when they are loaded. Loaded later, by transformers,
    # they would keep the group and its threads alive after its end.
    import torch.distributed.nn.functional
    from torch.distributed import PrefixStore, register_rendezvous_handler  # type: ignore[attr-defined]
    from torch.distributed.rendezvous import rendezvous

    def _meet(url: str, **options: Any) -> Iterator[tuple[Any, int, int]]:
        """Yield the launcher's store, under the prefix of an attempt, with this process's rank and the number of processes."""
        store, rank, world_size = next(rendezvous("env://", **options))
        yield PrefixStore(url.partition("?")[0], store), rank, world_size

    register_rendezvous_handler("aevlp-attempt", _meet)  # type: ignore[no-untyped-call]

log = logging.getLogger("aevlp")


def make_accelerator(options: EngineOptions) -> Accelerator:
    """Return the Accelerator of this process. Batches given to its loaders are global: the processes share them."""
    there = {"auto": True, "cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if not there[options.device]:
        raise UserError(f"--device {options.device}: this machine has none that torch can use; use --device auto")
    # Explicitly: if accelerate merely finds no GPU, each process computes on the CPU by itself.
    on_cpu = options.device == "cpu" or (options.device == "auto" and not (there["cuda"] or there["mps"]))
    if on_cpu and options.precision == "fp16":
        raise UserError("--precision fp16: a CPU cannot compute in it; use --precision bf16 or fp32")
    if on_cpu:
        keep_freed_memory()
    elif there["cuda"] and options.device != "mps" and options.deterministic:
        make_cuda_deterministic()
    accelerator = Accelerator(
        cpu=on_cpu,
        mixed_precision="no" if options.precision == "fp32" else options.precision,
        dataloader_config=DataLoaderConfiguration(split_batches=True),
        # A process may wait for another that embeds a large image set.
        kwargs_handlers=[InitProcessGroupKwargs(init_method=_meeting_point(), timeout=timedelta(days=2))],
    )
    started = int(os.environ.get("WORLD_SIZE", "1"))
    if accelerator.num_processes != started:
        raise RuntimeError(f"{started} processes were started, and {accelerator.num_processes} work together")
    return accelerator


@cache
def make_cuda_deterministic() -> None:
    """Make CUDA compute the same numbers in every run, without which a resumed run would not be the same to the bit.

    torch warns of an operation that has no such algorithm, and computes it all the same: any backbone can be trained.
    """
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read when cuBLAS is first used
    torch.use_deterministic_algorithms(True, warn_only=True)
    # It would write to every new tensor, and none is read before it is written to.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    torch.backends.cudnn.benchmark = False  # it chooses algorithms by their time
    log.info("cuda: deterministic algorithms (--deterministic false: whichever is fastest)")


def _meeting_point() -> str | None:
    """Return the address by which the processes find each other; None: that of the launcher.

    An agent of `torchrun` keeps its store when it starts the processes again, with the addresses of the dead ones in it, and the
    new ones wait for those for ever (pytorch issue 135712). A prefix for each attempt keeps them apart. Several agents count
    their attempts each by itself, so there the user has to ask for a new store.
    """
    launcher = os.environ
    if launcher.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        return None
    if launcher.get("GROUP_WORLD_SIZE") == "1":
        return f"aevlp-attempt://{launcher['TORCHELASTIC_RESTART_COUNT']}"
    if launcher.get("TORCHELASTIC_MAX_RESTARTS", "0") != "0":
        log.warning("torchrun: after a restart its processes may wait for ever; set TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 for it")
    return None


def keep_freed_memory() -> None:
    """Make glibc keep the memory of freed tensors for the next ones.

    By default large blocks go back to the system and come again empty, page by page, which costs much of a training step.
    """
    if sys.platform != "linux" or (mallopt := getattr(ctypes.CDLL(None), "mallopt", None)) is None:
        return
    m_trim_threshold, m_mmap_max, m_arena_max = -1, -4, -8  # malloc.h
    for parameter, value in ((m_trim_threshold, 2**31 - 1), (m_mmap_max, 0), (m_arena_max, 1)):
        mallopt(parameter, value)


def give_back_memory() -> None:
    """Give freed memory back to the system, in spite of `keep_freed_memory`."""
    if sys.platform == "linux" and (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)) is not None:
        trim(0)


def teacher_precision(option: str, device: torch.device) -> str:
    """Return the precision that `--teacher.precision` means on a device: auto is fp16 on a GPU and fp32 elsewhere."""
    if option == "auto":
        return "fp16" if device.type == "cuda" else "fp32"
    if option == "int8" and device.type != "cpu":
        raise UserError(f"--teacher.precision int8: only a CPU computes in it, not {device.type}; use auto")
    if option == "fp16" and device.type == "cpu":
        raise UserError("--teacher.precision fp16: a CPU cannot compute in it; use auto")
    return option


def can_resize(device: torch.device) -> bool:
    """Return whether a device can resize images with antialiasing; some that run models cannot."""
    return device.type in ("cpu", "cuda")


def autocast(device: torch.device, precision: str) -> AbstractContextManager[Any]:
    """Return a context for forward passes in that precision; int8 concerns linear layers only, so it changes nothing here."""
    kinds = {"bf16": torch.bfloat16, "fp16": torch.float16}
    return torch.autocast(device.type, kinds[precision]) if precision in kinds else nullcontext()


def gpu_count() -> int:
    """Return the number of GPUs that jobs can share."""
    return torch.cuda.device_count()
