"""The cost of an image in sets of growing size: time, disk and memory of the commands as a user types them."""

import logging
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from aevlp.experiments.bench.images import patchwork, write_images
from aevlp.experiments.bench.registry import Bench, Measurement, register_figure
from aevlp.experiments.bench.timing import Ratio

MOST = 1.1
log = logging.getLogger("aevlp.experiments.bench")


@dataclass(frozen=True)
class CommandCost:
    """Time and memory of a command."""

    seconds: float
    peak: float
    """Resident MB."""


@register_figure("growth", "cost per image in the largest set / in the smallest: seconds, disk, memory", takes_long=True)
def growth(
    bench: Bench, *, repeats: int = 1, sizes: Sequence[int] = (1_000, 10_000, 50_000), tiny: int = 60, image_size: int = 48
) -> list[Measurement]:
    """Measure `score` and `train` (one draw, one epoch) with the demo's models on images of 64 x 48 pixels.

    The seconds are those beyond a set of `tiny` images, which takes as long to start and to check.
    """
    scored: dict[int, list[CommandCost]] = {size: [] for size in (tiny, *sizes)}
    trained: dict[int, list[CommandCost]] = {size: [] for size in scored}
    disk: dict[int, int] = {}
    for size in scored:
        write_images(bench.folder / f"set-{size}", train=size, val=40, width=64, height=48, picture=patchwork)
    common = ["--recipe", "demo", "--model.image_size", image_size, "--epochs", 1, "--damp.draws", 1]
    common += ["--device", bench.accelerator.device.type]
    # The first command of all reads from a cold file cache: it is not timed.
    cost_of(["score", bench.folder / f"set-{tiny}", *common, "--store", bench.folder / "views-warm"])
    for turn in range(repeats):
        log.info("growth: round %d of %d", turn + 1, repeats)
        for size in scored if turn % 2 == 0 else reversed(scored):
            folder, store = bench.folder / f"set-{size}", bench.folder / f"views-{turn}-{size}"
            log.info("growth: %d images", size)
            scored[size].append(cost_of(["score", folder, *common, "--store", store]))
            disk[size] = sum(file.stat().st_size for file in store.rglob("*.npy"))
            run = bench.folder / f"run-{turn}-{size}"
            trained[size].append(cost_of(["train", folder, "--out", run, *common, "--store", store]))

    def per_image(costs: dict[int, list[CommandCost]], size: int) -> list[float]:
        return [(cost.seconds - less.seconds) / (size - tiny) for cost, less in zip(costs[size], costs[tiny], strict=True)]

    setting = {
        "images": " / ".join(f"{size:,}" for size in sizes) + " JPEG of 64 x 48",
        "models": f"the demo's, {image_size} px",
        "repeats": repeats,
    }

    def row(what: str, values: dict[int, list[float]], unit: str) -> Measurement:
        ratio = Ratio.of([large / small for large, small in zip(values[sizes[-1]], values[sizes[0]], strict=True)])
        return Measurement.of(
            ratio,
            f"{what}, {sizes[-1]:,} images",
            f"{sizes[0]:,} images",
            at_most=MOST,
            absolute={f"{unit}, {size:,} images": median(values[size]) for size in sizes},
            setting=setting,
        )

    return [
        row("seconds per image of scoring", {s: [1000 * t for t in per_image(scored, s)] for s in sizes}, "ms"),
        row("bytes per image of the store", {s: [disk[s] / s] for s in sizes}, "bytes"),
        row("seconds per image of training", {s: [1000 * t for t in per_image(trained, s)] for s in sizes}, "ms"),
        row("peak memory of scoring", {s: [cost.peak for cost in scored[s]] for s in sizes}, "MB"),
        row("peak memory of training", {s: [cost.peak for cost in trained[s]] for s in sizes}, "MB"),
    ]


_LAUNCH = """
import os, subprocess, sys
child = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
_, status, used = os.wait4(child.pid, 0)
print(used.ru_maxrss)
sys.exit(os.waitstatus_to_exitcode(status) & 255)
"""
"""A small process in between: the peak of a child starts at the peak of the process that forked it."""


def cost_of(words: Sequence[object]) -> CommandCost:
    """Run the command `aevlp WORDS` in a process of its own and return its cost."""
    started = time.perf_counter()
    launcher = [sys.executable, "-S", "-c", _LAUNCH]
    done = subprocess.run([*launcher, sys.executable, "-m", "aevlp", *map(str, words)], capture_output=True, text=True)
    seconds = time.perf_counter() - started
    if done.returncode:
        raise RuntimeError(f"aevlp {' '.join(map(str, words))} failed:\n{done.stderr}")
    unit = 1 if sys.platform == "darwin" else 1024  # bytes there, kilobytes elsewhere
    return CommandCost(seconds, int(done.stdout) * unit / 1e6)
