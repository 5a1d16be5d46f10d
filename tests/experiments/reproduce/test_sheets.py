from types import SimpleNamespace
from typing import Any

import pytest

from aevlp.experiments.reproduce.sheets import TrainedRow, _ties


def row(name: str, *values: float) -> TrainedRow:
    trials: list[Any] = [(SimpleNamespace(seed=seed), {"mAP": value}) for seed, value in enumerate(values)]
    planned: Any = SimpleNamespace(row=SimpleNamespace(name=name), skipped="")
    return TrainedRow(planned, trials)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([("gr", 61.0), ("an", 31.0)], ["Of ranks and differences: one seed: no claim."]),
        (
            [("an", 60.0, 60.5, 61.5), ("gr", 61.0, 60.0, 62.0), ("role", 41.0, 40.0, 42.0)],
            ["Ties, by the difference per seed and its standard error: `gr` and `an` (+0.33 ± 0.44)."],
        ),
        ([("gr", 61.0, 60.0, 62.0), ("role", 41.0, 40.0, 42.0)], []),
        ([("gr", 61.0)], []),
    ],
)
def test_neighbours_in_rank_within_noise_are_ties(rows, said):
    assert _ties([row(name, *values) for name, *values in rows], "mAP") == said
