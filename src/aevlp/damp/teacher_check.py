"""A first look at the teacher: how well it knows the classes, on a few hundred images, before the long work begins."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.metrics import roc_auc_score

from aevlp.core.errors import first_few
from aevlp.core.seeds import seed_for
from aevlp.data.dataset import Labels, Rows

MOST_CHECKED = 300  # images
SHUFFLES = 200
LEAST_GAIN = 0.1  # over chance, as a share of chance or of what is missing to 1
UNSEEN = 0.65  # a class is unseen if even the 95 % upper bound of its AUC is below
FEWEST = 5  # images of a class that is judged
FLAT, SURE = 1.5, 0.95  # mean best score: in units of 1 / classes, and absolute


@dataclass(frozen=True)
class TeacherCheck:
    """A measure of how well a teacher knows the classes; shares are 0 to 1."""

    images: int  # all have an observed positive
    first: float  # share of the images whose highest score is that of an observed label
    chance: float  # the same with the images shuffled, on average
    chance_at_most: float  # 95 % of the shuffles are below
    classes: int
    unseen: tuple[str, ...]  # classes whose images it hardly tells from others
    confidence: float  # mean highest score

    @property
    def is_useless(self) -> bool:
        """Return whether it is not above 95 % of the shuffles, or by too little."""
        return self.first <= max(self.chance_at_most, self.chance + LEAST_GAIN * min(self.chance, 1 - self.chance))

    def __str__(self) -> str:
        text = f"it ranks the tag first in {_percent(self.first)} of {self.images:,} images; chance {_percent(self.chance)}"
        return f"{text}; classes that it does not see: {first_few(self.unseen, 10)}" if self.unseen else text

    def warnings(self) -> list[str]:
        """Return what is wrong with the teacher, with the likely cause; none for a good one."""
        found = []
        first = f"it ranks the tag first in {_percent(self.first)} of {self.images:,} images"
        if self.is_useless:
            found.append(
                f"The teacher does not know these classes: {first}, where chance gives {_percent(self.chance)} and up to "
                f"{_percent(self.chance_at_most)}. Its pseudo-labels teach nothing. Likely causes: class names that are no plain "
                "words (write prompts: --prompts FILE), or images unlike those that it was trained on (another --teacher, or "
                "--method gr without one)."
            )
        elif self.unseen:
            found.append(
                f"The teacher does not see {len(self.unseen)} of {self.classes} classes: {first_few(self.unseen, 10)}. It scores "
                f"their images above others less than {_percent(UNSEEN)} of the time. Likely causes: their prompts (--prompts "
                "FILE), or a domain that it does not know."
            )
        best = f"its best score is {self.confidence:.2f} on average"
        equal = 1 / self.classes
        if self.confidence < min(FLAT * equal, equal + LEAST_GAIN * (1 - equal)):
            found.append(
                f"The teacher's scores are nearly equal: {best}, of {self.classes} classes. The temperature is likely too high "
                "for this teacher (aevlp tune DATA chooses one)."
            )
        elif self.confidence > SURE and not self.is_useless and self.first < 0.5:
            found.append(
                f"The teacher is surer than it should be: {best}, and {first}. The temperature is likely too low for this "
                "teacher (aevlp tune DATA chooses one)."
            )
        return found

    def as_json(self) -> dict[str, Any]:
        """Return the entry `teacher_check` of `result.json`."""
        return {**asdict(self), "unseen": list(self.unseen), "is_useless": self.is_useless}


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def checked_rows(observed: Labels) -> Rows:
    """Return the rows of at most `MOST_CHECKED` images with an observed positive, in order; the classes take turns."""
    rows = np.flatnonzero((observed == 1).any(1))
    rows = np.random.default_rng(seed_for(0, "teacher check")).permutation(rows)
    tags = (observed[rows] == 1).argmax(1)
    turn = np.zeros(len(rows), np.intp)
    for tag in np.unique(tags):
        turn[tags == tag] = np.arange((tags == tag).sum())
    chosen: Rows = np.sort(rows[np.argsort(turn, kind="stable")[:MOST_CHECKED]])
    return chosen


def check_teacher(scores: npt.NDArray[np.floating], observed: Labels, classes: Sequence[str]) -> TeacherCheck:
    """Check a teacher by its scores [M, C] of images with observed labels [M, C]."""
    positive, best = observed == 1, scores.argmax(1)
    rng = np.random.default_rng(seed_for(0, "teacher check"))
    # The same answers for shuffled images: a teacher that always names the most frequent class is no better than this.
    by_chance = [positive[rng.permutation(len(best)), best].mean() for _ in range(SHUFFLES)]
    return TeacherCheck(
        images=len(best),
        first=float(positive[np.arange(len(best)), best].mean()),
        chance=float(np.mean(by_chance)),
        chance_at_most=float(np.percentile(by_chance, 95)),
        classes=len(classes),
        unseen=tuple(name for c, name in enumerate(classes) if _is_unseen(scores[:, c], positive[:, c])),
        confidence=float(scores.max(1).mean()),
    )


def _is_unseen(scores: npt.NDArray[np.floating], positive: npt.NDArray[np.bool_]) -> bool:
    """Return whether the scores [M] of a class hardly tell its images from others: the upper bound of the AUC is low."""
    ours, others = int(positive.sum()), int((~positive).sum())
    if min(ours, others) < FEWEST:
        return False
    spread = np.sqrt((ours + others + 1) / (12 * ours * others))  # of the AUC of scores that know nothing (Mann and Whitney)
    return bool(roc_auc_score(positive, scores) + 1.645 * spread < UNSEEN)
