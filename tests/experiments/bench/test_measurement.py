import pytest

from aevlp.experiments.bench.measurement import side_by_side


class Clock:
    """Time passes only while something is done."""

    def __init__(self):
        self.now, self.done = 0.0, []

    def __call__(self) -> float:
        return self.now

    def work(self, name: str, *seconds: float):
        durations = iter(seconds)

        def do() -> None:
            self.done.append(name)
            self.now += next(durations)

        return do


def test_each_is_warmed_up_once_and_every_second_round_goes_backwards():
    clock = Clock()
    side_by_side("x", {name: clock.work(name, *[1.0] * 4) for name in "abc"}, 3, clock=clock)
    assert "".join(clock.done) == "abc" + "abc" + "cba" + "abc"


def test_the_warm_up_can_be_left_out():
    clock = Clock()
    times = side_by_side("x", {"a": clock.work("a", 7.0)}, 1, warm_up=False, clock=clock)
    assert clock.done == ["a"]
    assert times.seconds == {"a": [7.0]}


def test_a_figure_is_the_median_of_the_ratios_within_a_round():
    clock = Clock()
    # The machine is ten times slower in the second round: that is no part of any ratio.
    ways = {"a": clock.work("a", 99.0, 3.0, 50.0, 4.0), "b": clock.work("b", 99.0, 1.0, 10.0, 1.0)}
    times = side_by_side("x", ways, 3, clock=clock)
    ratio = times.ratio("a", "b")
    assert (ratio.value, ratio.low, ratio.high) == pytest.approx((4.0, 3.0, 5.0))
    assert times.median("a") == pytest.approx(4.0)


def test_a_rate_has_its_spread_too():
    clock = Clock()
    times = side_by_side("x", {"a": clock.work("a", 9.0, 2.0, 5.0, 1.0)}, 3, clock=clock)
    rate = times.part(10, "a")
    assert (rate.value, rate.low, rate.high) == pytest.approx((5.0, 2.0, 10.0))


def test_rounds_are_told(caplog):
    caplog.set_level("INFO", logger="aevlp.experiments.bench")
    side_by_side("scoring", {"a": lambda: None}, 2)
    assert [record.getMessage() for record in caplog.records] == ["scoring: round 1 of 2", "scoring: round 2 of 2"]
