"""Images as small as a page can carry them, and the teacher's tiles as shapes to draw over them."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass
from pathlib import Path

from aevlp.data.images import BadImage, open_rgb
from aevlp.reports.examples import Exhibit

SMALL, LARGE = 192, 400  # pixels of the longer side
QUALITY = 72
LETTERS = 13.0  # their greatest size on a canvas
MOST_DETAIL = 7  # tiles a side up to which there is room for words in them
ELLIPSIS = "…"


@dataclass(frozen=True)
class Picture:
    """A thumbnail as a data URI, or why there is none."""

    uri: str | None
    width: int
    height: int
    reason: str = ""


@dataclass(frozen=True)
class Shape:
    """A tile to draw on a canvas: the box, and what is written in its cell."""

    left: float
    top: float
    width: float
    height: float
    x: float  # the middle of the cell
    y: float  # the foot of the first of three lines
    size: float  # of the letters; 0: no room for any
    top_class: str
    shown_class: str  # as much of it as there is room for
    top_score: float
    score: float
    is_best: bool  # the tile in which the class in question has its highest score


def thumbnail(path: str, size: int) -> Picture:
    """The image at `path` with its longer side at most `size` pixels; a file that is gone, or damaged, gives the reason."""
    try:
        image = open_rgb(Path(path), at_least=size)
    except BadImage as error:
        return Picture(None, size, size * 3 // 4, error.reason)
    image.thumbnail((size, size))
    content = io.BytesIO()
    image.save(content, "JPEG", quality=QUALITY, optimize=True)
    return Picture("data:image/jpeg;base64," + base64.b64encode(content.getvalue()).decode(), *image.size)


def canvas(picture: Picture) -> tuple[int, int]:
    """Width and height of what is drawn over a picture: its longer side is `LARGE`, however small the image is."""
    scale = LARGE / max(picture.width, picture.height)
    return max(round(scale * picture.width), 1), max(round(scale * picture.height), 1)


def shapes(exhibit: Exhibit, width: int, height: int) -> list[Shape]:
    """The tiles of an exhibit, row by row, without the whole image, on a canvas of that size."""
    tiles = exhibit.tiles[1:]
    if not tiles:
        return []
    grid = round(len(tiles) ** 0.5)
    cell = width / grid, height / grid
    size = round(min(cell[0] / 6.5, cell[1] / 4, LETTERS), 1) if grid <= MOST_DETAIL else 0.0
    best = max(tiles, key=lambda tile: tile.score)
    found = []
    for number, tile in enumerate(tiles):
        left, top, right, bottom = tile.box
        row, column = divmod(number, grid)
        found.append(
            Shape(
                left=round(left * width, 1),
                top=round(top * height, 1),
                width=round((right - left) * width, 1),
                height=round((bottom - top) * height, 1),
                x=round((column + 0.5) * cell[0], 1),
                y=round((row + 0.5) * cell[1] - 0.8 * size, 1),
                size=size,
                top_class=tile.top,
                shown_class=shortened(tile.top, int(cell[0] / (0.6 * size))) if size else "",
                top_score=tile.top_score,
                score=tile.score,
                is_best=tile is best,
            )
        )
    return found


def shortened(text: str, most: int) -> str:
    """The text in at most so many letters."""
    return text if len(text) <= most else text[: max(most - 1, 1)].rstrip() + ELLIPSIS
