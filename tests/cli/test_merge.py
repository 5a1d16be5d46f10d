"""`aevlp merge`: answers of several people and tools are joined, and contradictions are listed."""

import csv
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from aevlp.data import read
from aevlp.data.annotations import COMPLETE, Answer, State
from aevlp.data.answers import ACCEPTED, REJECTED, AnswerStore, GivenAnswer
from aevlp.data.records import LabelRecord, table_records
from aevlp.inference.completion.formats import LABEL_FORMATS
from aevlp.inference.completion.merge import merge_labels
from tests.cli.run import aevlp, refused

NAMES = ("dog/1.png", "dog/2.png", "cat/1.png", "cow/9.png")


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """A folder per class: dog 1 and 2, cat 1, cow 9."""
    for number, name in enumerate(NAMES):
        (tmp_path / "photos" / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8), (number, 0, 0)).save(tmp_path / "photos" / name)
    return tmp_path / "photos"


@pytest.fixture
def store(tmp_path: Path) -> Callable[..., Path]:
    """Writes a store with answers (image, label, value) of one person."""

    def write(path: str, who: str, *answers: tuple[str, str, int]) -> Path:
        (tmp_path / path).parent.mkdir(exist_ok=True)
        AnswerStore(tmp_path / path).record(who, [GivenAnswer(*answer) for answer in answers], kind="image")
        return tmp_path / path

    return write


def merged(out: Path) -> dict[str, LabelRecord]:
    """Return the records by the last two parts of their names."""
    return {"/".join(record.name.split("/")[-2:]): record for record in table_records(read(out))}


def conflicts(out: Path) -> list[dict[str, str]]:
    with out.with_name(f"{out.stem}-conflicts.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_stores_of_two_people(capsys, photos, store, tmp_path):
    ann = store("photos/ann.sqlite", "ann", ("dog/1.png", "cat", ACCEPTED), ("dog/2.png", "cow", REJECTED))
    bob = store("photos/bob.sqlite", "bob", ("cat/1.png", "cat", REJECTED), ("cow/9.png", COMPLETE, ACCEPTED))
    out = tmp_path / "merged.jsonl"
    answer = aevlp(capsys, "merge", photos, ann, bob, "--out", out)
    assert answer.code == 0, answer
    lines = answer.out.splitlines()
    assert lines[:4] == [
        "4 images, 3 classes",
        "ann.sqlite: 2 answers",
        "bob.sqlite: 2 answers",
        "new: 1 labels accepted, 2 rejected, 1 images complete",
    ]
    assert lines[-3:] == [f"written: {out}", f"next: aevlp check {out}", f"      aevlp train {out} --out RUN"]
    found = merged(out)
    assert (found["dog/1.png"].observed, found["dog/1.png"].accepted) == (("dog",), ("cat",))
    assert found["dog/1.png"].answers["cat"].who == "ann"
    assert found["dog/2.png"].rejected == ("cow",)
    assert (found["cat/1.png"].observed, found["cat/1.png"].rejected) == ((), ("cat",))  # a person corrects what was given
    assert found["cow/9.png"].is_complete
    assert not (tmp_path / "merged-conflicts.csv").exists()


def test_contradictions_are_listed_and_stay_as_they_are(capsys, photos, store, tmp_path):
    ann = store("photos/ann.sqlite", "ann", *((name, "cow", ACCEPTED) for name in NAMES[:3]), ("dog/1.png", "cat", ACCEPTED))
    bob = store("photos/bob.sqlite", "bob", *((name, "cow", REJECTED) for name in NAMES[:3]), ("dog/1.png", "cat", ACCEPTED))
    out = tmp_path / "merged.csv"
    answer = aevlp(capsys, "merge", photos, ann, bob, "--out", out)
    assert answer.code == 0
    assert f"3 conflicts; these stay as they are in {photos}:" in answer.out
    assert "  dog/1.png, cow: accepted (ann, ann.sqlite); rejected (bob, bob.sqlite)" in answer.out
    assert f"written: {out}, {tmp_path / 'merged-conflicts.csv'}" in answer.out
    assert merged(out)["dog/1.png"].accepted == ("cat",)
    assert all("cow" not in (*record.confirmed, *record.rejected) for name, record in merged(out).items() if name in NAMES[:3])
    listed = conflicts(out)
    assert [(row["image"], row["label"], row["answer"], row["source"], row["who"]) for row in listed[:2]] == [
        ("photos/cat/1.png", "cow", "accepted", "ann.sqlite", "ann"),
        ("photos/cat/1.png", "cow", "rejected", "bob.sqlite", "bob"),
    ]
    assert all(row["when"].startswith("20") for row in listed)
    assert len(listed) == 6


def test_many_conflicts_are_not_all_shown(photos, store, tmp_path):
    cells = [(name, label) for name in NAMES for label in ("dog", "cat")]
    ann = store("photos/ann.sqlite", "ann", *((*cell, ACCEPTED) for cell in cells))
    bob = store("photos/bob.sqlite", "bob", *((*cell, REJECTED) for cell in cells))
    text = merge_labels(photos, [ann, bob], tmp_path / "x.jsonl").summary()
    assert text.count("(ann, ann.sqlite)") == 5
    assert f"  ... all of them are in {tmp_path / 'x-conflicts.csv'}" in text


def test_answers_in_the_folder_of_the_image_set_count_as_a_source(photos, store, tmp_path):
    store("photos/answers.sqlite", "ann", ("dog/1.png", "cat", ACCEPTED))
    bob = store("photos/bob.sqlite", "bob", ("dog/1.png", "cat", REJECTED))
    done = merge_labels(photos, [bob], tmp_path / "x.jsonl")
    assert len(done.joined.conflicts) == 1
    assert merged(tmp_path / "x.jsonl")["dog/1.png"].accepted == ("cat",)
    twice = merge_labels(photos, [photos / "answers.sqlite"], tmp_path / "y.jsonl")
    assert not twice.joined.conflicts
    assert merged(tmp_path / "y.jsonl")["dog/1.png"].accepted == ("cat",)


class TestCompleteness:
    """Whoever calls an image complete says that it has no other label."""

    def test_contradicts_another_label(self, photos, store, tmp_path):
        ann = store("photos/ann.sqlite", "ann", ("dog/1.png", COMPLETE, ACCEPTED))
        bob = store("photos/bob.sqlite", "bob", ("dog/1.png", "cat", ACCEPTED))
        merge_labels(photos, [ann, bob], tmp_path / "x.jsonl")
        assert [(row["label"], row["answer"], row["who"]) for row in conflicts(tmp_path / "x.jsonl")] == [
            ("cat", "accepted", "bob"),
            ("cat", "complete without it", "ann"),
        ]
        assert not merged(tmp_path / "x.jsonl")["dog/1.png"].is_complete

    def test_contradicts_the_rejection_of_a_given_label(self, photos, store, tmp_path):
        ann = store("photos/ann.sqlite", "ann", ("dog/1.png", COMPLETE, ACCEPTED))
        bob = store("photos/bob.sqlite", "bob", ("dog/1.png", "dog", REJECTED))
        merge_labels(photos, [ann, bob], tmp_path / "x.jsonl")
        assert [row["answer"] for row in conflicts(tmp_path / "x.jsonl")] == ["rejected", "complete with it"]
        assert merged(tmp_path / "x.jsonl")["dog/1.png"].observed == ("dog",)

    def test_makes_no_answer_of_a_given_label(self, photos, store, tmp_path):
        ann = store("photos/ann.sqlite", "ann", ("dog/1.png", COMPLETE, ACCEPTED), ("dog/1.png", "cat", ACCEPTED))
        merge_labels(photos, [ann], tmp_path / "x.jsonl")
        found = merged(tmp_path / "x.jsonl")["dog/1.png"]
        assert (found.observed, found.accepted, found.is_complete) == (("dog",), ("cat",), True)

    def test_of_a_file_that_lacks_classes_does_not_count(self, photos, tmp_path):
        (tmp_path / "few").mkdir()
        (tmp_path / "few" / "classes.txt").write_text("dog\ncat\n")
        (tmp_path / "few" / "x.csv").write_text("image,labels,complete\n../photos/dog/1.png,dog,1\n")
        done = merge_labels(photos, [tmp_path / "few" / "x.csv"], tmp_path / "x.jsonl")
        assert "x.csv: 1 images are called complete, but the file lacks 1 classes; they stay as they are" in done.summary()
        assert not done.table.annotations.complete


def test_audited_images_become_validation_images(photos, store, tmp_path):
    ann = store("photos/ann.sqlite", "ann", ("dog/1.png", COMPLETE, ACCEPTED))
    AnswerStore(ann).keep_audit(["dog/1.png", "dog/2.png"])
    merge_labels(photos, [ann], tmp_path / "x.jsonl")
    assert [merged(tmp_path / "x.jsonl")[name].split for name in NAMES] == ["val", "train", "train", "train"]


@pytest.mark.parametrize("name", [name for name, format in LABEL_FORMATS.items() if format.suffix])
def test_changed_files_of_every_format(name, photos, store, tmp_path, capsys):
    """An untouched file says nothing; a changed one says what was changed, also from another folder."""
    base = store("photos/base.sqlite", "ann", ("dog/1.png", "cat", ACCEPTED))
    data = tmp_path / "base.jsonl"
    merge_labels(photos, [base], data)
    out = tmp_path / "sent" / f"labels{LABEL_FORMATS[name].suffix}"
    merge_labels(data, [data], out, out_format=name)
    untouched = merge_labels(data, [out], tmp_path / "same.jsonl")
    assert (untouched.joined.changed.total(), untouched.joined.conflicts) == (0, ())
    _accept_cow(name, out)
    (tmp_path / "elsewhere" / "deep").mkdir(parents=True)
    moved = Path(shutil.copy(out, tmp_path / "elsewhere" / "deep"))
    answer = aevlp(capsys, "merge", data, moved, "--out", tmp_path / "new.jsonl")
    assert answer.code == 0, answer
    assert "new: 1 labels accepted, 0 rejected" in answer.out
    assert merged(tmp_path / "new.jsonl")["dog/2.png"].accepted == ("cow",)
    assert merged(tmp_path / "new.jsonl")["dog/1.png"].answers["cat"].who == "ann"


def _accept_cow(name: str, file: Path) -> None:
    """Accept the label cow of dog/2.png, in the format's own way."""
    if name == "csv":
        with file.open(newline="") as stream:
            rows = list(csv.DictReader(stream))
        row = next(row for row in rows if row["image"].endswith("dog/2.png"))
        row["accepted"] = "cow"
        with file.open("w", newline="") as stream:
            writer = csv.DictWriter(stream, rows[0])
            writer.writeheader()
            writer.writerows(rows)
        return
    if name == "jsonl":
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        next(line for line in lines if line["image"].endswith("dog/2.png"))["accepted"] = ["cow"]
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return
    content = json.loads(file.read_text())
    if name == "coco":
        image = next(image["id"] for image in content["images"] if image["file_name"].endswith("dog/2.png"))
        cow = next(category["id"] for category in content["categories"] if category["name"] == "cow")
        content["annotations"].append({"id": 99, "image_id": image, "category_id": cow})
    elif name == "fiftyone":
        content["labels"] = {path.replace("/photos/", "/other/"): targets for path, targets in content["labels"].items()}
        targets = next(targets for path, targets in content["labels"].items() if path.endswith("dog/2.png"))
        targets.append({"label": "cow"})
    else:
        task = next(task for task in content if task["data"]["image"].endswith("dog/2.png"))
        result = {"from_name": "labels", "to_name": "image", "type": "choices", "value": {"choices": ["dog", "cow"]}}
        task["annotations"] = [{"completed_by": 1, "result": [result]}]
    file.write_text(json.dumps(content))


def test_two_annotators_of_one_file_are_two_sources(photos, tmp_path):
    def annotation(by: int, *choices: str) -> dict:
        result = {"from_name": "labels", "to_name": "image", "type": "choices", "value": {"choices": choices}}
        return {"completed_by": by, "result": [result]}

    both = [annotation(1, "dog", "cat"), annotation(2, "dog")]
    tasks = [{"id": 1, "data": {"image": "s3://b/dog/1.png"}, "annotations": both}]
    (tmp_path / "tasks.json").write_text(json.dumps(tasks))
    merge_labels(photos, [tmp_path / "tasks.json"], tmp_path / "x.jsonl")
    assert [(row["label"], row["answer"], row["who"]) for row in conflicts(tmp_path / "x.jsonl")] == [
        ("cat", "accepted", "1"),
        ("cat", "complete without it", "2"),
    ]


def test_an_annotator_who_does_not_tick_a_given_label_rejects_it(photos, tmp_path):
    """Also where the project of Label Studio knows nothing of the given labels."""
    tasks = [{"id": 1, "data": {"image": "/x/dog/1.png"}, "annotations": [{"completed_by": 1, "result": []}]}]
    (tmp_path / "tasks.json").write_text(json.dumps(tasks))
    merge_labels(photos, [tmp_path / "tasks.json"], tmp_path / "x.jsonl")
    found = merged(tmp_path / "x.jsonl")["dog/1.png"]
    assert (found.observed, found.rejected, found.is_complete) == ((), ("dog",), True)
    assert found.answers["dog"] == Answer("1", "")


def test_answers_about_other_images_and_classes_are_counted(photos, store, tmp_path):
    ann = store("photos/ann.sqlite", "ann", ("dog/1.png", "sofa", ACCEPTED), ("dog/7.png", "cat", ACCEPTED))
    done = merge_labels(photos, [ann], tmp_path / "x.jsonl")
    assert f"ann.sqlite: 0 answers; 2 about images or classes that {photos} does not have" in done.summary()


def test_an_image_that_exists_but_is_not_in_the_set_is_not_taken_for_another(photos, store, tmp_path):
    (tmp_path / "other" / "dog").mkdir(parents=True)
    shutil.copy(photos / "dog" / "2.png", tmp_path / "other" / "dog" / "1.png")
    ann = store("other/ann.sqlite", "ann", ("dog/1.png", "cat", ACCEPTED))
    assert merge_labels(photos, [ann], tmp_path / "x.jsonl").sources[0].foreign == 1
    shutil.rmtree(tmp_path / "other" / "dog")  # the same store, sent by somebody whose images are elsewhere
    merge_labels(photos, [ann], tmp_path / "y.jsonl")
    assert merged(tmp_path / "y.jsonl")["dog/1.png"].accepted == ("cat",)


def test_proposals_of_a_file_are_no_answers(photos, tmp_path):
    row = {"image": "photos/dog/1.png", "labels": ["dog"], "proposed": {"cat": {"confidence": 0.9}}, "accepted": []}
    (tmp_path / "proposed.jsonl").write_text(json.dumps(row))
    done = merge_labels(photos, [tmp_path / "proposed.jsonl"], tmp_path / "x.jsonl")
    assert not done.sources[0].statements
    data = merge_labels(tmp_path / "proposed.jsonl", [photos], tmp_path / "y.jsonl")
    states = data.table.annotations.states(data.table.labels)
    assert states[0, data.table.classes.index("cat")] == State.PROPOSED  # those of DATA stay


def test_refusals_leave_nothing_behind(capsys, photos, store, tmp_path):
    ann = store("photos/ann.sqlite", "ann", ("dog/1.png", "cat", ACCEPTED))
    out = tmp_path / "new" / "x.jsonl"
    assert refused(capsys, "merge", photos, photos / "no.sqlite", "--out", out) == (
        f"{photos}/no.sqlite: no such file or folder; check the path"
    )
    (tmp_path / "x.json").write_text("[")
    assert refused(capsys, "merge", photos, ann, tmp_path / "x.json", "--out", out).startswith(
        f"{tmp_path}/x.json, line 1: not JSON"
    )
    assert refused(capsys, "merge", photos, ann, "--out", tmp_path / "x.json").startswith(
        f"--out {tmp_path}/x.json: several formats"
    )
    assert not out.parent.exists()
    (tmp_path / "y.jsonl").write_text("mine")
    assert refused(capsys, "merge", photos, ann, "--out", tmp_path / "y.jsonl") == (
        f"--out {tmp_path}/y.jsonl: exists; remove it or choose another name"
    )
    (tmp_path / "z-conflicts.csv").write_text("mine")
    assert refused(capsys, "merge", photos, ann, "--out", tmp_path / "z.jsonl") == (
        f"--out {tmp_path}/z.jsonl: {tmp_path}/z-conflicts.csv, the list of conflicts, exists; "
        "move it away or choose another name"
    )
    assert (tmp_path / "z-conflicts.csv").read_text() == "mine"
    assert not (tmp_path / "z.jsonl").exists()


def test_conflicts_are_not_left_without_the_file(photos, store, tmp_path):
    """An image that cannot be read stops a COCO file after the conflicts are written."""
    ann = store("photos/ann.sqlite", "ann", ("dog/1.png", "cat", ACCEPTED))
    bob = store("photos/bob.sqlite", "bob", ("dog/1.png", "cat", REJECTED))
    (photos / "cat" / "1.png").write_bytes(b"no image")
    with pytest.raises(Exception, match="replace or remove the file"):
        merge_labels(photos, [ann, bob], tmp_path / "x.json", out_format="coco")
    assert {path.name for path in tmp_path.iterdir()} == {"photos"}


def test_a_merge_that_was_killed_after_its_conflicts_goes_on(capsys, photos, store, tmp_path):
    ann = store("photos/ann.sqlite", "ann", ("dog/1.png", "cat", ACCEPTED))
    bob = store("photos/bob.sqlite", "bob", ("dog/1.png", "cat", REJECTED))
    words = ["merge", photos, ann, bob, "--out", tmp_path / "merged.csv"]
    assert aevlp(capsys, *words).code == 0
    whole = (tmp_path / "merged.csv").read_bytes()
    (tmp_path / "merged.csv").unlink()  # only the list of conflicts had been written
    assert aevlp(capsys, *words).code == 0
    assert (tmp_path / "merged.csv").read_bytes() == whole
