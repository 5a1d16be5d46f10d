"""Every format of files: what is written is read again; five labels changed with its own tool are the five that differ."""

import csv
import json
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pycocotools.coco import COCO  # type: ignore[import-untyped]

from aevlp.data import read
from aevlp.data.annotations import COMPLETE, Answer, State
from aevlp.data.dataset import ImageTable
from aevlp.inference.completion.formats import LABEL_FORMATS, LabelFile
from tests.inference.completion.examples import CLASSES, RECORDS, held, record, records_in, score

KINDS = {"csv": "table", "jsonl": "table", "coco": "coco-file", "fiftyone": "fiftyone", "label-studio": "label-studio"}
TABLES = ("csv", "jsonl")
CHANGES = {
    (0, "apple"): State.ACCEPTED,  # was proposed
    (0, "née <b>"): State.REJECTED,  # was proposed
    (4, "zebra"): State.ACCEPTED,  # was unseen
    (4, "apple"): State.REJECTED,  # was given
    (5, "nobody"): State.ACCEPTED,  # was rejected
}


def states_of(table: ImageTable) -> dict[tuple[int, str], State]:
    states = table.annotations.states(table.labels)
    return {(row, name): State(states[row, column]) for row in range(len(states)) for column, name in enumerate(table.classes)}


def changed(before: ImageTable, after: ImageTable) -> dict[tuple[int, str], State]:
    old, new = states_of(before), states_of(after)
    assert old.keys() == new.keys()
    return {cell: state for cell, state in new.items() if state != old[cell]}


def changed_by_name(before: ImageTable, after: ImageTable) -> dict[tuple[int, str], State]:
    """Compare tables that have their images in another order, or not all of them."""
    rows, old = {name: row for row, name in enumerate(before.names)}, states_of(before)
    found = {(rows[after.names[row]], label): state for (row, label), state in states_of(after).items()}
    return {cell: state for cell, state in found.items() if state != old[cell]}


@pytest.mark.parametrize("name", KINDS)
def test_every_state_comes_back(name, written, photos):
    out = written(name)
    table = read(out)
    assert table.kind == KINDS[name] == read(out, KINDS[name]).kind
    assert table.classes == CLASSES
    assert [path.resolve() for path in table.paths] == [(photos / each.name).resolve() for each in RECORDS]
    assert records_in(table) == held(RECORDS, is_table=name in TABLES)


@pytest.mark.parametrize("name", KINDS)
def test_a_second_round_writes_the_same_file(name, written, photos, tmp_path):
    from aevlp.data.records import table_records

    first = written(name)
    table = read(first)
    second = first.with_name(f"second{first.suffix}")
    LABEL_FORMATS[name].write(LabelFile(second, table.root, table.classes), table_records(table))
    assert records_in(read(second)) == records_in(table)


def edit_csv(out: Path) -> None:
    """As in a spreadsheet: names move from one cell of a row to another."""
    with out.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    rows[0] |= {"proposed": "", "accepted": "apple", "negatives": "née <b>"}
    rows[4] |= {"labels": "", "accepted": "zebra", "negatives": "apple"}
    rows[5] |= {"accepted": rows[5]["accepted"] + ";nobody", "negatives": ""}
    with out.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)


def edit_jsonl(out: Path) -> None:
    rows = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    rows[0] |= {"proposed": {}, "accepted": ["apple"], "negatives": ["née <b>"]}
    rows[4] |= {"labels": [], "accepted": ["zebra"], "negatives": ["apple"]}
    rows[5] |= {"accepted": [*rows[5]["accepted"], "nobody"], "negatives": []}
    out.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def edit_coco(out: Path) -> None:
    """By the questions of pycocotools, and its index of annotations."""
    coco = COCO(str(out))
    number = {name: coco.getCatIds(catNms=[name])[0] for name in CLASSES}

    def annotation(image: int, name: str) -> dict:
        return coco.loadAnns(coco.getAnnIds(imgIds=[image], catIds=[number[name]]))[0]

    def remove(image: int, name: str) -> None:
        coco.dataset["annotations"].remove(annotation(image, name))

    def add(image: int, name: str) -> None:
        new = {"id": 1000 + image, "image_id": image, "category_id": number[name], "bbox": [0, 0, 5, 5], "area": 25, "iscrowd": 0}
        coco.dataset["annotations"].append(new | {"state": "accepted"})

    annotation(1, "apple")["state"] = "accepted"
    remove(1, "née <b>")
    coco.imgs[1]["neg_category_ids"].append(number["née <b>"])
    add(5, "zebra")
    remove(5, "apple")
    coco.imgs[5]["neg_category_ids"].append(number["apple"])
    add(6, "nobody")
    coco.imgs[6]["neg_category_ids"].remove(number["nobody"])
    out.write_text(json.dumps(coco.dataset))


def edit_fiftyone(out: Path) -> None:
    content = json.loads(out.read_text(encoding="utf-8"))
    targets = list(content["labels"].values())
    number = {name: place for place, name in enumerate(content["classes"])}

    def target(row: int, name: str) -> dict:
        return next(each for each in targets[row] if each["label"] == number[name])

    target(0, "apple")["attributes"]["state"] = "accepted"
    target(0, "née <b>")["attributes"]["state"] = "rejected"
    targets[4].append({"label": "zebra", "attributes": {"state": "accepted"}})
    target(4, "apple")["attributes"]["state"] = "rejected"
    target(5, "nobody")["attributes"]["state"] = "accepted"
    out.write_text(json.dumps(content))


TICKED = {0: ["zebra", "apple"], 4: ["zebra"], 5: ["apple", "née <b>", "zebra", "nobody"]}


def annotated(tasks: list[dict]) -> list[dict]:
    """Return the tasks as Label Studio's JSON export has them: with ids, and annotations of one account and a skipped one."""
    for row, task in enumerate(tasks):
        result = {"id": "r", "from_name": "labels", "to_name": "image", "type": "choices", "origin": "manual"}
        entry = {
            "id": 70 + row,
            "completed_by": {"id": 2, "email": "carla@example.org", "first_name": "", "last_name": ""},
            "result": [result | {"value": {"choices": TICKED.get(row, [])}}],
            "was_cancelled": row not in TICKED,
            "ground_truth": False,
            "created_at": "2026-03-01T08:00:00.123456Z",
            "updated_at": "2026-03-01T09:00:00.123456Z",
            "lead_time": 3.1,
        }
        task |= {"id": 40 + row, "annotations": [entry] if row != 3 else [], "drafts": [], "meta": {}, "project": 1}
    return tasks


def edit_label_studio(out: Path) -> None:
    out.write_text(json.dumps(annotated(json.loads(out.read_text(encoding="utf-8")))))


EDITS: dict[str, Callable[[Path], None]] = {
    "csv": edit_csv,
    "jsonl": edit_jsonl,
    "coco": edit_coco,
    "fiftyone": edit_fiftyone,
    "label-studio": edit_label_studio,
}


@pytest.mark.parametrize("name", KINDS)
def test_five_changed_labels_are_the_five_that_differ(name, written):
    out = written(name)
    before = read(out)
    EDITS[name](out)
    after = read(out)
    assert changed(before, after) == CHANGES
    assert after.splits == before.splits
    if name == "label-studio":  # an annotator has looked at every choice
        assert after.annotations.complete == {0, 4, 5}
    else:
        assert after.annotations.complete == before.annotations.complete == {5}


def test_a_table_edited_with_pandas(written):
    pandas = pytest.importorskip("pandas")
    out = written("csv")
    before = read(out)
    rows = pandas.read_csv(out, dtype=str, keep_default_na=False)
    rows.loc[0, ["proposed", "accepted", "negatives"]] = ["", "apple", "née <b>"]
    rows.loc[4, ["labels", "accepted", "negatives"]] = ["", "zebra", "apple"]
    rows.loc[5, ["accepted", "negatives"]] = ["née <b>;zebra;nobody", ""]
    rows.to_csv(out, index=False)
    assert changed(before, read(out)) == CHANGES


def test_an_answer_stays_behind_only_with_its_label(written):
    """Who accepted zebra is no longer known once zebra was given, and bob did not accept what he rejected."""
    out = written("csv")
    text = out.read_text(encoding="utf-8")
    out.write_text(text.replace(",apple,née <b>;zebra,nobody,", ",apple;zebra,née <b>,nobody,"), encoding="utf-8")
    table = read(out)
    assert states_of(table)[5, "zebra"] == State.OBSERVED
    assert (5, CLASSES.index("zebra")) not in table.annotations.answers


def test_annotations_of_label_studio_keep_who_and_when(written):
    out = written("label-studio")
    edit_label_studio(out)
    table = read(out)
    carla = Answer("carla@example.org", "2026-03-01T09:00:00+00:00")
    found = records_in(table)
    assert found[0].answers == dict.fromkeys(("apple", "née <b>", COMPLETE), carla)
    # Repeated answers stay those of the first person.
    assert {label for label, answer in found[5].answers.items() if answer == carla} == {"nobody"}
    assert found[5].answers[COMPLETE] == RECORDS[5].answers[COMPLETE]


def test_label_studio_s_own_converter_to_json_min(written, tmp_path):
    converter = pytest.importorskip("label_studio_sdk.converter")
    out = written("label-studio")
    before = read(out)
    edit_label_studio(out)
    (tmp_path / "min").mkdir()
    converter.Converter(str(out.with_suffix(".xml")), str(tmp_path)).convert_to_json_min(str(out), tmp_path / "min", is_dir=False)
    exported = out.with_name("exported.json")
    exported.write_bytes((tmp_path / "min" / "result.json").read_bytes())
    after = read(exported)
    assert 0 < len(after.names) < len(before.names)  # Label Studio leaves out the tasks that were only skipped
    assert changed_by_name(before, after) == CHANGES


def test_fiftyone_s_own_importer_and_exporter(written):
    """Both work without FiftyOne's database."""
    fiftyone = pytest.importorskip("fiftyone")
    from fiftyone.utils.data.exporters import FiftyOneImageClassificationDatasetExporter  # type: ignore[import-not-found]
    from fiftyone.utils.data.importers import FiftyOneImageClassificationDatasetImporter  # type: ignore[import-not-found]

    out = written("fiftyone")
    importer = FiftyOneImageClassificationDatasetImporter(labels_path=str(out))
    with importer:
        labels = {path: label for path, _, label in importer}
        classes = importer.get_dataset_info()["classes"]
    for (row, name), state in CHANGES.items():
        targets = next(label for path, label in labels.items() if path.endswith(RECORDS[row].name)).classifications
        target = next((target for target in targets if target.label == name), None)
        if target is None:
            targets.append(fiftyone.Classification(label=name, state=state.name.lower()))
        else:
            target["state"] = state.name.lower()
    exported = out.with_name("exported.json")
    exporter = FiftyOneImageClassificationDatasetExporter(
        labels_path=str(exported),
        classes=classes,
        export_media=False,
        abs_paths=True,
        include_confidence=True,
        include_attributes=True,
    )
    with exporter:
        for path, label in labels.items():
            exporter.export_sample(path, label)
    after = read(exported)
    assert len(after.names) == len(RECORDS)
    assert changed_by_name(read(out), after) == CHANGES


def test_label_studio_s_own_validators(written):
    interface = pytest.importorskip("label_studio_sdk.label_interface")
    out = written("label-studio")
    config = interface.LabelInterface(out.with_suffix(".xml").read_text(encoding="utf-8"))
    config.validate()
    for task in annotated(json.loads(out.read_text(encoding="utf-8"))):
        assert config.validate_task({"data": task["data"]}, validate_regions_only=False)
        assert all(config.validate_prediction(each) for each in task["predictions"])
        assert all(config.validate_annotation(each) for each in task["annotations"])


ODD = st.sampled_from(" \t\n\r,;|=\"'\\<>&%#?:*éß\u2028\u3000\ufeff.-ab")
NAMES = st.lists(st.text(ODD, min_size=1, max_size=6).map("{}.jpg".format), min_size=1, max_size=4, unique=True)
LETTERS = st.sampled_from(" ,;|=\"'\\<>&%#?:é.-ab")
CLASS_NAMES = st.text(LETTERS, min_size=1, max_size=5).map(str.strip).filter(bool)
PEOPLE = st.text(st.sampled_from(" ;|=@%\n\"'é,ab"), max_size=6).map(str.strip)
STATES = st.sampled_from([*State])


@pytest.mark.parametrize("name", ["csv", "jsonl", "fiftyone", "label-studio"])
@settings(max_examples=60, deadline=None)
@given(names=NAMES, classes=st.lists(CLASS_NAMES, min_size=2, max_size=4, unique=True), data=st.data())
def test_any_names_come_back(name, names, classes, data):
    if name == "csv":
        classes = list(dict.fromkeys(each.replace(";", "+").replace("|", "+") for each in classes))
        classes += ["one more"] * (len(classes) < 2)
    records = []
    for image in names:
        states = {label: data.draw(STATES) for label in classes}
        of = {state: [label for label in classes if states[label] == state] for state in State}
        who = data.draw(PEOPLE)
        known = record(
            image,
            data.draw(st.sampled_from(["train", "val", "test"])),
            of[State.OBSERVED],
            of[State.REJECTED],
            of[State.ACCEPTED],
            is_complete=data.draw(st.booleans()),
            proposed={label: score(0.9, teacher=0.8) for label in of[State.PROPOSED]},
        )
        answers = {label: Answer(who, "2026-01-31T10:00:00+00:00") for label in (*known.accepted, *known.rejected, COMPLETE)}
        records.append(replace(known, answers=answers))
    with tempfile.TemporaryDirectory() as folder:
        root, out = Path(folder, "my photos"), Path(folder, "my photos", f"completed{LABEL_FORMATS[name].suffix}")
        root.mkdir()
        for image in names:
            (root / image).touch()
        file = LabelFile(out, root, tuple(classes))
        LABEL_FORMATS[name].check(file)
        LABEL_FORMATS[name].write(file, records)
        table = read(out)
    assert table.names == tuple(names)
    assert table.classes == tuple(classes)
    assert records_in(table) == held(records, classes)
