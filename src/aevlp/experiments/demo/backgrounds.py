"""The background of a scene: plain and patterned grounds, horizons, rooms; and clutter that belongs to no class."""

from collections.abc import Callable

import numpy as np
from PIL import Image, ImageDraw

from aevlp.experiments.demo.pen import Colour
from aevlp.experiments.demo.styles import colour

Painter = Callable[[np.random.Generator, int, int, Colour, Colour], Image.Image]


def _flat(rng: np.random.Generator, width: int, height: int, one: Colour, two: Colour) -> Image.Image:
    return Image.new("RGB", (width, height), one)


def _gradient(rng: np.random.Generator, width: int, height: int, one: Colour, two: Colour) -> Image.Image:
    corners = np.array([[one, _mix(one, two, rng.random())], [_mix(one, two, rng.random()), two]], dtype=np.uint8)
    return Image.fromarray(corners).resize((width, height), Image.Resampling.BILINEAR)


def _grain(rng: np.random.Generator, width: int, height: int, one: Colour, two: Colour) -> Image.Image:
    cells = int(rng.integers(4, 24))
    shares = rng.random((cells, cells, 1))
    field = np.array(one) * shares + np.array(two) * (1 - shares)
    return Image.fromarray(field.astype(np.uint8)).resize((width, height), Image.Resampling.BICUBIC)


def _stripes(rng: np.random.Generator, width: int, height: int, one: Colour, two: Colour) -> Image.Image:
    image = Image.new("RGB", (width, height), one)
    draw, step = ImageDraw.Draw(image), max(4, int(min(width, height) * rng.uniform(0.06, 0.25)))
    lean = int(rng.choice([0, 0, height, -height]))
    if rng.random() < 0.3 and lean == 0:
        for y in range(0, height, 2 * step):
            draw.rectangle((0, y, width, y + step), fill=two)
        return image
    for x in range(-height, width + height, 2 * step):
        draw.polygon([(x, 0), (x + step, 0), (x + step + lean, height), (x + lean, height)], fill=two)
    return image


def _checks(rng: np.random.Generator, width: int, height: int, one: Colour, two: Colour) -> Image.Image:
    cells = int(rng.integers(3, 10))
    board = (np.indices((cells, cells)).sum(axis=0) % 2)[..., None]
    field = np.where(board, np.array(one), np.array(two)).astype(np.uint8)
    return Image.fromarray(field).resize((width, height), Image.Resampling.NEAREST)


def _dots(rng: np.random.Generator, width: int, height: int, one: Colour, two: Colour) -> Image.Image:
    image = Image.new("RGB", (width, height), one)
    draw, step = ImageDraw.Draw(image), max(8, int(min(width, height) * rng.uniform(0.12, 0.3)))
    radius = step * rng.uniform(0.12, 0.3)
    for y in range(step // 2, height, step):
        for x in range(step // 2, width, step):
            draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=two)
    return image


def _horizon(rng: np.random.Generator, width: int, height: int, one: Colour, two: Colour) -> Image.Image:
    sky = colour(rng.normal(0.58, 0.05), rng.uniform(0.15, 0.5), rng.uniform(0.7, 1.0))
    hue = float(rng.choice([0.12, 0.3, 0.58, 0.08]))  # sand, grass, water, earth
    ground = colour(hue + rng.normal(0, 0.02), rng.uniform(0.25, 0.6), rng.uniform(0.45, 0.85))
    image = _gradient(rng, width, height, sky, _mix(sky, (255, 255, 255), 0.5))
    draw, level = ImageDraw.Draw(image), height * rng.uniform(0.35, 0.8)
    if rng.random() < 0.4:
        steps = np.linspace(0, width, 9)
        hills = [(float(x), level - height * 0.15 * float(rng.random())) for x in steps]
        draw.polygon([*hills, (width, level + 2), (0, level + 2)], fill=_mix(ground, sky, 0.5))
    draw.rectangle((0, level, width, height), fill=ground)
    for _ in range(int(rng.integers(0, 12))):
        y, x = rng.uniform(level, height), rng.uniform(0, width)
        draw.line([(x, y), (x + width * rng.uniform(0.02, 0.2), y)], fill=_mix(ground, sky, 0.35), width=2)
    return image


def _room(rng: np.random.Generator, width: int, height: int, one: Colour, two: Colour) -> Image.Image:
    wall = Image.new("RGB", (width, height), _mix(one, (240, 235, 220), 0.5))
    draw, level = ImageDraw.Draw(wall), height * rng.uniform(0.55, 0.85)
    draw.rectangle((0, level, width, height), fill=_mix(two, (120, 85, 60), 0.6))
    draw.line([(0, level), (width, level)], fill=(235, 235, 235), width=max(2, height // 50))
    if rng.random() < 0.5:
        step = max(8, int(width * rng.uniform(0.08, 0.2)))
        for x in range(0, width, step):
            draw.line([(x, level), (x - (width / 2 - x) * 0.4, height)], fill=_mix(two, (60, 40, 30), 0.6), width=2)
    return wall


KINDS: dict[str, Painter] = {
    painter.__name__.removeprefix("_"): painter
    for painter in (_flat, _gradient, _grain, _stripes, _checks, _dots, _horizon, _room)
}


def background(rng: np.random.Generator, kind: str, width: int, height: int) -> tuple[Image.Image, Colour]:
    """Return a background of this kind and size in two soft colours, and its mean colour."""
    hue = rng.random()
    one = colour(hue, rng.uniform(0.05, 0.55), rng.uniform(0.35, 1.0))
    two = colour(hue + rng.normal(0, 0.12), rng.uniform(0.05, 0.55), rng.uniform(0.35, 1.0))
    image = KINDS[kind](rng, width, height, one, two)
    red, green, blue = (int(v) for v in np.asarray(image.resize((8, 8), Image.Resampling.BOX)).mean(axis=(0, 1)))
    return image, (red, green, blue)


def clutter(rng: np.random.Generator, canvas: ImageDraw.ImageDraw, seen: ImageDraw.ImageDraw, size: tuple[int, int]) -> None:
    """Draw one mark of no class (a line, a scrawl, a blob, a shard), which hides everything under it."""
    width, height = size
    short = min(width, height)
    x, y, reach = rng.uniform(0, width), rng.uniform(0, height), short * rng.uniform(0.03, 0.2)
    ink = colour(rng.random(), rng.uniform(0.0, 0.9), rng.uniform(0.1, 1.0))
    kind = int(rng.integers(4))
    if kind == 0:
        points = [(x, y), (x + rng.normal(0, 2) * reach, y + rng.normal(0, 2) * reach)]
    elif kind == 1:
        points = [(x + float(a), y + float(b)) for a, b in rng.normal(0, 1, (6, 2)).cumsum(axis=0) * reach * 0.4]
    else:
        count = int(rng.integers(3, 5)) if kind == 2 else 12
        turns = np.sort(rng.uniform(0, 2 * np.pi, count)) if kind == 2 else np.linspace(0, 2 * np.pi, count)
        radii = reach * rng.uniform(0.4, 1.0, count) * (0.7 if kind == 2 else 0.5)
        points = [(x + float(r * np.cos(t)), y + float(r * np.sin(t))) for r, t in zip(radii, turns, strict=True)]
    for draw, fill in ((canvas, ink), (seen, 0)):
        if kind < 2:
            draw.line(points, fill=fill, width=max(1, round(short * 0.012)))
        else:
            draw.polygon(points, fill=fill)


def _mix(one: Colour, two: Colour, share: float) -> Colour:
    red, green, blue = (round(a + (b - a) * share) for a, b in zip(one, two, strict=True))
    return red, green, blue
