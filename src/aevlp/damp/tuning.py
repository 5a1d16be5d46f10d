"""DAMP's settings for another teacher or another domain, chosen from stored views without any training.

A setting is scored by the F0.5 of its positive pseudo-labels, which weighs precision more than recall: a wrong pseudo-label does
more harm than a missing one. On fully labelled images it is measured. Elsewhere it is estimated from the observed labels: each is
hidden from the rule and counts for all positives of its image (`aevlp.data.prevalence`). The negative share is the one that was
set or, if that marks more than a few true positives as absent, the largest that does not.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from aevlp.damp.labels import final_scores, lowest_count, rank, scores
from aevlp.data.prevalence import estimated_positive_weight, informative_rows

Floats = npt.NDArray[np.floating]
Flags = npt.NDArray[np.bool_]

TEMPERATURES = (0.003, 0.005, 0.007, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.5)
THRESHOLDS = (0.002, 0.005, 0.01, 0.02, 0.03, *(round(0.025 * step, 3) for step in range(2, 39)))
TOP_KS = (1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 48)
FRACTIONS = tuple(round(0.05 * step, 2) for step in range(17))
TAKEN = 0.02  # share of the positives that may become negative
BETA = 0.5  # of F0.5
BATCH = 256  # images


@dataclass(frozen=True)
class DampSettings:
    """The options of DAMP that tuning chooses."""

    temperature: float
    global_threshold: float
    top_k: int
    negative_fraction: float


@dataclass(frozen=True)
class Figures:
    """Quality of the pseudo-labels of a setting, 0 to 1."""

    precision: float
    recall: float
    f_half: float
    negatives_wrong: float  # share of the positives that become negative


@dataclass(frozen=True)
class Tuning:
    """The settings before tuning, the chosen ones, and the best of every temperature."""

    basis: Literal["complete", "estimated"]  # estimated: from observed labels alone
    images: int
    before: tuple[DampSettings, Figures]
    chosen: tuple[DampSettings, Figures]
    tried: tuple[tuple[DampSettings, Figures], ...]  # the best of every temperature


@dataclass(frozen=True, eq=False)
class Sample:
    """Images on which settings are evaluated."""

    embeddings: Tensor  # [N, V, K], of unit length
    classes: Tensor  # [C, K] likewise
    observed: Tensor  # int8 [N, C]: the labels that the rule may use
    local_threshold: float
    released_code: bool = False

    def finals(self, temperature: float) -> tuple[Tensor, Tensor]:
        """Return final and average scores, [N, C] each."""
        parts = [
            final_scores(
                *scores(self.embeddings[at : at + BATCH], self.classes, temperature),
                self.observed[at : at + BATCH],
                local_threshold=self.local_threshold,
                released_code=self.released_code,
            )
            for at in range(0, len(self.embeddings), BATCH)
        ]
        final, average = map(torch.cat, zip(*parts, strict=True))
        return final, average


def tune_complete(sample: Sample, truth: npt.NDArray[np.int8], before: DampSettings) -> Tuning:
    """Return the best setting for images whose labels [N, C] are all known; labels that the rule uses do not count."""
    counted = sample.observed.numpy() == 0
    mass = ((truth == 1) & counted).astype(np.float64)
    return _Search(sample, before).run(mass, counted, "complete")


def tune_estimated(
    sample: Sample, observed: npt.NDArray[np.int8], before: DampSettings, expected_positives: float | None
) -> Tuning:
    """Return the best setting by the observed labels [N, C] alone, which `sample` must not contain."""
    search = _Search(sample, before)
    counted = np.broadcast_to(informative_rows(observed)[:, None], observed.shape)
    mass = estimated_positive_weight(observed, lambda mass: search.found(search.widest(mass, counted)), expected_positives)
    return search.run(mass, counted, "estimated")


class _Tried(NamedTuple):
    setting: DampSettings
    f_half: float
    f_one: float


def _best(tried: Sequence[_Tried]) -> DampSettings:
    """Return the setting with the best F0.5."""
    return max(tried, key=lambda one: one.f_half).setting


def _f_score(hits: Floats | float, claims: Floats | float, wanted: float, beta: float) -> Floats:
    """Return (1 + beta^2) hits / (claims + beta^2 wanted); 0 where there is nothing."""
    found: Floats = (1 + beta**2) * np.asarray(hits) / np.maximum(np.asarray(claims) + beta**2 * wanted, 1e-9)
    return found


class _Search:
    """All settings on one sample; scores are computed once per temperature."""

    def __init__(self, sample: Sample, before: DampSettings) -> None:
        self.before = before
        self.count, self.width = sample.observed.shape
        self.finals, self.ranks, self.ranks_from_below = {}, {}, {}
        for temperature in sorted({*TEMPERATURES, before.temperature}):
            final, average = sample.finals(temperature)
            self.finals[temperature] = final.numpy()
            self.ranks[temperature] = rank(final, descending=True).numpy()
            self.ranks_from_below[temperature] = rank(average, descending=False).numpy()
        self.top_ks = [k for k in TOP_KS if k <= self.width] or [self.width]

    def run(self, mass: Floats, counted: Flags, basis: Literal["complete", "estimated"]) -> Tuning:
        """Return the tuning for positives of this weight [N, C] among the counted cells [N, C]."""
        by_temperature = [list(self._all_at(temperature, mass, counted)) for temperature in TEMPERATURES]
        shown = [_best(tried) for tried in by_temperature]
        # If every positive has been observed, all settings are equally good.
        chosen = _best([one for tried in by_temperature for one in tried]) if mass.any() else self.before

        def evaluated(setting: DampSettings) -> tuple[DampSettings, Figures]:
            return setting, self.figures(setting, mass, counted)

        return Tuning(basis, self.count, evaluated(self.before), evaluated(chosen), tuple(map(evaluated, shown)))

    def widest(self, mass: Floats, counted: Flags) -> DampSettings:
        """Return the setting with the best F1: it finds enough to count the labels of an image by."""
        tried = (one for temperature in TEMPERATURES for one in self._all_at(temperature, mass, counted))
        return max(tried, key=lambda one: one.f_one).setting

    def _all_at(self, temperature: float, mass: Floats, counted: Flags) -> Iterator[_Tried]:
        """Yield every setting with this temperature."""
        final, rank_of = self.finals[temperature], self.ranks[temperature]
        near = rank_of < self.top_ks[-1]
        order = np.argsort(-final[near], kind="stable")
        ranked, ranks = final[near][order], rank_of[near][order]
        masses, counts = mass[near][order], counted[near][order]
        ends = len(ranked) - np.searchsorted(ranked[::-1], np.array(THRESHOLDS, ranked.dtype), side="left")
        fraction = self._fraction(temperature, mass)
        for k in self.top_ks:
            is_in = ranks < k
            claims = np.concatenate([[0], np.cumsum(counts & is_in)])[ends]
            hits = np.minimum(np.concatenate([[0.0], np.cumsum(masses * is_in)])[ends], claims)
            f_half, f_one = (_f_score(hits, claims, float(mass.sum()), beta) for beta in (BETA, 1.0))
            for at, threshold in enumerate(THRESHOLDS):
                yield _Tried(DampSettings(temperature, threshold, k, fraction), float(f_half[at]), float(f_one[at]))

    def _fraction(self, temperature: float, mass: Floats) -> float:
        """Return the share of negatives that was set or, if it includes more than a few positives, the largest that does not."""
        place = self.ranks_from_below[temperature]
        taken = np.cumsum(np.bincount(place.ravel(), mass.ravel(), self.width)) / max(mass.sum(), 1e-9)
        set_before = self.before.negative_fraction
        fractions = {0.0, set_before, *(fraction for fraction in FRACTIONS if fraction < set_before)}
        counts = {fraction: lowest_count(fraction, self.width) for fraction in fractions}
        return max(fraction for fraction, n in counts.items() if n == 0 or taken[n - 1] <= TAKEN)

    def found(self, setting: DampSettings) -> Flags:
        """Return the positive pseudo-labels [N, C] of a setting, before negative ones are removed."""
        t = setting.temperature
        result: Flags = (self.ranks[t] < setting.top_k) & (self.finals[t] >= setting.global_threshold)
        return result

    def figures(self, setting: DampSettings, mass: Floats, counted: Flags) -> Figures:
        """Return the figures of a setting."""
        negative = self.ranks_from_below[setting.temperature] < lowest_count(setting.negative_fraction, self.width)
        found = self.found(setting) & ~negative & counted
        claims, wanted = int(found.sum()), float(mass.sum())
        hits = min(float((mass * found).sum()), claims)
        wrong = float((mass * negative).sum())
        return Figures(
            precision=hits / claims if claims else 0.0,
            recall=hits / wanted if wanted else 0.0,
            f_half=float(_f_score(hits, claims, wanted, BETA)),
            negatives_wrong=wrong / wanted if wanted else 0.0,
        )
