"""Every command on a million images: the cost of an image there against its cost in a small set."""

import logging
import os
import shutil
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from aevlp.experiments.bench.command_cost import CommandCost, cost_of, cost_to_first_page
from aevlp.experiments.bench.images import patchwork
from aevlp.experiments.bench.measurement import Bench, Measurement, Ratio, register_figure
from aevlp.experiments.bench.models import save_clip, save_resnet
from aevlp.experiments.demo.scenes import CLASSES

SIDE = 32  # pixels of an image, and of what the models see
PICTURES = 1000  # different ones
PER_FOLDER = 1000  # files
COPY_EVERY = 20  # every so many images, one is a copy of the one before
TEACHER: Mapping[str, int] = {"side": SIDE, "patch": 16, "width": 32, "layers": 1, "heads": 1, "dimension": 16}
BACKBONE: Mapping[str, Any] = {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1], "layer_type": "basic"}
MOST_TIME = 1.2  # goal: seconds per image in the large set / in the small one
MOST_MEMORY = 1000  # goal: bytes of each image beyond the small set, names and labels included
log = logging.getLogger("aevlp.experiments.bench")


@register_figure("million", "cost per image of every command in a set of a million / of ten thousand", takes_long=True)
def million(
    bench: Bench, *, repeats: int = 1, sizes: tuple[int, int] = (10_000, 1_000_000), tiny: int = 200
) -> list[Measurement]:
    """Measure the commands from `check` to the first page of `review`, with models so small that the rest of the work shows.

    Each image has one of the demo's classes as its tag. The seconds are those of the processor beyond a set of `tiny` images,
    which takes as long to start; the memory is that of each image beyond the smaller of the two `sizes`.
    """
    save_clip(bench.folder / "clip", **TEACHER)
    save_resnet(bench.folder / "resnet", side=SIDE, **BACKBONE)
    costs: dict[str, dict[int, list[CommandCost]]] = {}
    for size in (tiny, *sizes):
        log.info("million: writing %d images", size)
        data = bench.folder / f"set-{size}"
        write_many(data, size)
        if size == tiny:
            cost_of(["check", data])  # the first command of all reads from a cold file cache
        for turn in range(repeats):
            log.info("million: %d images, round %d of %d", size, turn + 1, repeats)
            for step, cost in costs_of_commands(bench.folder, data, bench.accelerator.device.type).items():
                costs.setdefault(step, {}).setdefault(size, []).append(cost)
        shutil.rmtree(data)
    few, many = sizes
    setting = {
        "images": f"{few:,} / {many:,} JPEG of {SIDE} x {SIDE}, {len(CLASSES)} classes, one tag each",
        "models": f"a CLIP and a ResNet of one or two layers, {SIDE} px",
        "repeats": repeats,
    }
    return [
        row
        for step, found in costs.items()
        for row in (_time(step, found, (tiny, few, many), setting), _memory(step, found, (few, many), setting))
    ]


def _time(
    step: str, costs: Mapping[int, Sequence[CommandCost]], sizes: tuple[int, int, int], setting: Mapping[str, Any]
) -> Measurement:
    tiny, few, many = sizes
    start = median(cost.processor for cost in costs[tiny])

    def per_image(cost: CommandCost, size: int) -> float:
        return (cost.processor - start) / (size - tiny)

    ratios = [per_image(a, many) / per_image(b, few) for a, b in zip(costs[many], costs[few], strict=True)]
    absolute = {f"ms, {size:,} images": 1000 * median(per_image(cost, size) for cost in costs[size]) for size in (few, many)}
    absolute |= {f"s in all, {size:,} images": median(cost.seconds for cost in costs[size]) for size in sizes}
    return Measurement.of(
        Ratio.of(ratios),
        f"processor time per image of {step}, {many:,} images",
        f"{few:,} images",
        at_most=MOST_TIME,
        absolute=absolute,
        setting=setting,
    )


def _memory(
    step: str, costs: Mapping[int, Sequence[CommandCost]], sizes: tuple[int, int], setting: Mapping[str, Any]
) -> Measurement:
    few, many = sizes
    more = [(a.peak - b.peak) * 1e6 / (many - few) for a, b in zip(costs[many], costs[few], strict=True)]
    return Measurement.of(
        Ratio.of(more),
        f"peak memory of {step} for each image beyond {few:,}",
        "",
        unit="bytes",
        at_most=MOST_MEMORY,
        absolute={f"MB, {size:,} images": median(cost.peak for cost in costs[size]) for size in sizes},
        setting=setting,
    )


def costs_of_commands(folder: Path, data: Path, device: str) -> dict[str, CommandCost]:
    """Return the cost of each command on the image set at `data`; the models are in `folder`."""
    costs = {}
    for name, words in commands(folder, data, device).items():
        log.info("million: %s", name)
        cost = costs[name] = cost_to_first_page([name, *words]) if name == "review" else cost_of([name, *words])
        log.info("million: %s took %.0f s, %.0f s of the processor, %.0f MB", name, cost.seconds, cost.processor, cost.peak)
    shutil.rmtree(folder / "work")
    return costs


def commands(folder: Path, data: Path, device: str) -> dict[str, list[object]]:
    """Return the words of each command; it uses what those before it have left in `folder`/work."""
    work = folder / "work"
    run, completed = work / "run", work / "completed.jsonl"
    teacher: list[object] = ["--teacher", folder / "clip", "--teacher.batch_size", 1000]
    views: list[object] = ["--damp.grid", 1, "--damp.draws", 1, "--damp.augment", "false"]
    common: list[object] = [*teacher, *views, "--store", work / "store", "--device", device]
    model: list[object] = ["--backbone", folder / "resnet", "--model.image_size", SIDE]
    training: list[object] = ["--train.mode", "linear", "--train.batch_size", 256, "--epochs", 1]
    return {
        "check": [data],
        "score": [data, *common, "--epochs", 1],
        "train": [data, "--out", run, *common, *model, *training],
        "predict": [run, data / "images", "--out", work / "found.csv", "--batch-size", 256, "--device", device],
        "label": [data, "--run", run, "--out", completed, *common],
        "review": [completed, "--port", 0],
    }


def write_many(folder: Path, images: int) -> None:
    """Write an image set of many small files, of which a few are copies; the others all differ, if only in their last bytes.

    So every image has to be hashed, scored and stored by itself, and yet only `PICTURES` pictures have to be drawn.
    """
    rng, pictures = np.random.default_rng(0), []
    for _ in range(min(PICTURES, images)):
        content = BytesIO()
        patchwork(rng, SIDE, SIDE).save(content, "JPEG", quality=75)
        pictures.append(content.getvalue())
    (folder / "images").mkdir(parents=True)
    with (folder / "labels.csv").open("w", encoding="utf-8") as table:
        table.write("image,labels\n")
        before = folder
        for number in range(images):
            name = f"images/{number // PER_FOLDER:04d}/{number:07d}.jpg"
            path = folder / name
            if number % PER_FOLDER == 0:
                path.parent.mkdir()
            if number % COPY_EVERY == COPY_EVERY - 1:
                os.link(before, path)
            else:
                path.write_bytes(pictures[number % len(pictures)] + number.to_bytes(8))  # a JPEG ends before its last bytes
            table.write(f"{name},{CLASSES[number % len(CLASSES)]}\n")
            before = path
