"""Comparison of a trained model with chance and with its teacher alone, on the same validation images."""

from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from aevlp.core.seeds import seed_for
from aevlp.data.dataset import Split, evenly_spread

ROUNDS = 200  # shuffles, and bootstrap samples
MOST_COMPARED = 5000  # images, evenly spread
LEAST_GAIN = 0.1  # over chance, as a share of chance or of what is missing to 100: a smaller one helps nobody

Floats = npt.NDArray[np.floating]


@dataclass(frozen=True)
class Baselines:
    """The mAP of a model beside that of chance and of its teacher alone, in percent."""

    labels: Literal["complete", "observed"]  # observed: everything not observed counts as absent
    images: int
    model: float
    chance: float  # mean over shuffles: the model's scores, each given to a random other image
    chance_at_most: float  # 95 % of the shuffles are below
    teacher: float | None  # None: the method asks no teacher
    gain: tuple[float, float] | None  # 90 % interval of model - teacher (bootstrap over images)

    @property
    def beats_chance(self) -> bool:
        """Return whether the model is above 95 % of the shuffles, and by enough to be of use."""
        return self.model > max(self.chance_at_most, self.chance + self.least_gain)

    @property
    def least_gain(self) -> float:
        """The least gain over chance that is of use."""
        return LEAST_GAIN * min(self.chance, 100 - self.chance)

    @property
    def beats_teacher(self) -> bool | None:
        """Return whether the whole interval of the gain is above 0; None without a teacher."""
        return None if self.gain is None else self.gain[0] > 0

    def warning(self) -> str | None:
        """Return what is wrong with the model and what to try; None: nothing is."""
        mAP = f"validation mAP {self.model:.1f}{' of observed labels' if self.labels == 'observed' else ''}"
        if not self.beats_chance:
            is_noise = self.model > self.chance + self.least_gain
            verdict, advice = ("not clearly", "rely on it untested") if is_noise else ("no", "use it")
            return (
                f"This model is {verdict} better than chance: {mAP} on {self.images:,} images, where chance gives "
                f"{self.chance:.1f} and up to {self.chance_at_most:.1f}. Do not {advice}. Look at the labels (aevlp check DATA), "
                "then try another --train.learning_rate and --train.head_learning_rate, or another --backbone."
            )
        if self.beats_teacher is not False or self.gain is None:
            return None
        low, high = self.gain
        verdict = "worse than" if high < 0 else "not clearly better than"
        gain = f"difference {self.model - (self.teacher or 0):+.1f}, 90 % interval {low:+.1f} to {high:+.1f}"
        use = "The teacher alone completes labels with aevlp label DATA --out FILE."
        if (self.teacher or 0) <= max(self.chance_at_most, self.chance + self.least_gain):
            use = f"The teacher itself is not clearly better than chance ({self.chance:.1f}, up to {self.chance_at_most:.1f})."
        return (
            f"This model is {verdict} its teacher alone: {mAP} on {self.images:,} images, the teacher's {self.teacher:.1f} "
            f"({gain}). {use} For a better model try more images or another --backbone."
        )

    def as_json(self) -> dict[str, Any]:
        """Return the entry `baselines` of `result.json`."""
        gain = None if self.gain is None else list(self.gain)
        return {**asdict(self), "gain": gain, "beats_chance": self.beats_chance, "beats_teacher": self.beats_teacher}


def compare_with_baselines(split: Split, model: Floats, teacher: Floats | None, seed: int) -> Baselines | None:
    """Compare the scores [N, C] of a model and of its teacher on a split; None if no label of it is positive."""
    rows = evenly_spread(len(split.names), MOST_COMPARED)
    positive = split.evaluation_labels[rows] == 1
    if not positive.any():
        return None
    rng = np.random.default_rng(seed_for(seed, "baselines"))
    count = len(rows)
    once = np.ones((1, count), np.int64)
    shuffles = np.stack([rng.permutation(count) for _ in range(ROUNDS)])
    by_chance = mean_average_precisions(model[rows], positive, np.ones_like(shuffles), shuffles)
    own = float(mean_average_precisions(model[rows], positive, once)[0])
    gain = its = None
    if teacher is not None:
        its = float(mean_average_precisions(teacher[rows], positive, once)[0])
        drawn = rng.multinomial(count, np.full(count, 1 / count), size=ROUNDS)
        gains = [mean_average_precisions(scores[rows], positive, drawn) for scores in (model, teacher)]
        low, high = np.percentile(gains[0] - gains[1], [5, 95])
        gain = float(low), float(high)
    return Baselines(
        labels="observed" if split.truth is None else "complete",
        images=count,
        model=own,
        chance=float(by_chance.mean()),
        chance_at_most=float(np.percentile(by_chance, 95)),
        teacher=its,
        gain=gain,
    )


def mean_average_precisions(
    scores: Floats,
    positive: npt.NDArray[np.bool_],
    counts: npt.NDArray[np.int64],
    labels_of: npt.NDArray[np.intp] | None = None,
) -> npt.NDArray[np.float64]:
    """Return the mAP in percent of scores [N, C] in each of B samples, float64 [B]; a class without a positive counts 0.

    In sample b, image i counts `counts`[b, i] times, and has the labels of image `labels_of`[b, i] (its own, without it).
    """
    total = np.zeros(len(counts))
    for column in range(scores.shape[1]):
        order = np.argsort(-scores[:, column], kind="stable")
        ranked = scores[order, column]
        # Equal scores are one threshold: the precision of each is that of the last of them.
        last = np.searchsorted(-ranked, -ranked, side="right") - 1
        claims = counts[:, order]
        hits = claims * positive[order if labels_of is None else labels_of[:, order], column]
        precision = hits.cumsum(1)[:, last] / np.maximum(claims.cumsum(1)[:, last], 1)
        total += (hits * precision).sum(1) / np.maximum(hits.sum(1), 1)
    means: npt.NDArray[np.float64] = 100 * total / scores.shape[1]
    return means
