"""An image set of six images with labels in every state."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from aevlp.data.annotations import COMPLETE, Answer
from aevlp.data.dataset import ImageTable
from aevlp.data.records import LabelRecord, Score, table_records

CLASSES = ("zebra", "apple", "née <b>", "nobody")


def score(confidence: float, **predictors: float) -> Score:
    return Score(confidence, predictors)


def record(
    name: str,
    split: str = "train",
    observed: Sequence[str] = (),
    rejected: Sequence[str] = (),
    accepted: Sequence[str] = (),
    answers: Mapping[str, Answer] | None = None,
    is_complete: bool = False,
    **scores: Mapping[str, Score],
) -> LabelRecord:
    return LabelRecord(
        name,
        split,
        tuple(observed),
        tuple(accepted),
        tuple(rejected),
        is_complete=is_complete,
        answers={**dict.fromkeys(accepted, Answer()), **(answers or {})},  # an accepted label always has an answer
        **scores,
    )


ANN = Answer("ann@example.org", "2026-01-31T10:00:00+00:00")
BOB = Answer("Bob; 100 % = |x|", "2026-02-01T11:30:00+00:00")

RECORDS = (
    record(
        "a/one.png",
        observed=["zebra"],
        proposed={"apple": score(0.93, teacher=0.9, model=0.95), "née <b>": score(0.81, teacher=0.7, model=0.92)},
        doubted={"zebra": score(0.04, teacher=0.05, model=0.03)},
        candidates={"nobody": score(0.3, teacher=0.2, model=0.4)},
    ),
    record('a/two, or "2".png', rejected=["apple"], proposed_absent={"zebra": score(0.01, teacher=0.01)}),
    record("three\n<&>.png", "val", observed=["apple", "née <b>"], rejected=["zebra", "nobody"]),
    record("nothing.png", "test"),
    record(" 5 % #?=é.png", observed=["apple"]),
    record(
        "six.png",
        observed=["apple"],
        accepted=["née <b>", "zebra"],
        rejected=["nobody"],
        answers={"zebra": ANN, "nobody": BOB, COMPLETE: BOB},
        is_complete=True,
        doubted={"zebra": score(0.1, teacher=0.1)},
    ),
)


def comparable(record: LabelRecord, classes: Sequence[str] = CLASSES) -> LabelRecord:
    """Return the record with labels in the order of the classes, and scores to the digits that files keep."""

    def ordered(names: Iterable[str]) -> tuple[str, ...]:
        return tuple(sorted(names, key=classes.index))

    def rounded(scores: Mapping[str, Score]) -> dict[str, Score]:
        return {
            name: Score(round(each.confidence, 4), {who: round(value, 4) for who, value in sorted(each.predictors.items())})
            for name, each in sorted(scores.items())
        }

    return replace(
        record,
        observed=ordered(record.observed),
        accepted=ordered(record.accepted),
        rejected=ordered(record.rejected),
        proposed=rounded(record.proposed),
        proposed_absent=rounded(record.proposed_absent),
        candidates=rounded(record.candidates),
        doubted=rounded(record.doubted),
        answers=dict(record.answers),
    )


def records_in(table: ImageTable) -> list[LabelRecord]:
    """Return what a table holds, to be compared with records that were written; names are not compared."""
    return [replace(comparable(each, table.classes), name="") for each in table_records(table)]


def held(records: Iterable[LabelRecord], classes: Sequence[str] = CLASSES, *, is_table: bool = False) -> list[LabelRecord]:
    """Return what a format should hold of records: tables hold everything, the others no absences and no candidates."""
    found = [replace(comparable(each, classes), name="") for each in records]
    return found if is_table else [replace(each, proposed_absent={}, candidates={}) for each in found]
