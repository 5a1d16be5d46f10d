"""Scenes of the demo: drawn pictures with one to five classes in them, and the data set made of them.

A picture is a pure function of (seed, split, index), so that any number of workers in any order draw the same files.
"""

import csv
import math
import os
import shutil
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from uuid import uuid4

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFilter

from aevlp.core.processes import end_with_parent
from aevlp.experiments.demo.backgrounds import background, clutter
from aevlp.experiments.demo.pen import Pen
from aevlp.experiments.demo.styles import DEMO, DEMO_CAST, Style, between, inks
from aevlp.experiments.demo.things import THINGS, Thing

CLASSES = tuple(sorted(THINGS))
SPLITS = ("train", "test")
STALE = 3600.0  # seconds; a drawing takes about one minute

_OVERSAMPLING = 2
_SMALLEST_PART = 0.3  # of the area without anything in front: with less, a thing is hidden and not labelled
_SMALLEST_AREA = 0.0012  # of the picture


@dataclass(frozen=True)
class Scene:
    """A picture, and the visible share of each class in it (hidden classes are left out).

    `where`: uint8[height, width] at twice the picture's size, the place of the class in `wanted` plus 1, or 0 for none.
    """

    image: Image.Image
    areas: dict[str, float]
    where: npt.NDArray[np.uint8]

    @property
    def labels(self) -> list[str]:
        """The classes in the picture, in alphabetical order."""
        return sorted(self.areas)


def draw_scene(rng: np.random.Generator, style: Style, wanted: Sequence[str], things: Mapping[str, Thing] = THINGS) -> Scene:
    """Draw a scene with things of the wanted classes (names in `things`); hidden ones are not in its labels."""
    longest, aspect = between(rng, style.longest), math.exp(between(rng, (math.log(style.aspect[0]), math.log(style.aspect[1]))))
    width = _OVERSAMPLING * round(longest * min(1.0, aspect))
    height = _OVERSAMPLING * round(longest / max(1.0, aspect))
    kinds = list(style.backgrounds)
    odds = np.array([style.backgrounds[kind] for kind in kinds], dtype=float)
    canvas, behind = background(rng, kinds[int(rng.choice(len(kinds), p=odds / odds.sum()))], width, height)
    seen = Image.new("L", (width, height), 0)
    colour_draw, seen_draw = ImageDraw.Draw(canvas), ImageDraw.Draw(seen)

    halves = [(name, _half(rng, style)) for name in wanted for _ in range(_instances(rng, style))]
    # Mostly the large ones behind, so that few things are hidden.
    halves.sort(key=lambda pair: -pair[1] * rng.uniform(0.5, 2.0))
    marks = sorted(rng.integers(0, len(halves) + 1, int(rng.integers(0, style.clutter + 1))))
    bare: list[int] = [0]
    taken: list[tuple[float, float, float]] = []
    for number, (name, half) in enumerate(halves, start=1):
        for _ in range(marks.count(number - 1)):
            clutter(rng, colour_draw, seen_draw, (width, height))
        x, y, reach = _place(rng, style, width, height, half * min(width, height), taken)
        taken.append((x, y, reach))
        kind, stretch = things[name], math.exp(rng.normal(0, 0.1))
        lean = rng.normal(0, kind.tilt) * (2.5 if rng.random() < 0.1 else 1.0)
        pen = Pen(
            colour_draw,
            seen_draw,
            number,
            rng,
            inks(rng, style, kind.hues, behind),
            centre=(x, y),
            half=(reach * stretch, reach / stretch),
            tilt=math.radians(lean),
            mirrored=bool(rng.random() < 0.5),
        )
        kind.draw(pen)
        bare.append(seen.histogram()[number])
    for _ in range(marks.count(len(halves))):
        clutter(rng, colour_draw, seen_draw, (width, height))

    shown, areas = seen.histogram(), dict[str, float]()
    for number, (name, _) in enumerate(halves, start=1):
        share = shown[number] / (width * height)
        if share >= _SMALLEST_AREA and shown[number] >= _SMALLEST_PART * bare[number]:
            areas[name] = areas.get(name, 0.0) + share
    places = np.array([0, *(wanted.index(name) + 1 if name in areas else 0 for name, _ in halves)], dtype=np.uint8)
    return Scene(_finish(rng, style, canvas), areas, places[np.asarray(seen)])


def demo_scene(seed: int, split: str, index: int) -> Scene:
    """Draw the demo's picture number `index` of a split ("train" or "test"), with one to five classes."""
    rng = np.random.default_rng([seed, SPLITS.index(split), index])
    while True:
        scene = draw_scene(rng, DEMO, DEMO_CAST.choose(rng))
        if scene.areas:
            return scene


def write_world(folder: Path, *, seed: int = 0, train: int = 2500, test: int = 1000) -> None:
    """Draw the demo's data set into `folder`: images/*.jpg, labels.csv (image, labels, split), classes.txt.

    The folder appears complete or not at all; one that is there already is replaced.
    """
    folder = Path(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    for left in folder.parent.glob(f".{folder.name}.*.part"):
        if time.time() - left.stat().st_mtime > STALE:  # left by a drawing that was killed
            shutil.rmtree(left, ignore_errors=True)
    draft = folder.with_name(f".{folder.name}.{uuid4().hex}.part")
    (draft / "images").mkdir(parents=True)
    try:
        jobs = [(split, index) for split, count in zip(SPLITS, (train, test), strict=True) for index in range(count)]
        write = partial(_write_picture, draft, seed)
        workers = min(os.cpu_count() or 1, len(jobs) // 100)  # starting a worker costs about a hundred pictures
        if workers > 1:
            # spawn: a fork of a process in which torch has started threads can hang
            with ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=end_with_parent) as pool:
                rows = list(pool.map(write, jobs, chunksize=50))
        else:
            rows = [write(job) for job in jobs]
        with (draft / "labels.csv").open("w", newline="", encoding="utf-8") as file:
            table = csv.writer(file, lineterminator="\n")
            table.writerows([("image", "labels", "split"), *rows])
        (draft / "classes.txt").write_text("".join(f"{name}\n" for name in CLASSES), encoding="utf-8")
        if folder.exists():
            shutil.rmtree(folder)
        draft.rename(folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _write_picture(folder: Path, seed: int, job: tuple[str, int]) -> tuple[str, str, str]:
    split, index = job
    scene = demo_scene(seed, split, index)
    name = f"images/{split}-{index:05d}.jpg"
    scene.image.save(folder / name, quality=80 + index % 4 * 5)
    return name, ";".join(scene.labels), split


def _half(rng: np.random.Generator, style: Style) -> float:
    low, high = style.size
    return low * math.exp(math.log(high / low) * float(rng.random()))


def _instances(rng: np.random.Generator, style: Style) -> int:
    return 1 + int(rng.random() < style.again) + int(rng.random() < style.again / 2)


def _place(
    rng: np.random.Generator, style: Style, width: int, height: int, reach: float, taken: list[tuple[float, float, float]]
) -> tuple[float, float, float]:
    """Return centre and half size in pixels: of a few random places, the one with the most room around it."""
    best, room = (0.0, 0.0, reach), -math.inf
    for _ in range(style.spread):
        spots = []
        for side in (width, height):
            edge = min(reach * style.margin, side * 0.45)
            spots.append(float(rng.uniform(edge, side - edge)))
        x, y = spots
        free = min((math.hypot(x - a, y - b) - reach - r for a, b, r in taken), default=0.0)
        if free > room:
            best, room = (x, y, reach), free
    return best


def _finish(rng: np.random.Generator, style: Style, canvas: Image.Image) -> Image.Image:
    image = canvas.reduce(_OVERSAMPLING)
    if rng.random() < 0.5:
        image = image.filter(ImageFilter.GaussianBlur(between(rng, style.blur)))
    if rng.random() < style.grey:
        image = image.convert("L").convert("RGB")
    grain = between(rng, style.noise)
    if grain >= 1.0:
        pixels = np.asarray(image, dtype=np.float32)
        noise = rng.standard_normal((*pixels.shape[:2], 1), dtype=np.float32) * grain
        image = Image.fromarray(np.clip(pixels + noise, 0, 255).astype(np.uint8))
    return image
