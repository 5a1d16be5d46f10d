"""Label Studio's exports: the meaning of an annotation, several annotators, JSON-MIN, and what is refused."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aevlp.data import read
from aevlp.data.annotations import COMPLETE, Answer
from aevlp.data.readers import reader_of
from aevlp.data.records import LabelRecord, table_records

Pictures = Callable[[list[str]], Path]
Refusal = Callable[..., str]
Write = Callable[..., Path]
ANN, BOB = Answer("ann@x.org", "2026-01-31T10:00:00+00:00"), Answer("2", "2026-01-31T12:00:00+00:00")
KNOWN: dict[str, Any] = {
    "given": ["dog"],
    "accepted": ["cat"],
    "rejected": ["cow"],
    "proposed": {"car": {"confidence": 0.75}, "sofa": 0.5},
}


@pytest.fixture
def write(pictures: Pictures) -> Write:
    """Writes tasks beside photos/1.png and photos/2.png."""

    def to_file(tasks: Any) -> Path:
        file = pictures(["set/photos/1.png", "set/photos/2.png"]) / "set" / "export.json"
        file.write_text(tasks if isinstance(tasks, str) else json.dumps(tasks))
        return file

    return to_file


def annotation(choices: list[str], by: Any = None, at: str = "2026-01-31T10:00:00.5Z", **others: Any) -> dict[str, Any]:
    value = {"from_name": "labels", "to_name": "image", "type": "choices", "value": {"choices": choices}}
    by = {"id": 1, "email": "ann@x.org"} if by is None else by
    return {"completed_by": by, "result": [value] if choices else [], "updated_at": at, **others}


def task(*annotations: dict[str, Any], number: int = 1, **data: Any) -> dict[str, Any]:
    return {"id": number, "data": {"image": f"/data/upload/3/1a2b3c4d-{number}.png", **data}, "annotations": list(annotations)}


def first(file: Path) -> LabelRecord:
    return next(table_records(read(file)))


def test_a_task_without_annotation_keeps_its_states(write: Write) -> None:
    found = first(write([task(**KNOWN, complete=True, split="val")]))
    assert (found.observed, found.accepted, found.rejected) == (("dog",), ("cat",), ("cow",))
    assert {label: score.confidence for label, score in found.proposed.items()} == {"car": 0.75, "sofa": 0.5}
    assert (found.is_complete, found.split) == (True, "val")


def test_an_annotation_answers_every_choice(write: Write) -> None:
    found = first(write([task(annotation(["dog", "car", "bird"]), **KNOWN)]))
    assert (found.observed, found.accepted) == (("dog",), ("bird", "car"))
    assert (found.rejected, dict(found.proposed)) == (("cat", "cow", "sofa"), {})
    assert found.is_complete
    assert found.answers == dict.fromkeys(("bird", "car", "cat", "sofa", COMPLETE), ANN)


def test_nothing_ticked_rejects_what_was_known(write: Write) -> None:
    found = first(write([task(annotation([]), given=["dog"], proposed={"cat": 0.9})]))
    assert (found.positives, found.rejected, found.is_complete) == ((), ("cat", "dog"), True)


@pytest.mark.parametrize("mark", ["was_cancelled", "skipped"])
def test_skipped_annotations_are_ignored(mark: str, write: Write) -> None:
    found = first(write([task(annotation(["car"]) | {mark: True}, **KNOWN)]))
    assert (found.observed, found.accepted, found.is_complete) == (("dog",), ("cat",), False)


def test_the_last_annotation_of_a_person_counts(write: Write) -> None:
    late, early = annotation(["car"], at="2026-02-01T10:00:00Z"), annotation(["sofa"], at="2026-01-01T10:00:00Z")
    for order in ([late, early], [early, late]):
        assert first(write([task(*order, **KNOWN)])).accepted == ("car",)


def test_annotators_who_agree(write: Write) -> None:
    found = first(write([task(annotation(["dog", "car"]), annotation(["car", "dog"], by=2), **KNOWN)]))
    assert (found.observed, found.accepted, found.is_complete) == (("dog",), ("car",), True)


def test_contradictions_between_annotators_are_left_open_and_noted(write: Write) -> None:
    file = write([task(annotation(["dog", "car"]), annotation(["dog", "sofa", "bird"], by=2), **KNOWN)])
    table = read(file)
    [found] = table_records(table)
    assert (found.observed, found.accepted, found.rejected) == (("dog",), (), ("cat", "cow"))
    assert sorted(found.proposed) == ["car", "sofa"]
    assert not found.is_complete
    assert COMPLETE not in found.answers
    assert table.notes == (
        "labels about which annotators disagree: 3 (/data/upload/3/1a2b3c4d-1.png bird, /data/upload/3/1a2b3c4d-1.png car, "
        "/data/upload/3/1a2b3c4d-1.png sofa); they stay as they were",
    )


def test_each_annotator_can_be_read_alone(write: Write) -> None:
    file = write([task(annotation(["car"]), annotation([], by=2, at="2026-01-31T13:00:00+01:00"), **KNOWN), task(number=2)])
    parse = reader_of(file).parse
    assert parse is not None
    nobody, ann, bob = parse(file)
    assert [len(parsed.placed) for parsed in (nobody, ann, bob)] == [1, 1, 1]
    assert (ann.who, bob.who) == (ANN.who, BOB.who)
    assert ann.placed[0][1].answers["car"] == ANN
    assert bob.placed[0][1].answers["car"] == BOB


def test_labels_of_regions_are_labels(write: Write) -> None:
    box = {"type": "rectanglelabels", "value": {"x": 1, "rectanglelabels": ["dog"]}}
    text = {"type": "textarea", "value": {"text": ["a note"]}}
    found = first(write([task({"completed_by": 1, "result": [box, text]}, given=["cat"])]))
    assert (found.accepted, found.rejected) == (("dog",), ("cat",))


def test_json_min(write: Write) -> None:
    image = {"image": "s3://bucket/photos/1.png", **KNOWN}
    by = {"annotator": "ann@x.org", "updated_at": ANN.at, "lead_time": 1.0}
    other = {"image": "s3://bucket/photos/2.png", "id": 2}
    rows = [
        {**image, "id": 1, "labels": {"choices": ["dog", "car"]}, "annotation_id": 5, **by},
        {**image, "id": 1, "labels": {"choices": ["dog", "car"]}, "annotation_id": 6, **by, "annotator": 2},
        {**other, "labels": "dog", "annotation_id": 7, **by},
    ]
    one, two = table_records(read(write(rows)))
    assert (one.observed, one.accepted, one.rejected, one.is_complete) == (("dog",), ("car",), ("cat", "cow", "sofa"), True)
    assert (two.accepted, two.is_complete) == (("dog",), True)
    rows = [rows[0], {**other, "annotation_id": None, "annotator": None}]
    assert [each.is_complete for each in table_records(read(write(rows)))] == [True, False]


def test_json_min_of_another_project(write: Write) -> None:
    rows = [
        {"photo": "https://host/photos/1.png?x=1", "id": 1, "kinds": {"choices": ["a", "b"]}, "annotator": 1, "annotation_id": 1},
        {"photo": "https://host/photos/2.png", "id": 2, "kinds": "b", "annotator": 1, "annotation_id": 2},
    ]
    table = read(write(rows))
    assert (table.names, table.labels.tolist()) == (("photos/1.png", "photos/2.png"), [[1, 1], [0, 1]])


def test_classes_txt_fixes_names_and_order(write: Write, refusal: Refusal) -> None:
    file = write([task(annotation(["dog"]))])
    (file.parent / "classes.txt").write_text("dog\nant\n")
    assert read(file).classes == ("dog", "ant")
    (file.parent / "classes.txt").write_text("ant\ndoe\n")
    assert refusal(file).startswith(f"{file}: task 1: class 'dog' is not in classes.txt (did you mean 'doe'?); correct the name")


@pytest.mark.parametrize(
    ("tasks", "message"),
    [
        ([1], ": task 1 is 1, not an object; correct it"),
        ([{"id": 4}], ": task 4 names no image; add a field 'image' with its address"),
        ([task(given="dog")], ": task 1: 'given' is 'dog', not a list; correct it"),
        ([task(given=[1])], ": task 1: 'given' is 1, not text; correct it"),
        ([task(proposed={"dog": 1.5})], ": task 1: 'confidence' of 'dog' is 1.5, not a number from 0 to 1; correct it"),
        ([task(proposed=["dog"])], ": task 1: 'proposed' is ['dog'], not an object; correct it"),
        ([task(given=["dog"], rejected=["dog"])], ": task 1, 'dog' is both positive and negative; keep it as one of the two"),
        ([task(complete="yes")], ": task 1: 'complete' is 'yes', not true or false; correct it"),
        ([task(split="dev")], ": task 1: split 'dev' is none of train, val, test; correct it"),
        ([task(annotation(["dog"], at="soon"))], ": task 1: 'soon' is not a date; correct it"),
        (
            [task({"result": [{"type": "choices", "value": []}]})],
            ": task 1: 'value' of a result is [], not an object; correct it",
        ),
        ([task({"result": {}})], ": task 1: 'result' is {}, not a list; correct it"),
        ([task(), task()], ": task 1 and another task are about one image (/data/upload/3/1a2b3c4d-1.png); make one of them"),
        ([task(), task() | {"data": {"image": "1.png"}}], ": several entries are about one image ("),
        ([task(number=7)], ": 1 of 1 images are not found (/data/upload/3/1a2b3c4d-7.png); they are looked for in "),
        ("[" * 100_000, ": nested too deep to be a file of labels; write it again"),
        ('[{"data": {"image": "1.png", "score": NaN}}]', ": has the number NaN, which is not JSON; correct it"),
        ("[", ", line 1: not JSON (Expecting value); write the file again, it may be cut short"),
        ([], ": no images in it (read as label-studio)"),
    ],
)
def test_damaged_files_are_refused(tasks: Any, message: str, write: Write, refusal: Refusal) -> None:
    file = write(tasks)
    assert refusal(file).startswith(f"{file}{message}")
