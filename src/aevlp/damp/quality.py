"""Precision and recall of pseudo-labels on the labels that were not observed."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

Labels = npt.NDArray[np.int8]


def precision_recall(found: npt.NDArray[np.bool_], observed: Labels, truth: Labels) -> tuple[float | None, float | None]:
    """Return (precision, recall) in 0..1 of found [N, C] over the cells with observed == 0.

    Precision is None if nothing is found, recall if there is nothing to find.
    """
    unknown = observed == 0
    found, there = found & unknown, (truth == 1) & unknown
    hits, claims, wanted = int((found & there).sum()), int(found.sum()), int(there.sum())
    return (hits / claims if claims else None), (hits / wanted if wanted else None)


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


@dataclass
class Quality:
    """Precision and recall per epoch, their averages, and those of the union of all epochs so far ("accumulated")."""

    observed: Labels
    truth: Labels
    per_epoch: list[tuple[float | None, float | None]] = field(default_factory=list)
    union: npt.NDArray[np.bool_] = field(init=False)

    def __post_init__(self) -> None:
        """Begin with an empty union."""
        self.union = np.zeros(self.observed.shape, bool)

    def update(self, pseudo: Labels) -> dict[str, float | None]:
        """Add an epoch's pseudo-labels [N, C]; return the figures so far, the newest epoch's as `epoch_*`."""
        found = pseudo == 1
        self.union = self.union | found
        self.per_epoch.append(precision_recall(found, self.observed, self.truth))
        precision, recall = self.per_epoch[-1]
        return {"epoch_precision": precision, "epoch_recall": recall, **self.figures()}

    def figures(self) -> dict[str, float | None]:
        """Return average and accumulated precision and recall, 0..1."""
        precision, recall = precision_recall(self.union, self.observed, self.truth)
        return {
            "precision": _mean([p for p, _ in self.per_epoch]),
            "recall": _mean([r for _, r in self.per_epoch]),
            "accumulated_precision": precision,
            "accumulated_recall": recall,
        }

    def state_dict(self) -> dict[str, Any]:
        """Return the state for a checkpoint."""
        return {"per_epoch": list(self.per_epoch), "union": torch.from_numpy(np.packbits(self.union))}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from `state`."""
        self.per_epoch = [tuple(pair) for pair in state["per_epoch"]]
        bits = np.unpackbits(state["union"].numpy(), count=self.observed.size)
        self.union = bits.astype(bool).reshape(self.observed.shape)
