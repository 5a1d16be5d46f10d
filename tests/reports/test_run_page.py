import json
import re

import pytest

from aevlp.reports.run_page import write_report
from tests.reports.made import evidence, history, picture, write_run
from tests.reports.pages import figures, parsed, read, section

CLASSES = ("apple", "boat", "car", "dog", "egg", "fish")
HOSTILE = (
    "<img src=x onerror=alert(1)>",
    '"><script>alert(2)</script>',
    "</script></style></title>",
    "' onmouseover='alert(3)",
    "$x^2$ & {{ 7 * 7 }} {% raw %}",
    "]]>--><svg onload=alert(4)>",
    "]" * 200,
)


@pytest.fixture
def image(tmp_path):
    return picture(tmp_path / "images" / "one.jpg")


def test_the_figures_are_those_of_the_result_to_the_last_digit(tmp_path, image):
    run = write_run(tmp_path / "run", evidence(CLASSES, image))
    result = json.loads(run.result.read_text())
    page = read(run)
    shown = figures(page)
    for key in ("mAP", "mAP_present", "val_mAP", "best_epoch", "epochs", "images_per_second"):
        assert shown[key] == {result[key]}, key
    for group in ("labels", "pseudo_labels"):
        for key, value in result[group].items():
            if (group, key) != ("labels", "micro_F1"):
                assert shown[f"{group}.{key}"] == {value}, key
    assert shown["images.train"] == {1600}
    rows = section(page, "classes").all("tbody")[0].all("tr")
    measured = {row.all("th")[0].text: float(row.all("data", data_key="per_class_AP")[0].attributes["value"]) for row in rows}
    assert measured == result["per_class_AP"]
    values = list(measured.values())
    assert values == sorted(values, reverse=True)
    verdict = page.all("p", class_="verdict")[0].text
    assert "aevlp reaches an mAP of 61.23" in verdict
    assert "macro F1 of 51.11 on 60 test images" in verdict
    assert "It was trained on 1,600 images with one observed label each." in verdict


def test_names_do_no_harm(tmp_path, image):
    """Class names, file names and settings are shown as they are, and are never markup, script or attribute."""
    bad = picture(tmp_path / "<b onclick=alert(5)>.jpg")
    run = write_run(tmp_path / "run", evidence(HOSTILE, bad, grid=3, shown=7), data="/x/<script>alert(6)</script>")
    run.config.write_text("method: aevlp # </pre><script>alert(7)</script>\n")
    text = write_report(run).read_text()
    page = parsed(text)
    (script,) = page.all("script")
    assert "alert" not in script.text
    assert not [name for element in page.all() for name in element.attributes if name.startswith("on")]
    assert {element.attributes["src"][:22] for element in page.all("img")} == {"data:image/jpeg;base64"}
    assert not page.all("b", onclick="alert(5)")
    assert not page.all("style")[0].text.count("alert")
    shown = page.text
    for name in HOSTILE:
        assert name in shown, name
    assert "<b onclick=alert(5)>.jpg" in shown
    assert {title.text.split(" 0.75")[0] for title in page.all("title")} >= set(HOSTILE)


def test_a_page_needs_nothing_and_asks_for_nothing(tmp_path, image):
    run = write_run(tmp_path / "run", evidence(CLASSES, image))
    text = write_report(run).read_text()
    page = parsed(text)
    (policy,) = page.all("meta", http_equiv="Content-Security-Policy")
    assert policy.attributes["content"].startswith("default-src 'none'; img-src data:; ")
    assert "'unsafe-eval'" not in text
    for element in page.all():
        for name in ("src", "href"):
            assert element.attributes.get(name, "data:").startswith(("data:", "#")), element
    addresses = set(re.findall(r"https?://[\w./-]*", text)) - {"http://www.w3.org/2000/svg"}
    assert addresses == set()
    assert "url(" not in page.all("style")[0].text


def test_ids_are_unique_and_links_lead_somewhere(tmp_path, image):
    page = read(write_run(tmp_path / "run", evidence(CLASSES, image)))
    ids = [element.attributes["id"] for element in page.all() if "id" in element.attributes]
    assert len(ids) == len(set(ids))
    links = {element.attributes["href"] for element in page.all() if element.attributes.get("href", "").startswith("#")}
    assert {link[1:] for link in links} <= set(ids)
    clips = set(re.findall(r"url\(#([\w-]+)\)", str([element.attributes for element in page.all()])))
    assert clips
    assert clips <= set(ids)


def test_names_that_are_no_text_are_shown_as_far_as_they_can_be(tmp_path):
    file = picture(tmp_path / "caf\udce9.jpg")
    page = read(write_run(tmp_path / "run", evidence(CLASSES, file)))
    assert "caf?.jpg" in page.text
    assert len(page.all("img")) == 6


def test_the_same_run_gives_the_same_page(tmp_path, image):
    run = write_run(tmp_path / "run", evidence(CLASSES, image))
    first = write_report(run).read_bytes()
    assert write_report(run).read_bytes() == first
    assert not list(run.path.glob(".*.part"))


def test_many_classes_stay_under_five_megabytes(tmp_path):
    classes = tuple(f"class number {c}, with a name as long as they come" for c in range(300))
    image = picture(tmp_path / "large.jpg", (1200, 900))
    run = write_run(tmp_path / "run", evidence(classes, image, shown=12, grid=5))
    report = write_report(run)
    assert report.stat().st_size < 5e6
    assert run.evidence.stat().st_size < 2e6
    assert len(section(parsed(report.read_text()), "classes").all("tbody")[0].all("tr")) == 300


def test_an_epoch_without_pseudo_labels_leaves_a_gap(tmp_path, image):
    lines = history()
    lines[0]["pseudo_labels"] = {**lines[0]["pseudo_labels"], "epoch_precision": None, "precision": None}
    page = read(write_run(tmp_path / "run", evidence(CLASSES, image), lines=lines))
    assert len(section(page, "pseudo-labels").all("figure")) == 2


def test_one_class_and_one_epoch_are_enough(tmp_path, image):
    page = read(write_run(tmp_path / "run", evidence(("sun",), image), lines=history(1)))
    assert [caption.text for caption in section(page, "curves").all("figcaption")] == ["Classes"]
