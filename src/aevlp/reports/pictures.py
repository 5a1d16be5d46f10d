"""Examples as a page shows them: thumbnails, and the teacher's tiles as shapes to draw over them."""

import base64
import io
from collections.abc import Callable
from dataclasses import dataclass

from aevlp.core.remote import location
from aevlp.data.images import BadImage, open_rgb
from aevlp.reports.evidence import Example, ExampleGrid, Tile

SIDE = 400  # pixels of a picture's longer side: a page shows it small, and enlarges it
QUALITY = 72
LARGEST_FONT = 13.0  # on a canvas
MOST_DETAIL = 7  # tiles per side up to which they have room for text
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
    """A tile on a canvas: its box, and the text in its cell of the grid."""

    left: float
    top: float
    width: float
    height: float
    x: float  # centre of the cell
    y: float  # baseline of the first of three lines
    size: float  # of the font; 0: no room for text
    plate_left: float  # of the plate behind the text
    plate_top: float
    plate_width: float
    plate_height: float
    tile: Tile
    top_class: str  # of the tile, shortened to the cell's width
    is_best: bool  # whether the example's label has its highest score here


@dataclass(frozen=True)
class ShownExample:
    """An example with its picture; tiles are shapes on a canvas of that width and height."""

    example: Example
    picture: Picture
    width: int
    height: int
    shapes: list[Shape]
    review: str  # the command that opens it in a review; empty: none


def shown_examples(grid: ExampleGrid, review: Callable[[Example], str] = lambda example: "") -> list[ShownExample]:
    """Return the examples of a grid with their pictures and, from `review`, the commands that open them in a review."""
    shown = []
    for example in grid.examples:
        picture = thumbnail(example.path, SIDE)
        width, height = canvas(picture)
        shown.append(ShownExample(example, picture, width, height, shapes(example, width, height), review(example)))
    return shown


def thumbnail(path: str, size: int) -> Picture:
    """Return the image at `path`, its longer side at most `size` pixels, or the reason why it cannot be read."""
    try:
        image = open_rgb(location(path), at_least=size)
    except BadImage as error:
        return Picture(None, size, size * 3 // 4, error.reason)
    image.thumbnail((size, size))
    content = io.BytesIO()
    image.save(content, "JPEG", quality=QUALITY, optimize=True)
    return Picture("data:image/jpeg;base64," + base64.b64encode(content.getvalue()).decode(), *image.size)


def canvas(picture: Picture) -> tuple[int, int]:
    """Return width and height of the drawing over a picture; its longer side is always `SIDE`."""
    scale = SIDE / max(picture.width, picture.height)
    return max(round(scale * picture.width), 1), max(round(scale * picture.height), 1)


def shapes(example: Example, width: int, height: int) -> list[Shape]:
    """Return the tiles of an example, row by row and without the whole image, on a canvas of that size."""
    tiles = example.tiles[1:]
    if not tiles:
        return []
    grid = round(len(tiles) ** 0.5)
    cell = width / grid, height / grid
    size = round(min(cell[0] / 6.5, cell[1] / 4, LARGEST_FONT), 1) if grid <= MOST_DETAIL else 0.0
    best = max(tiles, key=lambda tile: tile.score)
    found = []
    for number, tile in enumerate(tiles):
        left, top, right, bottom = tile.box
        row, column = divmod(number, grid)
        top_class = shortened(tile.top, int(cell[0] / (0.6 * size))) if size else ""
        plate = min(0.62 * size * max(len(top_class), 4) + size, cell[0])
        found.append(
            Shape(
                left=round(left * width, 1),
                top=round(top * height, 1),
                width=round((right - left) * width, 1),
                height=round((bottom - top) * height, 1),
                x=round((column + 0.5) * cell[0], 1),
                y=round((row + 0.5) * cell[1] - 0.8 * size, 1),
                size=size,
                plate_left=round((column + 0.5) * cell[0] - plate / 2, 1),
                plate_top=round((row + 0.5) * cell[1] - 1.9 * size, 1),
                plate_width=round(plate, 1),
                plate_height=round(3.75 * size, 1),
                tile=tile,
                top_class=top_class,
                is_best=tile is best,
            )
        )
    return found


def shortened(text: str, most: int) -> str:
    """Return the text in at most that many letters."""
    return text if len(text) <= most else text[: max(most - 1, 1)].rstrip() + ELLIPSIS
