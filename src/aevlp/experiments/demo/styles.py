"""The look of a scene (palette, backgrounds, lines, sizes, noise) and its cast (frequencies, company)."""

import colorsys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from aevlp.experiments.demo.pen import Colour, Inks

Limits = tuple[float, float]


@dataclass(frozen=True)
class Style:
    """The look of a family of scenes, by default that of the demo. Pairs are ranges; probabilities and shares are in [0, 1]."""

    backgrounds: Mapping[str, float] = field(
        default_factory=lambda: {"flat": 2, "gradient": 3, "stripes": 1, "grain": 1, "horizon": 4, "room": 2}
    )  # weight of each kind of background (see `backgrounds.KINDS`)
    longest: Limits = (140, 176)  # longest side in pixels
    aspect: Limits = (0.66, 1.5)  # width over height
    size: Limits = (0.13, 0.48)  # half a thing's size as a share of the short side, drawn log-uniformly: 0.5 fills the frame
    natural: float = 0.75  # probability that a thing has one of its usual hues rather than any hue
    saturation: Limits = (0.45, 1.0)  # of the things' colours
    value: Limits = (0.45, 1.0)  # of the things' colours (1 is bright)
    outlined: float = 0.5  # probability of a line around the parts of a thing
    outline_width: Limits = (0.8, 2.0)  # in pixels of the finished picture
    outline_value: Limits = (0.0, 0.25)  # 0 is black, 1 is white
    clutter: int = 6  # most unlabelled marks per scene
    again: float = 0.22  # probability of one more instance of a class, and of one more after that
    margin: float = 0.6  # least distance of a thing's centre from the edge, as a share of its own size (negative: beyond)
    spread: int = 3  # placements tried for each thing; the one with the most room is taken. 1 is blind, so that things overlap
    blur: Limits = (0.2, 0.8)  # radius in pixels; half of the scenes have none
    noise: Limits = (0.0, 7.0)  # standard deviation of the grain, of 255
    grey: float = 0.03  # probability of a picture without colour


DEMO = Style()


@dataclass(frozen=True)
class Cast:
    """The classes of a scene: frequencies, numbers at once, and preferred company."""

    weights: Mapping[str, float]  # of each class when the first one is chosen
    counts: Sequence[float]  # weight of 0, 1, 2, ... different classes in a scene
    groups: Sequence[Sequence[str]] = ()  # classes that appear together more often
    company: float = 1.0  # a class is this many times likelier once another of its group is in

    def choose(self, rng: np.random.Generator) -> list[str]:
        """Return different classes for one scene, in the order of choice."""
        names = list(self.weights)
        weights = np.array([self.weights[name] for name in names], dtype=float)
        odds = np.array(self.counts, dtype=float)
        chosen: list[str] = []
        for _ in range(int(rng.choice(len(odds), p=odds / odds.sum()))):
            at = int(rng.choice(len(names), p=weights / weights.sum()))
            friends = {other for group in self.groups if names[at] in group for other in group} - set(chosen)
            chosen.append(names[at])
            for other in friends:
                weights[names.index(other)] *= self.company
            weights[at] = 0.0
        return chosen


GROUPS = (
    ("cloud", "kite", "star", "balloon"),
    ("tree", "flower", "apple", "mushroom"),
    ("car", "house", "cat", "ladder"),
    ("boat", "fish", "umbrella", "anchor"),
    ("chair", "cup", "lamp", "clock"),
)

# From common to rare: every group has something common and something rare.
_BY_FREQUENCY = [group[rank] for rank in range(4) for group in GROUPS]

DEMO_CAST = Cast(
    weights={name: (place + 2.0) ** -0.8 for place, name in enumerate(_BY_FREQUENCY)},
    counts=(0, 0.25, 0.32, 0.24, 0.13, 0.06),
    groups=GROUPS,
    company=4.0,
)


def between(rng: np.random.Generator, limits: Limits) -> float:
    """Return a random number in [low, high)."""
    return limits[0] + (limits[1] - limits[0]) * float(rng.random())


def colour(hue: float, saturation: float, value: float) -> Colour:
    """Return the RGB of a hue (taken modulo 1), a saturation and a value (clipped to [0, 1])."""
    red, green, blue = colorsys.hsv_to_rgb(hue % 1.0, min(max(saturation, 0.0), 1.0), min(max(value, 0.0), 1.0))
    return round(red * 255), round(green * 255), round(blue * 255)


def inks(rng: np.random.Generator, style: Style, hues: Sequence[float], behind: Colour) -> Inks:
    """Return colours for one thing; the main one differs from the background's."""
    for _ in range(4):
        usual = rng.random() < style.natural
        hue = hues[int(rng.integers(len(hues)))] + rng.normal(0, 0.02) if usual else rng.random()
        main = colour(hue, between(rng, style.saturation), between(rng, style.value))
        if sum(abs(a - b) for a, b in zip(main, behind, strict=True)) > 110:
            break
    outlined = rng.random() < style.outlined
    line = colour(rng.random(), 0.3, between(rng, style.outline_value))
    return Inks(
        main=main,
        accent=colour(hue + rng.uniform(0.2, 0.8), between(rng, style.saturation), between(rng, style.value)),
        dark=colour(hue, 0.4, rng.uniform(0.05, 0.3)),
        light=colour(hue, rng.uniform(0.0, 0.2), rng.uniform(0.85, 1.0)),
        outline=line if outlined else None,
        outline_width=between(rng, style.outline_width),
    )
