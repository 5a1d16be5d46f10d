"""A pen that draws in a thing's own coordinates, whatever its place, size, tilt and mirror in the picture."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from PIL import ImageDraw

Colour = tuple[int, int, int]
Point = tuple[float, float]

_CIRCLE = [(math.cos(math.tau * i / 24), math.sin(math.tau * i / 24)) for i in range(24)]


@dataclass(frozen=True)
class Inks:
    """The colours one thing is drawn with, and the line around its parts (`outline` None: no line)."""

    main: Colour
    accent: Colour
    dark: Colour
    light: Colour
    outline: Colour | None
    outline_width: float


class Pen:
    """A pen for one thing. Coordinates: x to the right and y down, the thing fills [-1, 1] x [-1, 1].

    Everything is drawn twice: in colour on the canvas, and as the number `ident` on the map of visible things.
    """

    def __init__(
        self,
        canvas: ImageDraw.ImageDraw,
        seen: ImageDraw.ImageDraw,
        ident: int,
        rng: np.random.Generator,
        inks: Inks,
        *,
        centre: Point,
        half: Point,
        tilt: float = 0.0,
        mirrored: bool = False,
    ) -> None:
        """Place the thing: `centre` and `half` (half width, half height) in canvas pixels, `tilt` in radians."""
        self.rng = rng
        self.main, self.accent, self.dark, self.light = inks.main, inks.accent, inks.dark, inks.light
        self._outline, self._outline_width = inks.outline, max(1, round(inks.outline_width))
        self._canvas, self._seen, self._ident = canvas, seen, ident
        flip = -1.0 if mirrored else 1.0
        cos, sin = math.cos(tilt), math.sin(tilt)
        self._xx, self._xy = cos * half[0] * flip, -sin * half[1]
        self._yx, self._yy = sin * half[0] * flip, cos * half[1]
        self._x, self._y = centre
        self._unit = math.sqrt(half[0] * half[1])

    def vary(self, low: float, high: float) -> float:
        """Return a random number in [low, high): a proportion that varies from one specimen to the next."""
        return low + (high - low) * float(self.rng.random())

    def chance(self, probability: float) -> bool:
        """Return True with this probability."""
        return bool(self.rng.random() < probability)

    def poly(self, points: Sequence[Point], colour: Colour) -> None:
        """Draw a filled polygon, with the thing's outline if it has one."""
        placed = self._place(points)
        self._canvas.polygon(placed, fill=colour)
        self._seen.polygon(placed, fill=self._ident)
        if self._outline is not None:
            self._canvas.line([*placed, placed[0], placed[1]], fill=self._outline, width=self._outline_width)

    def rect(self, left: float, top: float, right: float, bottom: float, colour: Colour) -> None:
        """Draw a filled rectangle."""
        self.poly([(left, top), (right, top), (right, bottom), (left, bottom)], colour)

    def oval(self, x: float, y: float, half_width: float, half_height: float, colour: Colour) -> None:
        """Draw a filled ellipse around (x, y)."""
        self.poly([(x + half_width * c, y + half_height * s) for c, s in _CIRCLE], colour)

    def wedge(self, x: float, y: float, rx: float, ry: float, start: float, end: float, colour: Colour) -> None:
        """Draw a filled part of an ellipse between two angles in degrees (0 is right, 90 is down), closed by its chord."""
        self.poly(arc(x, y, rx, ry, start, end), colour)

    def line(self, points: Sequence[Point], width: float, colour: Colour) -> None:
        """Draw a line through the points; the width is in the thing's units (2 is the whole thing)."""
        placed, pixels = self._place(points), max(1, round(width * self._unit))
        for draw, fill in ((self._canvas, colour), (self._seen, self._ident)):
            draw.line(placed, fill=fill, width=pixels, joint="curve" if pixels > 3 else None)

    def _place(self, points: Sequence[Point]) -> list[Point]:
        return [(self._x + self._xx * x + self._xy * y, self._y + self._yx * x + self._yy * y) for x, y in points]


def arc(x: float, y: float, rx: float, ry: float, start: float, end: float) -> list[Point]:
    """Return thirteen points along an ellipse between two angles in degrees (0 is right, 90 is down)."""
    angles = [math.radians(start + (end - start) * i / 12) for i in range(13)]
    return [(x + rx * math.cos(a), y + ry * math.sin(a)) for a in angles]


def ring(points: int, outer: float, inner: float) -> list[Point]:
    """Return the 2 * points corners of a star around (0, 0), the first one at the top."""
    step, start = math.pi / points, math.radians(-90)
    corners = [(inner if i % 2 else outer, start + i * step) for i in range(2 * points)]
    return [(radius * math.cos(angle), radius * math.sin(angle)) for radius, angle in corners]
