import pytest

from aevlp.train import should_stop


@pytest.mark.parametrize(
    ("values", "stops"),
    [
        ([], False),
        ([50.0], False),
        ([50.0, 49.0], False),
        ([50.0, 49.0, 49.5], True),  # two epochs without a new best
        ([50.0, 50.0, 50.0], True),  # an equal is no new best
        ([50.0, 49.0, 51.0], False),
        ([50.0, 48.0], False),
        ([50.0, 47.9], True),  # a fall by more than two points
    ],
)
def test_training_stops_when_validation_no_longer_improves(values, stops):
    assert should_stop(values, patience=2, max_drop=2.0) == stops
