"""FiftyOne: the documented form of FiftyOneImageClassificationDataset with multilabel targets and absolute paths."""

import json
from pathlib import Path

from tests.inference.completion.examples import BOB, CLASSES, RECORDS, record


def test_classes_and_targets(written, photos):
    found = json.loads(written("fiftyone").read_text(encoding="utf-8"))
    assert set(found) == {"classes", "labels", "images"}
    assert found["classes"] == list(CLASSES)
    assert all(Path(path).is_absolute() for path in found["labels"])
    targets = {Path(path).relative_to(photos.resolve()).as_posix(): value for path, value in found["labels"].items()}
    assert list(targets) == [image.name for image in RECORDS]
    assert targets["a/one.png"] == [
        {"label": 0, "confidence": 1.0, "attributes": {"state": "observed", "doubted": 0.04, "teacher": 0.05, "model": 0.03}},
        {"label": 1, "confidence": 0.93, "attributes": {"state": "proposed", "teacher": 0.9, "model": 0.95}},
        {"label": 2, "confidence": 0.81, "attributes": {"state": "proposed", "teacher": 0.7, "model": 0.92}},
    ]
    assert targets["six.png"][-1] == {
        "label": 3,
        "confidence": 0.0,
        "attributes": {"state": "rejected", "by": BOB.who, "at": BOB.at},
    }
    assert [target["attributes"]["state"] for target in targets["six.png"][:-1]] == ["observed", "accepted", "accepted"]
    assert targets["nothing.png"] is None  # how the format says that an image is unlabelled
    for value in targets.values():
        for target in value or ():
            assert set(target) == {"label", "confidence", "attributes"}
            assert isinstance(found["classes"][target["label"]], str)
    assert list(found["images"]) == list(found["labels"])
    assert list(found["images"].values())[-2:] == [
        {"split": "train", "complete": False},
        {"split": "train", "complete": True, "by": BOB.who, "at": BOB.at},
    ]


def test_paths_are_absolute_whatever_the_set_was_called(written, photos, tmp_path, monkeypatch):
    monkeypatch.chdir(photos)
    found = json.loads(written("fiftyone", Path("../x.json"), records=[record("a/../nothing.png")]).read_text())
    assert list(found["labels"]) == [str(photos.resolve() / "nothing.png")]
