"""Things outside the demo's twenty classes: for pre-training the backbone, and more words for the small CLIP."""

import math

from aevlp.experiments.demo.pen import Pen, arc, ring
from aevlp.experiments.demo.things import THINGS, Thing, thing

OTHERS: dict[str, Thing] = {}


@thing(0.0, 0.6, tilt=180.0, book=OTHERS)
def arrow(pen: Pen) -> None:
    """A shaft and a head."""
    thick, neck = pen.vary(0.15, 0.3), pen.vary(0.0, 0.3)
    pen.poly([(-1, -thick), (neck, -thick), (neck, -0.6), (1, 0), (neck, 0.6), (neck, thick), (-1, thick)], pen.main)


@thing(0.13, 0.1, tilt=15.0, book=OTHERS)
def bell(pen: Pen) -> None:
    """A flaring body with a clapper."""
    pen.oval(0, 0.75, 0.2, 0.2, pen.dark)
    pen.poly([*arc(0, -0.3, 0.5, 0.6, 180, 360), (0.55, 0.3), (0.9, 0.7), (-0.9, 0.7), (-0.55, 0.3)], pen.main)
    pen.line([(-0.6, 0.42), (0.6, 0.42)], 0.1, pen.accent)


@thing(0.0, 0.6, 0.35, tilt=20.0, book=OTHERS)
def book(pen: Pen) -> None:
    """Open, two pages of lines over a cover."""
    drop = pen.vary(0.1, 0.25)
    pen.poly([(-1, -0.5), (0, -0.5 + drop), (1, -0.5), (1, 0.65), (0, 0.65 + drop), (-1, 0.65)], pen.main)
    for side in (-1, 1):
        pen.poly([(0, -0.55 + drop), (side * 0.9, -0.65), (side * 0.9, 0.5), (0, 0.55 + drop)], pen.light)
        for y in (-0.35, -0.1, 0.15):
            pen.line([(side * 0.15, y + drop * 0.7), (side * 0.75, y)], 0.06, pen.dark)


@thing(0.35, 0.1, 0.6, tilt=20.0, book=OTHERS)
def bottle(pen: Pen) -> None:
    """A neck, shoulders, a label."""
    wide = pen.vary(0.3, 0.42)
    pen.poly(
        [(-0.12, -0.9), (0.12, -0.9), (0.12, -0.45), (wide, -0.1), (wide, 1), (-wide, 1), (-wide, -0.1), (-0.12, -0.45)],
        pen.main,
    )
    pen.rect(-0.15, -1, 0.15, -0.82, pen.dark)
    pen.rect(-wide, 0.15, wide, 0.65, pen.light)


@thing(0.6, 0.08, 0.8, tilt=30.0, book=OTHERS)
def butterfly(pen: Pen) -> None:
    """Four wings, a body, feelers."""
    high, low = pen.vary(0.4, 0.5), pen.vary(0.3, 0.4)
    for side in (-1, 1):
        pen.oval(side * 0.5, -0.35, 0.47, high, pen.main)
        pen.oval(side * 0.4, 0.45, 0.35, low, pen.accent)
        pen.oval(side * 0.55, -0.35, 0.18, 0.18, pen.light)
        pen.line([(0, -0.5), (side * 0.25, -0.98)], 0.05, pen.dark)
    pen.oval(0, 0.05, 0.1, 0.65, pen.dark)


@thing(0.35, 0.3, tilt=5.0, book=OTHERS)
def cactus(pen: Pen) -> None:
    """A column with two raised arms, in a pot."""
    left, right = pen.vary(-0.3, 0.1), pen.vary(-0.3, 0.1)
    pen.line([(-0.1, 0.25), (-0.65, 0.25), (-0.65, left)], 0.26, pen.main)
    pen.line([(0.1, 0.05), (0.6, 0.05), (0.6, right - 0.3)], 0.26, pen.main)
    pen.poly([*arc(0, -0.7, 0.24, 0.3, 180, 360), (0.24, 0.7), (-0.24, 0.7)], pen.main)
    pen.poly([(-0.5, 0.6), (0.5, 0.6), (0.38, 1), (-0.38, 1)], pen.accent)


@thing(0.0, 0.12, 0.6, tilt=5.0, book=OTHERS)
def candle(pen: Pen) -> None:
    """A stick of wax with a flame, on a dish."""
    wide = pen.vary(0.2, 0.3)
    pen.oval(0, 0.88, 0.65, 0.14, pen.dark)
    pen.rect(-wide, -0.25, wide, 0.85, pen.main)
    pen.line([(0, -0.25), (0, -0.45)], 0.06, pen.dark)
    pen.poly([(0, -1), (0.18, -0.6), (0.1, -0.4), (-0.1, -0.4), (-0.18, -0.6)], (250, 170, 40))


@thing(0.07, 0.05, tilt=60.0, book=OTHERS)
def carrot(pen: Pen) -> None:
    """A long cone with green leaves."""
    for x in (-0.3, 0.0, 0.3):
        pen.line([(0, -0.45), (x, -1)], 0.14, (50, 150, 60))
    wide = pen.vary(0.28, 0.4)
    pen.poly([(-wide, -0.5), (wide, -0.5), (0.05, 1), (-0.05, 1)], pen.main)
    for y in (-0.2, 0.1, 0.4):
        pen.line([(-0.15, y), (0.05, y + 0.03)], 0.05, pen.dark)


@thing(0.13, 0.0, tilt=10.0, book=OTHERS)
def crown(pen: Pen) -> None:
    """Spikes with balls on a band."""
    pen.poly([(-0.9, 0.6), (-0.95, -0.4), (-0.45, 0.1), (0, -0.6), (0.45, 0.1), (0.95, -0.4), (0.9, 0.6)], pen.main)
    for x, y in ((-0.95, -0.45), (0, -0.68), (0.95, -0.45)):
        pen.oval(x * 0.95, y, 0.12, 0.12, pen.accent)
    pen.rect(-0.9, 0.4, 0.9, 0.7, pen.accent)


@thing(0.5, 0.55, 0.85, tilt=10.0, book=OTHERS)
def diamond(pen: Pen) -> None:
    """A cut gem with facets."""
    table = pen.vary(0.45, 0.6)
    pen.poly([(-table, -0.7), (table, -0.7), (1, -0.2), (0, 0.95), (-1, -0.2)], pen.main)
    pen.poly([(-0.4, -0.2), (0.4, -0.2), (0, 0.95)], pen.light)
    pen.line([(-1, -0.2), (1, -0.2)], 0.06, pen.dark)


@thing(0.1, 0.6, tilt=12.0, book=OTHERS)
def envelope(pen: Pen) -> None:
    """A rectangle with a flap."""
    tall, flap = pen.vary(0.55, 0.7), pen.vary(0.0, 0.2)
    pen.rect(-1, -tall, 1, tall, pen.light)
    pen.poly([(-1, -tall), (1, -tall), (0, flap)], pen.main)


@thing(0.0, 0.6, 0.3, tilt=8.0, book=OTHERS)
def flag(pen: Pen) -> None:
    """A pole with a striped cloth."""
    pen.line([(-0.75, -1), (-0.75, 1)], 0.13, pen.dark)
    wave = pen.vary(-0.15, 0.15)
    for i, colour in enumerate((pen.main, pen.light, pen.accent)):
        y = -0.9 + 0.35 * i
        pen.poly([(-0.7, y), (0.1, y + wave), (0.95, y), (0.95, y + 0.35), (0.1, y + wave + 0.35), (-0.7, y + 0.35)], colour)


@thing(0.08, 0.6, tilt=45.0, book=OTHERS)
def hammer(pen: Pen) -> None:
    """A handle and a head with a claw."""
    pen.line([(0, -0.5), (0, 1)], 0.2, pen.main)
    pen.poly([(-0.7, -0.85), (0.4, -0.85), (0.95, -0.5), (0.4, -0.45), (-0.7, -0.4)], pen.dark)


@thing(0.0, 0.95, tilt=15.0, book=OTHERS)
def heart(pen: Pen) -> None:
    """Two lobes and a point."""
    wide = pen.vary(0.85, 1.0)
    pen.poly(
        [*arc(-0.48 * wide, -0.35, 0.48 * wide, 0.5, 160, 350), *arc(0.48 * wide, -0.35, 0.48 * wide, 0.5, 190, 380), (0, 0.95)],
        pen.main,
    )


@thing(0.13, 0.08, 0.6, tilt=90.0, book=OTHERS)
def key(pen: Pen) -> None:
    """A ring, a shaft, teeth."""
    pen.line(arc(-0.6, 0, 0.3, 0.33, 0, 360), 0.18, pen.main)
    pen.line([(-0.3, 0), (0.95, 0)], 0.16, pen.main)
    for x in (0.55, 0.75, 0.9):
        pen.line([(x, 0), (x, pen.vary(0.25, 0.4))], 0.13, pen.main)


@thing(0.15, 0.6, tilt=25.0, book=OTHERS)
def moon(pen: Pen) -> None:
    """A crescent."""
    depth = pen.vary(0.35, 0.65)
    pen.poly([*arc(0.3, 0, 0.95, 0.95, 80, 280), *arc(0.45, 0, 0.95 * depth, 0.9, 275, 85)], pen.main)


@thing(0.14, 0.0, 0.35, tilt=180.0, book=OTHERS)
def pencil(pen: Pen) -> None:
    """A long body with a tip and a rubber."""
    thick = pen.vary(0.14, 0.22)
    pen.rect(-0.75, -thick, 0.55, thick, pen.main)
    pen.rect(-1, -thick, -0.75, thick, pen.accent)
    pen.poly([(0.55, -thick), (1, 0), (0.55, thick)], pen.light)
    pen.poly([(0.85, -thick * 0.35), (1, 0), (0.85, thick * 0.35)], pen.dark)


@thing(0.0, 0.6, tilt=40.0, book=OTHERS)
def rocket(pen: Pen) -> None:
    """A pointed body, fins, a porthole and fire."""
    wide = pen.vary(0.28, 0.38)
    pen.poly([(-0.2, 0.6), (0.2, 0.6), (0, 1)], (250, 150, 30))
    for side in (-1, 1):
        pen.poly([(side * wide, 0.1), (side * 0.75, 0.7), (side * wide, 0.6)], pen.accent)
    pen.poly([(0, -1), (wide, -0.4), (wide, 0.6), (-wide, 0.6), (-wide, -0.4)], pen.main)
    pen.oval(0, -0.15, 0.17, 0.17, pen.light)


@thing(0.08, 0.3, tilt=8.0, book=OTHERS)
def snail(pen: Pen) -> None:
    """A spiral shell on a slug."""
    pen.line([(-0.95, 0.7), (0.6, 0.7), (0.8, 0.1)], 0.3, pen.accent)
    pen.line([(0.8, 0.1), (0.95, -0.3)], 0.06, pen.dark)
    pen.oval(-0.15, 0.05, 0.65, 0.62, pen.main)
    pen.line([(-0.15 + 0.052 * i * math.cos(i * 0.7), 0.05 + 0.05 * i * math.sin(i * 0.7)) for i in range(11)], 0.08, pen.dark)


@thing(0.6, 0.55, tilt=6.0, book=OTHERS)
def snowman(pen: Pen) -> None:
    """Three balls, a hat, a carrot for a nose."""
    for y, r in ((0.55, 0.45), (-0.1, 0.34), (-0.55, 0.25)):
        pen.oval(0, y, r * pen.vary(0.95, 1.1), r, pen.light)
    pen.rect(-0.35, -0.82, 0.35, -0.72, pen.dark)
    pen.rect(-0.2, -1, 0.2, -0.75, pen.dark)
    pen.poly([(0, -0.58), (0.4, -0.5), (0, -0.48)], pen.main)
    for y in (-0.15, 0.1, 0.4):
        pen.oval(0, y, 0.06, 0.06, pen.dark)


@thing(0.0, 0.75, tilt=60.0, book=OTHERS)
def spider(pen: Pen) -> None:
    """Eight bent legs around two balls."""
    for side in (-1, 1):
        for y, end in ((-0.3, -0.9), (-0.1, -0.35), (0.1, 0.3), (0.25, 0.9)):
            pen.line([(0, y), (side * 0.55, (y + end) / 2 - 0.15), (side * 0.95, end)], 0.08, pen.dark)
    pen.oval(0, 0.25, 0.36, 0.42, pen.main)
    pen.oval(0, -0.3, 0.22, 0.22, pen.main)


@thing(0.12, 0.03, tilt=15.0, book=OTHERS)
def sun(pen: Pen) -> None:
    """A disc with many rays."""
    pen.poly(ring(int(pen.rng.integers(10, 15)), 1.0, 0.65), pen.main)
    pen.oval(0, 0, 0.55, 0.55, pen.accent)


@thing(0.6, 0.0, tilt=90.0, book=OTHERS)
def sword(pen: Pen) -> None:
    """A blade, a guard and a grip."""
    wide = pen.vary(0.1, 0.17)
    pen.line([(0, 0.4), (0, 1)], 0.15, pen.dark)
    pen.poly([(-wide, 0.4), (-wide, -0.75), (0, -1), (wide, -0.75), (wide, 0.4)], pen.light)
    pen.line([(-0.42, 0.4), (0.42, 0.4)], 0.16, pen.main)


@thing(0.08, 0.35, 0.6, tilt=3.0, book=OTHERS)
def tent(pen: Pen) -> None:
    """A triangle with an open flap and crossed poles."""
    pen.line([(-0.12, -1), (1, 0.9)], 0.08, pen.dark)
    pen.line([(0.12, -1), (-1, 0.9)], 0.08, pen.dark)
    pen.poly([(0, -0.8), (1, 0.9), (-1, 0.9)], pen.main)
    wide = pen.vary(0.25, 0.45)
    pen.poly([(0, -0.3), (wide, 0.9), (-wide, 0.9)], pen.dark)


@thing(0.3, 0.25, tilt=15.0, book=OTHERS)
def turtle(pen: Pen) -> None:
    """A dome with plates, legs and a head."""
    for x in (-0.55, 0.35):
        pen.rect(x, 0.3, x + 0.22, 0.8, pen.accent)
    pen.oval(0.82, 0.1, 0.2, 0.18, pen.accent)
    pen.wedge(0, 0.45, 0.8, pen.vary(0.8, 1.0), 180, 360, pen.main)
    for x in (-0.35, 0.05, 0.4):
        pen.poly([(x - 0.15, 0.05), (x, -0.15), (x + 0.15, 0.05), (x, 0.28)], pen.dark)


ALL_THINGS = THINGS | OTHERS
