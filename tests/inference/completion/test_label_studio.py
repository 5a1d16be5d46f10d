"""Label Studio: that the tasks have the documented form, fit the interface, and lead to the images."""

import json
import os
from pathlib import Path
from urllib.parse import parse_qs, urlsplit
from xml.etree import ElementTree

import pytest

from aevlp.core.errors import UserError
from aevlp.inference.completion.formats import LABEL_FORMATS, LabelFile
from tests.inference.completion.examples import ANN, BOB, CLASSES, RECORDS, record


def tasks_of(out: Path) -> list[dict]:
    return json.loads(out.read_text(encoding="utf-8"))


def refuse_other_than_documented(tasks, interface: ElementTree.Element) -> None:
    """The rules of https://labelstud.io/guide/tasks and /guide/predictions for tasks with choices."""
    data = {tag.get("value", "").removeprefix("$") for tag in interface.iter() if tag.get("value", "").startswith("$")}
    controls = {tag.get("name"): tag for tag in interface.iter() if tag.get("toName")}
    objects = {tag.get("name") for tag in interface.iter() if tag.get("name")} - set(controls)
    assert isinstance(tasks, list)
    for task in tasks:
        assert set(task) == {"data", "predictions"}
        assert data <= set(task["data"])
        for prediction in task["predictions"]:
            assert set(prediction) == {"model_version", "score", "result"}
            assert isinstance(prediction["model_version"], str)
            assert 0 <= prediction["score"] <= 1
            assert len({result["id"] for result in prediction["result"]}) == len(prediction["result"]) == 1
            for result in prediction["result"]:
                assert set(result) == {"id", "from_name", "to_name", "type", "value"}
                control = controls[result["from_name"]]
                assert result["to_name"] == control.get("toName")
                assert result["to_name"] in objects
                assert result["type"] == control.tag.lower() == "choices"
                allowed = [choice.get("value") for choice in control]
                chosen = result["value"]["choices"]
                assert len(set(chosen)) == len(chosen) > 0
                assert set(chosen) <= set(allowed)
                assert control.get("choice") == "multiple"


def test_tasks_have_the_documented_form_and_fit_the_interface(written):
    out = written("label-studio")
    refuse_other_than_documented(tasks_of(out), ElementTree.parse(out.with_suffix(".xml")).getroot())


def test_interface_offers_every_class_in_order(written):
    classes = ['"quoted"', "<b>&amp;", "it's", "née", "a  b"]
    out = written("label-studio", records=[record("nothing.png", observed=classes)], classes=classes)
    interface = ElementTree.parse(out.with_suffix(".xml")).getroot()
    assert [choice.get("value") for choice in interface.iter("Choice")] == classes
    refuse_other_than_documented(tasks_of(out), interface)


def test_prediction_has_known_and_proposed_labels_and_the_score_of_the_least_sure(written):
    tasks = tasks_of(written("label-studio"))
    choices = [[result["value"]["choices"] for p in task["predictions"] for result in p["result"]] for task in tasks]
    assert choices == [
        [["zebra", "apple", "née <b>"]],
        [],
        [["apple", "née <b>"]],
        [],
        [["apple"]],
        [["apple", "née <b>", "zebra"]],
    ]
    assert [p["score"] for task in tasks for p in task["predictions"]] == [0.04, 1.0, 1.0, 0.1]
    assert tasks[0]["data"]["summary"] == "given: zebra | proposed: apple=0.93;née <b>=0.81 | doubted: zebra=0.04"
    assert tasks[3]["data"]["summary"] == "nothing given or proposed"
    assert tasks[5]["data"]["summary"] == (
        "given: apple | accepted: née <b>;zebra | rejected: nobody | doubted: zebra=0.1 | complete: yes"
    )


def test_data_has_the_states(written):
    data = tasks_of(written("label-studio"))[5]["data"]
    assert data | {"image": "", "summary": ""} == {
        "image": "",
        "split": "train",
        "summary": "",
        "given": ["apple"],
        "accepted": ["née <b>", "zebra"],
        "rejected": ["nobody"],
        "proposed": {},
        "doubted": {"zebra": {"confidence": 0.1, "teacher": 0.1}},
        "complete": True,
        "answers": {
            "née <b>": {"who": "", "at": ""},
            "zebra": {"who": ANN.who, "at": ANN.at},
            "nobody": {"who": BOB.who, "at": BOB.at},
            "": {"who": BOB.who, "at": BOB.at},
        },
    }


def test_addresses_lead_to_the_images(written, photos):
    """As Label Studio serves them, with the folder that the image set is in as its document root."""
    name = os.fsdecode(b"caf\xe9 +&.png")
    (photos / name).touch()
    records = [*RECORDS, record(name)]
    for task, image in zip(tasks_of(written("label-studio", records=records)), records, strict=True):
        address = urlsplit(task["data"]["image"])
        assert (address.scheme, address.netloc, address.path) == ("", "", "/data/local-files/")
        [path] = parse_qs(address.query, errors="surrogateescape")["d"]
        assert (photos.parent / path).samefile(photos / image.name)


@pytest.mark.parametrize(
    ("prefix", "address"),
    [
        ("https://example.org/photos/", "https://example.org/photos/%205%20%25%20%23%3F%3D%C3%A9.png"),
        ("s3://bucket/photos/", "s3://bucket/photos/ 5 % #?=é.png"),
    ],
)
def test_other_prefix(prefix, address, written):
    tasks = tasks_of(written("label-studio", image_prefix=prefix))
    assert tasks[4]["data"]["image"] == address


def test_other_interface_is_refused_and_kept(tmp_path, written):
    (tmp_path / "x.xml").write_text("<View/>")
    with pytest.raises(UserError) as caught:
        LABEL_FORMATS["label-studio"].check(LabelFile(tmp_path / "x.json", tmp_path, CLASSES))
    assert str(caught.value) == (
        f"--out {tmp_path / 'x.json'}: the labelling interface is written to {tmp_path / 'x.xml'}, which exists; "
        "choose another name"
    )
    assert (tmp_path / "x.xml").read_text() == "<View/>"


def test_same_interface_serves_again(written):
    first = written("label-studio")
    first.unlink()
    assert len(tasks_of(written("label-studio", first))) == len(RECORDS)
