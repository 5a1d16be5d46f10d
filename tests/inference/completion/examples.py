"""An image set of five images with completed labels."""

from collections.abc import Sequence

from aevlp.inference.completion.records import Completed, Score

CLASSES = ("zebra", "apple", "née <b>", "nobody")


def score(confidence: float, **predictors: float) -> Score:
    return Score(confidence, predictors)


def record(name: str, split: str = "train", observed: Sequence[str] = (), absent: Sequence[str] = (), **scores) -> Completed:
    sure = {"proposed": {}, "proposed_absent": {}, "doubted": {}} | scores
    return Completed(name, split, tuple(observed), tuple(absent), **sure)


RECORDS = (
    record(
        "a/one.png",
        observed=["zebra"],
        proposed={"apple": score(0.93, teacher=0.9, model=0.95), "née <b>": score(0.81, teacher=0.7, model=0.92)},
        doubted={"zebra": score(0.04, teacher=0.05, model=0.03)},
    ),
    record('a/two, or "2".png', absent=["apple"], proposed_absent={"zebra": score(0.01, teacher=0.01)}),
    record("three\n<&>.png", "val", observed=["apple", "née <b>"], absent=["zebra", "nobody"]),
    record("nothing.png", "test"),
    record(" 5 % #?=é.png", observed=["apple"]),
)
