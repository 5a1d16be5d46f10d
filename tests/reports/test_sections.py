from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from aevlp.core.errors import UserError
from aevlp.reports import charts
from aevlp.reports import run_page as module
from aevlp.reports.evidence import ExampleGrid
from aevlp.reports.run_page import write_report
from tests.reports.made import evidence, history, picture, thresholds, write_run
from tests.reports.pages import read, section

CLASSES = ("apple", "boat", "car", "dog", "egg", "fish")


@pytest.fixture(autouse=True)
def no_drawings(monkeypatch):
    """The words of a page are the same without its charts, and come sooner."""
    monkeypatch.setattr(charts, "render_svg", lambda name, draw: f'<svg class="{name}"></svg>')


@pytest.fixture
def image(tmp_path):
    return picture(tmp_path / "images" / "one.jpg")


def test_the_table_of_classes_has_precision_recall_and_f1(tmp_path, image):
    support, given, hits = np.array([[10, 0, 5, 8, 8, 8], [20, 0, 0, 8, 8, 8], [5, 0, 0, 8, 8, 8]])
    made = evidence(CLASSES, image, support=support, given=given, hits=hits)
    rows = section(read(write_run(tmp_path / "run", made)), "classes").all("tbody")[0].all("tr")
    cells = {row.all("th")[0].text: [cell.text for cell in row.all("td")] for row in rows}
    assert cells["apple"][2] == "10"
    assert cells["apple"][4:] == ["25.0", "50.0", "33.3"]
    assert cells["boat"][4:] == ["–", "–", "–"]  # noqa: RUF001
    assert cells["car"][4:] == ["–", "0.0", "0.0"]  # noqa: RUF001
    assert cells["dog"][4:] == ["100.0", "100.0", "100.0"]


def test_of_very_many_classes_the_best_and_the_worst_are_listed(tmp_path, image, monkeypatch):
    monkeypatch.setattr(module, "MOST_ROWS", 4)
    made = evidence(CLASSES, image)
    classes = section(read(write_run(tmp_path / "run", made)), "classes")
    names = [row.all("th")[0].text for row in classes.all("tbody")[0].all("tr")]
    ranked = [CLASSES[c] for c in np.argsort(-made.ap)]
    assert names == [*ranked[:2], *ranked[-2:]]
    assert "The table has the 4 classes of 6 with the best and the worst AP." in classes.text


@pytest.mark.parametrize(
    ("method", "reason"),
    [
        ("an", "an uses no pseudo-labels."),
        ("em-apl", "em-apl adds no binary pseudo-labels to the observed labels."),
        ("aevlp", "the true labels of the training images are not known"),
    ],
)
def test_without_pseudo_label_figures_their_section_says_why(tmp_path, image, method, reason):
    page = read(write_run(tmp_path / "run", evidence(CLASSES, image), lines=history(pseudo=False), method=method))
    part = section(page, "pseudo-labels")
    assert f"Left out: {reason}" in part.text
    assert not part.all("svg")
    assert "Pseudo-label precision" not in page.text


def test_incomplete_labels_are_said_to_be(tmp_path, image):
    made = evidence(CLASSES, image, split="val", is_complete=False, reliability=None)
    made = replace(made, found=replace(made.found, agreed=None), teacher=replace(made.teacher, agreed=None))
    limits = thresholds(CLASSES, basis="estimated", calibration=None)
    unknown: dict[str, Any] = dict.fromkeys(("mAP", "mAP_present", "per_class_AP", "labels"))
    images = {"train": 1600, "val": 60}
    own: dict[str, Any] = {
        "basis": "estimated",
        "labels_per_image": 1.5,
        "macro_F1": 31.25,
        "precision": 33.0,
        "recall": 34.0,
        "macro_F1_at_half": 32.5,
    }
    unknown |= {"labels_on_val": own, "val_labels": "incomplete", "images": images}
    page = read(write_run(tmp_path / "run", made, limits, **unknown))
    assert "an mAP of 62.49 of observed labels (a lower bound)" in page.text
    assert "an estimated macro F1 of 31.25 on 60 validation images" in page.text
    assert "estimated from observed validation labels, for 1.50 labels per image; 32.50 at 0.5" in page.text
    assert "an estimate of 1.75 labels per image" in page.text
    assert "Left out: this needs validation or test images with complete labels" in section(page, "reliability").text
    assert "whether they are correct is not known" in section(page, "found").text
    assert "those that the trained model doubts most" in section(page, "teacher").text
    assert "Test mAP" not in page.text


def test_classes_are_not_ranked_by_incomplete_labels(tmp_path, image):
    made = evidence(CLASSES, image, split="val", is_complete=False, reliability=None)
    made = replace(made, observed=np.array([5, 9, 7, 1, 3, 0]), support=np.zeros(6, int))
    unknown: dict[str, Any] = dict.fromkeys(("mAP", "mAP_present", "per_class_AP", "labels"))
    page = read(write_run(tmp_path / "run", made, **unknown, val_labels="incomplete"))
    assert made.worst  # there would be lists of the best and the worst
    for word in ("best class", "Best classes", "Worst classes", "best third", "the worst AP"):
        assert word not in page.text
    assert "precision needs complete labels" in section(page, "curves").text
    classes = section(page, "classes")
    heads = [head.text.strip() for head in classes.all("thead")[0].all("button")]
    assert "AP, observed labels only" in heads
    assert "F1" not in heads
    assert not classes.all("th", **{"aria-sort": "descending"})
    names = [row.all("th")[0].text for row in classes.all("tbody")[0].all("tr")]
    assert names == [CLASSES[c] for c in (1, 2, 0, 4, 3, 5)]


def test_warnings_stand_above_the_first_figure(tmp_path, image):
    warned = "This model is no better than chance: do not use it."
    baselines = {"labels": "complete", "model": 16.2, "chance": 16.9, "teacher": 41.5}
    page = read(write_run(tmp_path / "run", evidence(CLASSES, image), warnings=[warned], baselines=baselines))
    (warning,) = page.all("p", class_="warning")
    assert warning.text == f"Warning. {warned}"
    assert page.text.index(warned) < page.text.index("reaches an mAP")
    assert "Its validation mAP is 16.2; chance has 16.9 and the teacher alone 41.5." in page.text
    assert not read(write_run(tmp_path / "good", evidence(CLASSES, image))).all("p", class_="warning")


def test_a_test_split_shows_its_reliability_without_a_calibration(tmp_path, image):
    made = evidence(CLASSES, image)
    assert made.reliability is not None
    run = write_run(
        tmp_path / "run", replace(made, reliability=(made.reliability[0], None)), thresholds(CLASSES, calibration=None)
    )
    part = section(read(run), "reliability")
    assert [caption.text for caption in part.all("figcaption")] == ["Test images"]
    assert "after" not in part.all("div", role="img")[0].attributes["aria-label"]


def test_images_that_are_gone_leave_a_place(tmp_path, image):
    run = write_run(tmp_path / "run", evidence(CLASSES, image))
    image.unlink()
    page = read(run)
    assert not page.all("img")
    assert not page.all("image")
    assert len(page.all("span", class_="gone")) == 6
    assert page.all("span", class_="gone")[0].text == "no such file"
    assert page.all("rect", class_="seen")  # what the teacher saw is known without the image


def test_the_teachers_tiles_are_drawn_where_they_were(tmp_path, image):
    page = read(write_run(tmp_path / "run", evidence(CLASSES, image, shown=1, grid=2)))
    (drawing,) = page.all("svg", class_="tiles")
    assert drawing.attributes["viewbox"] == "0 0 400 300"
    boxes = [
        [float(box.attributes[name]) for name in ("x", "y", "width", "height")] for box in drawing.all("rect", class_="seen")
    ]
    assert boxes == [[0, 0, 200, 150], [200, 0, 200, 150], [0, 150, 200, 150], [200, 150, 200, 150]]
    assert [title.text for title in drawing.all("title")] == [
        *("boat 0.750; apple 0.010", "car 0.750; apple 0.020", "dog 0.750; apple 0.030", "egg 0.750; apple 0.040")
    ]
    plates = drawing.all("rect", class_="plate")
    assert len(plates) == 4  # behind every text
    for plate, text in zip(plates, drawing.all("text"), strict=True):
        left, top, width, height = (float(plate.attributes[name]) for name in ("x", "y", "width", "height"))
        assert left + width / 2 == pytest.approx(float(text.attributes["x"]), abs=0.2)
        assert top < float(text.attributes["y"]) < top + height
    (best,) = drawing.all("g", class_="best")
    assert best.all("title")[0].text.startswith("egg")


def test_empty_grids_give_the_reason(tmp_path, image):
    empty: dict[str, Any] = {name: ExampleGrid() for name in ("mistaken", "missed", "found")}
    made = evidence(CLASSES, image, **empty, teacher=ExampleGrid(reason="The teacher's scores were not stored (--store none)."))
    page = read(write_run(tmp_path / "run", made))
    assert not page.all("img")
    assert "Left out: The teacher's scores were not stored (--store none)." in section(page, "teacher").text


def test_readers_are_told_what_to_be_careful_about(tmp_path, image):
    made = evidence(CLASSES, image)
    made = replace(made, support=np.array([0, 0, 5, 5, 5, 5]))
    page = read(write_run(tmp_path / "run", made, thresholds(CLASSES, classes=dict.fromkeys(CLASSES, 0.3))))
    (notes,) = page.all("ul", class_="notes")
    assert [note.text.split(":")[0] for note in notes.all("li")] == [
        "The thresholds were refitted after training",
        "2 of 6 classes have no positive among the test images",
    ]
    calm = read(write_run(tmp_path / "calm", evidence(CLASSES, image), best_epoch=2))
    assert not calm.all("ul", class_="notes")


def test_a_run_without_what_it_takes_is_refused(tmp_path, image):
    run = write_run(tmp_path / "run", evidence(CLASSES, image))
    run.evidence.write_bytes(b"PK\x03\x04 half of it")
    with pytest.raises(UserError, match=r"evidence\.npz: not the evidence of a training .*; train the run again"):
        write_report(run)
    run.evidence.unlink()
    with pytest.raises(UserError, match=r"evidence\.npz is missing .* train it again: aevlp train DATA --out OTHER"):
        write_report(run)
    run.result.unlink()
    with pytest.raises(UserError, match=r"the training is not finished; continue with aevlp train DATA --out .* --resume"):
        write_report(run)
    assert not run.report.exists()
