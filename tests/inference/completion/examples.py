"""An image set of five, and what is said of it."""

from collections.abc import Sequence

from aevlp.inference.completion.records import Completed, Opinion

CLASSES = ("zebra", "apple", "née <b>", "nobody")


def opinion(confidence: float, **witnesses: float) -> Opinion:
    return Opinion(confidence, witnesses)


def record(name: str, split: str = "train", observed: Sequence[str] = (), absent: Sequence[str] = (), **opinions) -> Completed:
    sure = {"proposed": {}, "proposed_absent": {}, "doubted": {}} | opinions
    return Completed(name, split, tuple(observed), tuple(absent), **sure)


RECORDS = (
    record(
        "a/one.png",
        observed=["zebra"],
        proposed={"apple": opinion(0.93, teacher=0.9, model=0.95), "née <b>": opinion(0.81, teacher=0.7, model=0.92)},
        doubted={"zebra": opinion(0.04, teacher=0.05, model=0.03)},
    ),
    record('a/two, or "2".png', absent=["apple"], proposed_absent={"zebra": opinion(0.01, teacher=0.01)}),
    record("three\n<&>.png", "val", observed=["apple", "née <b>"], absent=["zebra", "nobody"]),
    record("nothing.png", "test"),
    record(" 5 % #?=é.png", observed=["apple"]),
)
