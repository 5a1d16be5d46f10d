"""Training scenes, drawn ahead by a few processes and held as arrays: never the demo's own pictures."""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context

import numpy as np
import numpy.typing as npt
from PIL import Image

from aevlp.core.processes import end_with_parent
from aevlp.experiments.demo.scenes import draw_scene
from aevlp.experiments.demo.styles import DEMO, Cast, Style
from aevlp.experiments.demo.things import THINGS
from tools.demo_models.others import ALL_THINGS, OTHERS

# For the CLIP: other palettes, lines and backgrounds; things from tiny to overflowing the frame, as in a tile.
CAPTIONED = Style(
    backgrounds={"flat": 3, "gradient": 1, "checks": 2, "dots": 2, "grain": 2, "horizon": 1, "stripes": 1},
    longest=(56, 64),
    aspect=(0.7, 1.43),
    size=(0.11, 1.0),
    natural=0.75,
    saturation=(0.1, 0.85),
    value=(0.25, 1.0),
    outlined=0.6,
    outline_width=(0.5, 2.0),
    outline_value=(0.0, 1.0),
    clutter=4,
    again=0.15,
    margin=0.35,
    spread=3,
    blur=(0.3, 1.0),
    noise=(0.0, 8.0),
    grey=0.1,
)

# For the backbone: the look of the demo, but other things (as ImageNet's photographs are to VOC's).
PRETRAINING = replace(DEMO, longest=(100, 100), aspect=(0.8, 1.25), size=(0.14, 0.55), natural=0.5)
CAPTIONED_CAST = Cast(
    weights=dict.fromkeys(THINGS, 1.0) | dict.fromkeys(OTHERS, 0.35),
    counts=(0.06, 0.6, 0.22, 0.12),
)
PRETRAINING_CAST = Cast(weights=dict.fromkeys(OTHERS, 1.0), counts=(0, 0.35, 0.3, 0.2, 0.15))

# First word of the seeds: no picture of the demo (seed, split, index) shares it, for a seed that anyone would type.
_PURPOSES = {"captioned": 0xC11B_0000, "pretraining": 0xBAC0_0000}
_STYLES: dict[str, tuple[Style, Cast]] = {
    "captioned": (CAPTIONED, CAPTIONED_CAST),
    "pretraining": (PRETRAINING, PRETRAINING_CAST),
}


NAMES = sorted(ALL_THINGS)
"""Every class that can be drawn; place + 1 is its number in `TrainingScenes.where`."""

_Drawn = tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8], dict[str, float]]


@dataclass(frozen=True)
class TrainingScenes:
    """Pictures with the classes in them.

    `pixels` uint8[N, 3, side, side]; `where` uint8[N, side, side], 0 for the background or 1 + the place in NAMES of the
    class seen there; `areas`, for each picture, class -> share of it in which the class is seen.
    """

    pixels: npt.NDArray[np.uint8]
    where: npt.NDArray[np.uint8]
    areas: list[dict[str, float]]


def draw_training_scenes(purpose: str, *, seed: int, count: int, side: int, log: Callable[[str], None]) -> TrainingScenes:
    """Draw scenes number 0 to count - 1 for a purpose ("captioned" or "pretraining"), squashed to side x side."""
    pixels = np.empty((count, 3, side, side), dtype=np.uint8)
    where, areas = np.empty((count, side, side), dtype=np.uint8), list[dict[str, float]]()
    for i, (picture, classes, seen) in enumerate(_drawn(partial(_draw, purpose, seed, side), count)):
        pixels[i], where[i] = picture, classes
        areas.append(seen)
        if (i + 1) % 10000 == 0:
            log(f"  {i + 1} of {count} scenes drawn")
    return TrainingScenes(pixels, where, areas)


def _drawn(draw: Callable[[int], _Drawn], count: int) -> Iterator[_Drawn]:
    workers = min(os.cpu_count() or 1, count // 500)
    if workers < 2:
        yield from map(draw, range(count))
        return
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=end_with_parent) as pool:
        yield from pool.map(draw, range(count), chunksize=100)


def _draw(purpose: str, seed: int, side: int, index: int) -> _Drawn:
    style, cast = _STYLES[purpose]
    rng = np.random.default_rng([_PURPOSES[purpose], seed, index])
    wanted = cast.choose(rng)
    scene = draw_scene(rng, style, wanted, ALL_THINGS)
    image = scene.image.resize((side, side), Image.Resampling.BICUBIC)
    numbers = np.array([0, *(NAMES.index(name) + 1 for name in wanted)], dtype=np.uint8)
    classes = Image.fromarray(numbers[scene.where]).resize((side, side), Image.Resampling.NEAREST)
    return np.asarray(image).transpose(2, 0, 1), np.asarray(classes), scene.areas
