"""Scenes to learn from, drawn ahead by a few processes and kept as arrays: never the demo's own pictures."""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context

import numpy as np
import numpy.typing as npt
from PIL import Image

from aevlp.experiments.demo.scenes import draw_scene
from aevlp.experiments.demo.styles import BOOK, CAPTIONED, CAPTIONED_CAST, PRETRAINING, PRETRAINING_CAST, Cast, Style

# First word of the seeds, which no picture of the demo (seed, split, index) shares for a seed anyone would type.
_PURPOSES = {"captioned": 0xC11B_0000, "pretraining": 0xBAC0_0000}
_LOOKS: dict[str, tuple[Style, Cast]] = {
    "captioned": (CAPTIONED, CAPTIONED_CAST),
    "pretraining": (PRETRAINING, PRETRAINING_CAST),
}


NAMES = sorted(BOOK)
"""Every class that can be drawn; place + 1 is its number in `Lessons.where`."""

_Lesson = tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8], dict[str, float]]


@dataclass(frozen=True)
class Lessons:
    """Pictures and what is in them.

    `pixels` uint8[N, 3, side, side]; `where` uint8[N, side, side], 0 for the background or 1 + the place in NAMES of the
    class seen there; `areas`, for each picture, class -> share of it in which the class is seen.
    """

    pixels: npt.NDArray[np.uint8]
    where: npt.NDArray[np.uint8]
    areas: list[dict[str, float]]


def draw_lessons(purpose: str, *, seed: int, count: int, side: int, log: Callable[[str], None]) -> Lessons:
    """Scenes number 0 to count - 1 for a purpose ("captioned" or "pretraining"), squashed to side x side."""
    pixels = np.empty((count, 3, side, side), dtype=np.uint8)
    where, areas = np.empty((count, side, side), dtype=np.uint8), list[dict[str, float]]()
    for i, (picture, classes, seen) in enumerate(_drawn(partial(_lesson, purpose, seed, side), count)):
        pixels[i], where[i] = picture, classes
        areas.append(seen)
        if (i + 1) % 10000 == 0:
            log(f"  {i + 1} of {count} scenes drawn")
    return Lessons(pixels, where, areas)


def _drawn(draw: Callable[[int], _Lesson], count: int) -> Iterator[_Lesson]:
    workers = min(os.cpu_count() or 1, count // 500)
    if workers < 2:
        yield from map(draw, range(count))
        return
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        yield from pool.map(draw, range(count), chunksize=100)


def _lesson(purpose: str, seed: int, side: int, index: int) -> _Lesson:
    style, cast = _LOOKS[purpose]
    rng = np.random.default_rng([_PURPOSES[purpose], seed, index])
    wanted = cast.choose(rng)
    scene = draw_scene(rng, style, wanted)
    image = scene.image.resize((side, side), Image.Resampling.BICUBIC)
    numbers = np.array([0, *(NAMES.index(name) + 1 for name in wanted)], dtype=np.uint8)
    classes = Image.fromarray(numbers[scene.where]).resize((side, side), Image.Resampling.NEAREST)
    return np.asarray(image).transpose(2, 0, 1), np.asarray(classes), scene.areas
