"""Image sets to measure with: photo-like JPEGs, or many small ones that are written quickly."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image

from aevlp.experiments.demo.scenes import CLASSES

QUALITY = 90
GRAIN = 4.0
"""Standard deviation of the noise; with it a picture of 500 x 375 pixels takes about 50 kB, as a photograph does."""

Picture = Callable[[np.random.Generator, int, int], Image.Image]


def photo(rng: np.random.Generator, width: int, height: int) -> Image.Image:
    """Draw soft colours of several scales, a few discs with hard edges, fine grain: as costly to decode as a real photo."""
    pixels = np.zeros((height, width, 3), np.float32)
    for share, cells in ((0.55, 3), (0.3, 12), (0.15, 60)):
        pixels += share * _colours(rng, width, height, cells)
    rows, columns = np.mgrid[:height, :width]
    for _ in range(6):
        x, y, radius = rng.uniform(0, width), rng.uniform(0, height), rng.uniform(0.05, 0.25) * width
        pixels[(columns - x) ** 2 + (rows - y) ** 2 < radius**2] += rng.uniform(-60, 60, 3)
    pixels += GRAIN * rng.standard_normal((height, width, 1), dtype=np.float32)
    return Image.fromarray(pixels.clip(0, 255).astype(np.uint8))


def patchwork(rng: np.random.Generator, width: int, height: int) -> Image.Image:
    """Draw a few soft colours, in a fraction of a millisecond."""
    return Image.fromarray(_colours(rng, width, height, 6).astype(np.uint8))


def _colours(rng: np.random.Generator, width: int, height: int, cells: int) -> npt.NDArray[np.float32]:
    """Return random colours on a grid of `cells` columns with soft borders, float32 [height, width, 3]."""
    grid = rng.integers(0, 256, (max(2, cells * height // width), cells, 3), dtype=np.uint8)
    return np.asarray(Image.fromarray(grid).resize((width, height), Image.Resampling.BICUBIC), np.float32)


def write_images(
    folder: Path, *, train: int, val: int = 0, width: int = 500, height: int = 375, picture: Picture = photo
) -> list[Path]:
    """Write an image set and return its image files: images/*.jpg, and a table that gives them the demo's classes at random."""
    rng = np.random.default_rng(0)
    (folder / "images").mkdir(parents=True)
    lines, paths = ["image,labels,split"], []
    for number in range(train + val):
        name = f"images/{number:06d}.jpg"
        picture(rng, width, height).save(folder / name, quality=QUALITY)
        # The first images show one class each, so that every class has an example whichever label is kept of the others.
        more = rng.choice(CLASSES, rng.integers(0, 3)).tolist() if number >= len(CLASSES) else []
        shown = {CLASSES[number % len(CLASSES)], *more}
        lines.append(f"{name},{';'.join(sorted(shown))},{'train' if number < train else 'val'}")
        paths.append(folder / name)
    (folder / "labels.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "classes.txt").write_text("\n".join(CLASSES) + "\n", encoding="utf-8")
    return paths
