"""The processes of a command, and the options of the device that it computes on. Loads without torch."""

import _thread
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from aevlp.core.errors import one_line
from aevlp.core.options import Options

PARENT = "AEVLP_PARENT"
"""Variable of the environment: the id of the process that started this one and that it must not outlive."""
LOOK_EVERY = 0.5  # seconds between two looks at the parent
GRACE = 5.0  # seconds that a process without its parent has to stop
GROUP_ERRORS = {"DistBackendError", "DistNetworkError", "DistStoreError"}
"""Errors of torch.distributed, which is not loaded here."""


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


def end_with_launcher() -> None:
    """Keep this process from outliving a sweep or `torchrun` that has started it; a user's own shell may end."""
    if (parent := os.environ.pop(PARENT, "")).isdecimal():
        end_with_parent(int(parent))
    elif "TORCHELASTIC_RUN_ID" in os.environ:
        end_with_parent()


def end_with_parent(parent: int | None = None) -> None:
    """End this process soon after its parent has ended, by whatever: interrupt it, and after GRACE seconds end it at once.

    `parent` is the parent's id; None: the parent is alive now. The system gives an orphan another parent, which a thread looks
    for. (Windows does not: there orphans go on.)
    """
    expected = os.getppid() if parent is None else parent
    threading.Thread(target=_watch_parent, args=(expected,), name="parent", daemon=True).start()


def _watch_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(LOOK_EVERY)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        _thread.interrupt_main()  # it leaves nothing half-written
        time.sleep(GRACE)
    os._exit(1)


def lost_process(error: RuntimeError) -> str | None:
    """Return one line about a process of the group that is gone, if an error of this one says so; None: it is another error."""
    ours, count = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    broken = re.search(r"Connection (closed|reset) by peer|Broken pipe", str(error))
    if count == 1 or not (broken or type(error).__name__ in GROUP_ERRORS):
        return None
    other = f"process {1 - ours}" if count == 2 else f"one of the other {count - 1} processes"
    why = broken[0] if broken else one_line(error)
    return f"process {ours}: {other} has ended or cannot be reached ({why}); its own output and the launcher's say why"


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
