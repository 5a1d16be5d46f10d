"""The twenty classes of the demo: a drawing function each, its usual hues, and its tilt."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from aevlp.experiments.demo.pen import Pen, arc, ring


@dataclass(frozen=True)
class Thing:
    """A class. `hues`: usual hues in [0, 1) of its main colour; `tilt`: standard deviation of its tilt in degrees."""

    draw: Callable[[Pen], None]
    hues: tuple[float, ...]
    tilt: float


THINGS: dict[str, Thing] = {}


def thing(
    *hues: float, tilt: float = 8.0, book: dict[str, Thing] = THINGS
) -> Callable[[Callable[[Pen], None]], Callable[[Pen], None]]:
    """Return a decorator that enters a drawing function into `book`, under its own name."""

    def enter(draw: Callable[[Pen], None]) -> Callable[[Pen], None]:
        book[draw.__name__] = Thing(draw, hues, tilt)
        return draw

    return enter


@thing(0.6, 0.7, tilt=25.0)
def anchor(pen: Pen) -> None:
    """A ring, a shank, a stock, and two flukes."""
    thick = pen.vary(0.14, 0.22)
    depth = pen.vary(0.55, 0.75)
    pen.line(arc(0, -0.75, 0.2, 0.2, 0, 360), thick * 0.8, pen.main)
    pen.line([(0, -0.55), (0, 0.9)], thick, pen.main)
    pen.line([(-0.45, -0.35), (0.45, -0.35)], thick, pen.main)
    pen.line(arc(0, 0.9 - depth, 0.8, depth, 0, 180), thick, pen.main)
    for side in (-1, 1):
        pen.poly([(side * 0.98, 0.45), (side * 0.55, 0.4), (side * 0.85, 0.0)], pen.main)


@thing(0.0, 0.02, 0.27, 0.14, tilt=15.0)
def apple(pen: Pen) -> None:
    """Two lobes, a stalk, a leaf; now and then a bite."""
    wide = pen.vary(0.75, 0.95)
    body = [
        (0, -0.42), (0.35, -0.6), (0.75, -0.45), (0.95, 0.0), (0.82, 0.5), (0.45, 0.93), (0.15, 0.9), (0, 0.82),
        (-0.15, 0.9), (-0.45, 0.93), (-0.82, 0.5), (-0.95, 0.0), (-0.75, -0.45), (-0.35, -0.6),
    ]  # fmt: skip
    pen.poly([(x * wide, y) for x, y in body], pen.main)
    pen.line([(0, -0.4), (pen.vary(0.0, 0.15), -0.95)], 0.12, pen.dark)
    if pen.chance(0.7):
        pen.poly([(0.05, -0.65), (0.3, -0.95), (0.65, -0.9), (0.4, -0.65)], pen.accent)
    if pen.chance(0.5):
        pen.oval(-0.45, -0.1, 0.12, 0.22, pen.light)


@thing(0.0, 0.6, 0.15, 0.85, tilt=12.0)
def balloon(pen: Pen) -> None:
    """An egg, a knot, and a string that wavers."""
    wide, sway = pen.vary(0.5, 0.62), pen.vary(-0.25, 0.25)
    pen.line([(0, 0.35), (sway, 0.6), (-sway * 0.6, 0.8), (sway * 0.5, 1.0)], 0.06, pen.dark)
    pen.poly([(-0.12, 0.46), (0, 0.3), (0.12, 0.46)], pen.main)
    upper = arc(0, -0.4, wide, 0.6, 180, 360)
    pen.poly([*upper, (wide * 0.8, 0.02), (0.12, 0.34), (-0.12, 0.34), (-wide * 0.8, 0.02)], pen.main)
    if pen.chance(0.7):
        pen.oval(-wide * 0.45, -0.6, 0.1, 0.2, pen.light)


@thing(0.05, 0.6, 0.0, 0.1, tilt=8.0)
def boat(pen: Pen) -> None:
    """A hull and a mast with one sail or two."""
    deck, mast = pen.vary(0.35, 0.45), pen.vary(-0.2, 0.1)
    pen.line([(mast, deck), (mast, -1)], 0.09, pen.dark)
    pen.poly([(mast + 0.07, -0.92), (mast + 0.07, deck - 0.12), (0.85, deck - 0.12)], pen.accent)
    if pen.chance(0.7):
        pen.poly([(mast - 0.07, -0.75), (mast - 0.07, deck - 0.12), (-0.75, deck - 0.12)], pen.light)
    pen.poly([(-1, deck), (1, deck), (pen.vary(0.5, 0.75), 0.95), (-0.6, 0.95)], pen.main)
    if pen.chance(0.4):
        pen.line([(-0.85, deck + 0.18), (0.85, deck + 0.18)], 0.08, pen.accent)


@thing(0.0, 0.6, 0.12, 0.33, tilt=6.0)
def car(pen: Pen) -> None:
    """A long body, a cabin with windows, two wheels."""
    roof, back, front = pen.vary(-0.55, -0.4), pen.vary(-0.65, -0.45), pen.vary(0.2, 0.4)
    pen.poly([(back, -0.05), (back + 0.2, roof), (front, roof), (front + 0.3, -0.05)], pen.main)
    glass = pen.accent if pen.chance(0.3) else pen.light
    middle = (back + front) / 2 + 0.1
    pen.poly([(back + 0.12, -0.05), (back + 0.26, roof + 0.1), (middle, roof + 0.1), (middle, -0.05)], glass)
    pen.poly([(middle + 0.1, -0.05), (middle + 0.1, roof + 0.1), (front - 0.03, roof + 0.1), (front + 0.18, -0.05)], glass)
    pen.poly([(-1, 0.05), (-0.92, -0.08), (0.75, -0.08), (1, 0.1), (1, 0.4), (-1, 0.4)], pen.main)
    wheel = pen.vary(0.2, 0.27)
    for x in (-0.55, 0.55):
        pen.oval(x, 0.42, wheel, wheel, pen.dark)
        pen.oval(x, 0.42, wheel * 0.45, wheel * 0.45, pen.light)


@thing(0.08, 0.1, 0.0, 0.6, tilt=10.0)
def cat(pen: Pen) -> None:
    """A head with pointed ears, eyes and whiskers; sometimes only the head, sometimes the sitting animal."""
    whole = pen.chance(0.55)
    if whole:
        pen.line([(0.4, 0.8), (0.85, 0.7), (0.9, 0.2), (0.7, 0.0)], 0.16, pen.main)
        pen.poly([(-0.3, 0.0), (0.3, 0.0), (0.55, 0.95), (-0.55, 0.95)], pen.main)
    y, size = (-0.4, 0.5) if whole else (0.1, 0.85)
    for side in (-1, 1):
        pen.poly([(side * size * 0.95, y - size * 1.2), (side * size * 0.9, y), (side * size * 0.15, y - size * 0.7)], pen.main)
    pen.oval(0, y, size, size * 0.85, pen.main)
    for side in (-1, 1):
        pen.oval(side * size * 0.4, y - size * 0.15, size * 0.17, size * 0.2, pen.light)
        pen.oval(side * size * 0.4, y - size * 0.15, size * 0.08, size * 0.17, pen.dark)
        for slope in (0.0, 0.15):
            pen.line([(side * size * 0.3, y + size * 0.35), (side * size * 1.15, y + size * (0.25 + slope * 2))], 0.04, pen.dark)
    pen.poly([(-0.12 * size, y + 0.2 * size), (0.12 * size, y + 0.2 * size), (0, y + 0.36 * size)], pen.accent)


@thing(0.07, 0.09, 0.0, 0.55, tilt=8.0)
def chair(pen: Pen) -> None:
    """Seen a little from the side: a back with slats, a seat, four legs."""
    seat, leg = pen.vary(0.05, 0.2), pen.vary(0.12, 0.18)
    for x, foot in ((-0.5, 0.8), (0.75, 0.8)):
        pen.line([(x + 0.1, seat), (x + 0.1, foot)], leg * 0.8, pen.dark)
    pen.line([(-0.6, -0.95), (-0.6, seat)], leg, pen.main)
    pen.line([(0.1, -0.85), (0.1, seat - 0.1)], leg, pen.main)
    if pen.chance(0.5):
        for y in (-0.8, -0.5, -0.2):
            pen.line([(-0.6, y), (0.1, y + 0.05)], leg * 0.9, pen.main)
    else:
        pen.poly([(-0.6, -0.95), (0.1, -0.85), (0.1, -0.3), (-0.6, -0.35)], pen.accent)
    pen.poly([(-0.75, seat + 0.12), (-0.45, seat - 0.12), (0.95, seat - 0.12), (0.7, seat + 0.12)], pen.main)
    for x in (-0.68, 0.62):
        pen.line([(x, seat + 0.1), (x, 1.0)], leg, pen.main)


@thing(0.1, 0.6, 0.0, 0.4, tilt=6.0)
def clock(pen: Pen) -> None:
    """A round or square case with a face, marks and two hands."""
    if pen.chance(0.7):
        pen.oval(0, 0, 0.95, 0.95, pen.main)
    else:
        pen.rect(-0.92, -0.92, 0.92, 0.92, pen.main)
    face = pen.vary(0.7, 0.8)
    pen.oval(0, 0, face, face, pen.light)
    for i in range(12):
        c, s = math.cos(i * math.pi / 6), math.sin(i * math.pi / 6)
        pen.line([(face * 0.8 * c, face * 0.8 * s), (face * 0.95 * c, face * 0.95 * s)], 0.07, pen.dark)
    for length, width in ((0.35, 0.12), (0.55, 0.08)):
        turn = pen.vary(0, math.tau)
        pen.line([(0, 0), (length * math.cos(turn), length * math.sin(turn))], width, pen.dark)


@thing(0.58, 0.6, 0.62, tilt=4.0)
def cloud(pen: Pen) -> None:
    """Puffs on a flat bottom: pale, whatever the hue."""
    puffs = [(-0.6, 0.2, 0.38), (-0.2, -0.1, 0.5), (0.3, 0.0, 0.45), (0.65, 0.25, 0.33)]
    colour = pen.light if pen.chance(0.75) else pen.main
    for x, y, r in puffs:
        r *= pen.vary(0.85, 1.15)
        pen.oval(x, y, r, r * 0.9, colour)
    pen.poly([(-0.8, 0.2), (0.85, 0.2), (0.7, 0.57), (-0.65, 0.57)], colour)
    if pen.chance(0.3):  # hide the outline between the puffs
        for x, y, r in puffs:
            pen.oval(x, y, r * 0.6, r * 0.5, colour)


@thing(0.0, 0.6, 0.45, 0.1, tilt=10.0)
def cup(pen: Pen) -> None:
    """A mug with a handle and what is in it; sometimes steam."""
    top, narrow = pen.vary(-0.5, -0.3), pen.vary(0.42, 0.62)
    pen.line(arc(0.6, 0.2, 0.35, 0.35, -100, 100), 0.15, pen.main)
    pen.poly([(-0.7, top), (0.62, top), (narrow, 0.9), (-narrow - 0.08, 0.9)], pen.main)
    pen.oval(-0.04, top, 0.66, 0.16, pen.light)
    pen.oval(-0.04, top + 0.02, 0.54, 0.1, pen.dark)
    if pen.chance(0.4):
        for x in (-0.3, 0.2):
            pen.line([(x, top - 0.15), (x + 0.1, top - 0.3), (x - 0.05, top - 0.45), (x + 0.05, top - 0.6)], 0.06, pen.light)
    elif pen.chance(0.5):
        pen.line([(-0.6, 0.25), (0.52, 0.25)], 0.16, pen.accent)


@thing(0.05, 0.5, 0.6, 0.12, tilt=20.0)
def fish(pen: Pen) -> None:
    """A long oval, a tail, fins and an eye."""
    tall = pen.vary(0.35, 0.6)
    pen.poly([(0.4, 0), (0.98, -tall * 1.05), (0.85, 0), (0.98, tall * 1.05)], pen.accent if pen.chance(0.5) else pen.main)
    pen.poly([(-0.25, -tall * 0.8), (0.3, -tall * 1.35), (0.35, -tall * 0.5)], pen.accent)
    pen.oval(-0.2, 0, 0.78, tall, pen.main)
    if pen.chance(0.5):
        for x in (-0.1, 0.2):
            pen.line([(x, -tall * 0.8), (x + 0.08, 0), (x, tall * 0.8)], 0.09, pen.accent)
    pen.poly([(-0.2, 0.08), (0.15, 0.3), (-0.1, 0.35)], pen.accent)
    pen.oval(-0.65, -0.1, 0.12, 0.12, pen.light)
    pen.oval(-0.66, -0.1, 0.06, 0.06, pen.dark)


@thing(0.92, 0.0, 0.15, 0.75, tilt=10.0)
def flower(pen: Pen) -> None:
    """Petals around a heart, on a green stem with leaves."""
    green = (40, 140, 50) if pen.chance(0.8) else pen.dark
    pen.line([(0, -0.2), (pen.vary(-0.12, 0.12), 1.0)], 0.11, green)
    for side in (-1, 1):
        if pen.chance(0.75):
            pen.poly([(0, 0.75), (side * 0.3, 0.4), (side * 0.65, 0.35), (side * 0.4, 0.65)], green)
    petals, long = int(pen.rng.integers(5, 9)), pen.vary(0.3, 0.38)
    for i in range(petals):
        turn = math.tau * i / petals
        pen.oval(long * math.cos(turn), -0.4 + long * math.sin(turn), 0.22, 0.22, pen.main)
    pen.oval(0, -0.4, 0.2, 0.2, pen.accent)


@thing(0.05, 0.1, 0.0, 0.6, tilt=3.0)
def house(pen: Pen) -> None:
    """Walls, a pitched roof, a door, windows, often a chimney."""
    eaves, wide = pen.vary(-0.25, 0.0), pen.vary(0.7, 0.85)
    if pen.chance(0.6):
        pen.rect(0.4, -0.85, 0.6, eaves - 0.1, pen.dark)
    pen.rect(-wide, eaves, wide, 0.95, pen.main)
    pen.poly([(-1, eaves), (pen.vary(-0.15, 0.15), -1), (1, eaves)], pen.accent)
    door = pen.vary(-0.45, 0.2)
    pen.rect(door, 0.35, door + 0.32, 0.95, pen.dark)
    for x in (-0.55, 0.35):
        if abs(x - door) > 0.25 or pen.chance(0.3):
            pen.rect(x, eaves + 0.15, x + 0.28, eaves + 0.45, pen.light)


@thing(0.0, 0.15, 0.5, 0.8, tilt=30.0)
def kite(pen: Pen) -> None:
    """A quartered rhombus with a tail of bows."""
    cross, wide = pen.vary(-0.5, -0.35), pen.vary(0.55, 0.7)
    tail = [(0, 0.35), (0.2, 0.55), (-0.1, 0.75), (0.15, 0.98)]
    pen.line(tail, 0.06, pen.dark)
    for x, y in tail[1:]:
        pen.poly([(x - 0.13, y - 0.08), (x + 0.13, y + 0.08), (x + 0.13, y - 0.08), (x - 0.13, y + 0.08)], pen.accent)
    pen.poly([(0, -1), (wide, cross), (0, 0.4), (-wide, cross)], pen.main)
    pen.poly([(0, -1), (wide, cross), (0, cross)], pen.accent)
    pen.poly([(0, 0.4), (-wide, cross), (0, cross)], pen.accent if pen.chance(0.6) else pen.light)
    pen.line([(0, -1), (0, 0.4)], 0.05, pen.dark)
    pen.line([(-wide, cross), (wide, cross)], 0.05, pen.dark)


@thing(0.08, 0.1, 0.6, tilt=16.0)
def ladder(pen: Pen) -> None:
    """Two rails and five to seven rungs."""
    top, foot, thick = pen.vary(0.25, 0.38), pen.vary(0.38, 0.55), pen.vary(0.1, 0.16)
    rungs = int(pen.rng.integers(5, 8))
    for i in range(rungs):
        y = -0.85 + 1.7 * i / (rungs - 1)
        half = top + (foot - top) * (y + 1) / 2
        pen.line([(-half, y), (half, y)], thick * 0.9, pen.accent if i % 2 and pen.chance(0.3) else pen.main)
    for side in (-1, 1):
        pen.line([(side * top, -1), (side * foot, 1)], thick, pen.main)


@thing(0.14, 0.0, 0.45, 0.1, tilt=6.0)
def lamp(pen: Pen) -> None:
    """A shade on a thin stand with a foot."""
    narrow, low = pen.vary(0.25, 0.4), pen.vary(-0.2, 0.0)
    pen.line([(0, low), (0, 0.9)], 0.12, pen.dark)
    if pen.chance(0.4):
        pen.oval(0, 0.4, 0.22, 0.28, pen.accent)
    pen.wedge(0, 0.98, 0.5, 0.25, 180, 360, pen.dark)
    pen.poly([(-narrow, -0.95), (narrow, -0.95), (0.75, low), (-0.75, low)], pen.main)
    if pen.chance(0.5):
        pen.poly([(-0.7, low - 0.1), (0.7, low - 0.1), (0.75, low), (-0.75, low)], pen.light)


@thing(0.0, 0.05, 0.08, 0.78, tilt=10.0)
def mushroom(pen: Pen) -> None:
    """A domed cap with spots on a pale stem."""
    rim, stem = pen.vary(0.0, 0.15), pen.vary(0.22, 0.34)
    pen.poly([(-stem, rim - 0.1), (stem, rim - 0.1), (stem * 1.25, 0.9), (0, 0.98), (-stem * 1.25, 0.9)], pen.light)
    pen.wedge(0, rim, 0.95, pen.vary(0.8, 1.0), 180, 360, pen.main)
    for x, y, r in ((-0.5, -0.25, 0.14), (0.05, -0.55, 0.17), (0.5, -0.2, 0.13), (-0.05, -0.12, 0.1)):
        if pen.chance(0.85):
            pen.oval(x, rim + y, r, r * 0.85, pen.light)


@thing(0.13, 0.15, 0.0, 0.6, tilt=36.0)
def star(pen: Pen) -> None:
    """Five points, fat or slender."""
    inner = pen.vary(0.36, 0.5)
    pen.poly(ring(5, 1.0, inner), pen.main)
    if pen.chance(0.35):
        pen.poly(ring(5, 0.6, 0.6 * inner), pen.accent)


@thing(0.33, 0.28, 0.36, 0.08, tilt=4.0)
def tree(pen: Pen) -> None:
    """A trunk with a round crown, or a fir's three tiers."""
    brown = (110, 70, 35) if pen.chance(0.8) else pen.dark
    pen.rect(-0.14, 0.1, 0.14, 1.0, brown)
    if pen.chance(0.5):
        for x, y, r in ((-0.42, -0.05, 0.42), (0.42, -0.05, 0.42), (0, -0.5, 0.5), (0, 0.0, 0.45)):
            pen.oval(x, y, r * pen.vary(0.9, 1.1), r, pen.main)
    else:
        wide = pen.vary(0.6, 0.85)
        for top, foot, part in ((-0.2, 0.6, 1.0), (-0.6, 0.15, 0.78), (-1.0, -0.3, 0.55)):
            pen.poly([(0, top), (wide * part, foot), (-wide * part, foot)], pen.main)


@thing(0.0, 0.6, 0.3, 0.8, tilt=20.0)
def umbrella(pen: Pen) -> None:
    """A canopy in panels with a scalloped rim, and a hooked stick."""
    rim = pen.vary(0.0, 0.12)
    pen.line([(0, -0.9), (0, 0.75), *arc(0.16, 0.75, 0.16, 0.2, 180, 20)], 0.1, pen.dark)
    pen.wedge(0, rim, 1.0, 0.9, 180, 360, pen.main)
    if pen.chance(0.7):
        pen.poly([(0, rim - 0.9), *arc(0, rim, 0.35, 0.75, 240, 360), (0.35, rim), (-0.35, rim)], pen.accent)
    for x in (-0.67, 0.0, 0.67):
        pen.wedge(x, rim + 0.02, 0.33, 0.16, 0, 180, pen.main if x else pen.accent)
