"""Which row is first, second, ... here and in the paper, and how far the two orders agree."""

from __future__ import annotations

from collections.abc import Mapping

from aevlp.config.methods import find_method
from aevlp.experiments.reproduce.paper import Sets


def ranks(values: Mapping[str, float]) -> dict[str, int]:
    """Name -> 1 for the highest value, 2 for the next, ...; equals share the better place."""
    return {name: 1 + sum(other > value for other in values.values()) for name, value in values.items()}


def rivals(means: Mapping[str, float]) -> dict[str, float]:
    """Those that are ranked: all but what is trained on complete labels."""
    return {name: value for name, value in means.items() if not find_method(name).loss.needs_truth}


def agreement(ours: Mapping[str, float], figures: Mapping[str, Sets], data: str) -> float | None:
    """Spearman's rank correlation, -1 to 1, of our values with the paper's on a data set of its; None: too few to tell."""
    from scipy.stats import spearmanr

    values = [(value, getattr(figures[name], data)) for name, value in ours.items() if name in figures]
    first, second = ({pair[side] for pair in values} for side in (0, 1))
    if len(values) < 3 or len(first) < 2 or len(second) < 2:
        return None
    return float(spearmanr(*zip(*values, strict=True)).statistic)
