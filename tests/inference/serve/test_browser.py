"""The page in a browser."""

import json
import re
import shutil

import numpy as np
import pytest
from playwright.sync_api import expect

from aevlp.data.annotations import COMPLETE
from aevlp.data.answers import ACCEPTED, REJECTED, AnswerStore
from aevlp.data.load import DataOptions, read_answered
from tests.browsing import complaints, requests, violations
from tests.inference.serve.talk import send_paths, served
from tests.trained_runs import CALIBRATION, CLASSES, write_run

DONE = re.compile(r"^\d+ of \d+ images? done(, \d+ failed)?$")  # without the dots that stand for images still waiting


def choose(page, paths):
    """Choose files and wait until each has a result."""
    page.locator("#files").set_input_files(paths)
    expect(page.locator("#status")).to_have_text(DONE)


def labels(page):
    return page.locator(".results .given .name, .results .none").all_text_contents()


def probabilities(page):
    return page.locator(".results .given data").evaluate_all("(cells) => cells.map((cell) => Number(cell.value))")


def test_chosen_images_get_their_labels(open_page, url, images, tmp_path):
    twin = tmp_path / images[1].name
    shutil.copy(images[7], twin)  # another image of the same name
    (tmp_path / "broken.png").write_bytes(b"nothing")
    (tmp_path / "large.png").write_bytes(bytes(1_000_001))
    page = open_page(url)
    choose(page, [images[1], tmp_path / "broken.png", twin, tmp_path / "large.png"])
    expect(page.locator("#status")).to_have_text("2 of 4 images done, 2 failed")
    found = send_paths(url, [images[1], images[7]]).json["images"]
    expected = [one["labels"] for one in found]
    assert all(expected)
    assert labels(page) == [*expected[0], *expected[1]]
    raw = [one["probabilities"][name] for one in found for name in one["labels"]]
    assert probabilities(page) == pytest.approx(raw, abs=1e-5)
    wrong = ["Failed: not an image, or of an unknown format", "Failed: has more than 1 MB"]
    expect(page.locator(".results .wrong")).to_have_text(wrong)
    previews = page.locator(".results img")
    expect(previews).to_have_count(2)
    for preview in previews.all():
        expect(preview).to_have_js_property("naturalWidth", 48)

    page.locator("#calibrated").check()
    assert probabilities(page) == pytest.approx(CALIBRATION(np.array(raw)).tolist(), abs=1e-4)
    assert labels(page) == [*expected[0], *expected[1]]

    first = page.locator(".results > li").first
    first.locator("summary").click()
    expect(first.locator(".others li").first).to_be_visible()
    expect(first.locator(".bars li")).to_have_count(6)

    assert complaints(page) == []
    asked = requests(page)
    assert f"{url}/api/predict" in asked
    assert all(address.startswith((f"{url}/", f"blob:{url}/")) for address in asked), asked


def test_results_can_be_saved(open_page, url, images):
    page = open_page(url)
    choose(page, images[:2])
    saved = {}
    for button in ("csv", "json"):
        with page.expect_download() as download:
            page.locator(f"#{button}").click()
        saved[download.value.suggested_filename] = download.value.path().read_text()
    assert list(saved) == ["labels.csv", "labels.json"]
    found = send_paths(url, images[:2]).json["images"]
    as_json = json.loads(saved["labels.json"])
    assert as_json["errors"] == []
    assert [one["labels"] for one in as_json["images"]] == [one["labels"] for one in found]
    head, *lines = saved["labels.csv"].splitlines()
    assert head == "image,labels,black,blue,green,red,violet,yellow"
    assert [line.split(",")[:2] for line in lines] == [
        [path.name, ";".join(one["labels"])] for path, one in zip(images[:2], found, strict=True)
    ]


def test_results_can_be_removed(open_page, url, images):
    page = open_page(url)
    choose(page, images[:2])
    page.get_by_role("button", name=f"Remove {images[0].name}").click()
    expect(page.locator("#status")).to_have_text("1 of 1 image done")
    page.locator("#clear").click()
    expect(page.locator("#found")).to_be_hidden()


@pytest.mark.parametrize("dropped", [True, False])
def test_images_are_dropped_and_pasted(open_page, url, dropped):
    page = open_page(url)
    event = "new DragEvent('drop', {dataTransfer: all" if dropped else "new ClipboardEvent('paste', {clipboardData: all"
    page.evaluate(
        "async () => { const canvas = document.createElement('canvas'); const all = new DataTransfer();"
        " const blob = await new Promise((done) => canvas.toBlob(done));"
        " all.items.add(new File([blob], 'drawn.png', {type: 'image/png'}));"
        f" document.body.dispatchEvent({event}, bubbles: true, cancelable: true}})); }}"
    )
    expect(page.locator("#status")).to_have_text("1 of 1 image done")
    assert complaints(page) == []


def test_corrections_are_sent_and_training_reads_them(open_page, run, world, images, tmp_path):
    """The file lies beside the images, so that their names are those of the set."""
    path = tmp_path / "images" / "answers.sqlite"
    path.parent.mkdir()
    for image in images[:2]:
        shutil.copy(image, path.parent / image.name)
    with served(run, answers=path) as url:
        page = open_page(url)
        choose(page, images[:2])
        expect(page.locator("#send")).to_be_disabled()
        first, second = page.locator(".results > li").all()
        given = first.locator(".given .name").all_text_contents()
        first.get_by_role("checkbox", name=given[0], exact=True).uncheck()
        expect(first.locator(".given .edited .name")).to_have_text(given[0])  # it stays in sight
        others = [name for name in CLASSES if name not in second.locator(".given .name").all_text_contents()]
        second.get_by_role("combobox").fill(others[0].upper())
        second.get_by_role("combobox").press("Enter")
        expect(second.get_by_role("checkbox", name=others[0], exact=True)).to_be_checked()
        second.get_by_role("combobox").fill("zebra")
        second.get_by_role("combobox").press("Enter")
        expect(second.locator(".add .wrong")).to_have_text(" no class \u201czebra\u201d")
        page.locator("#who").fill("anna")
        page.locator("#send").click()
        expect(page.locator("#sent")).to_have_text("2 images: sent and kept.")
        expect(page.locator("#send")).to_be_disabled()
        assert complaints(page) == []
    expected = [(images[0].name, given[0], REJECTED, "anna"), (images[1].name, others[0], ACCEPTED, "anna")]
    assert [(each.image, each.label, each.value, each.who) for each in AnswerStore(path).current()] == expected

    labels = "".join(f"{image.name},{name}\n" for image, name in zip(images[:2], CLASSES, strict=False))
    (path.parent / "labels.csv").write_text(f"image,labels\n{labels}")
    (path.parent / "classes.txt").write_text("\n".join(CLASSES))
    table = read_answered(path.parent, DataOptions())
    found = {(table.names[row], table.classes[column]): table.labels[row, column] for row, column in table.annotations.answers}
    assert found == {(name, label): value for name, label, value, _ in expected}


def test_without_a_file_of_answers_corrections_are_saved_as_one(open_page, url, images, tmp_path):
    page = open_page(url)
    choose(page, images[:1])
    page.locator(".whole input").check()
    given = labels(page)
    with page.expect_download() as download:
        page.locator("#send").click()
    assert download.value.suggested_filename == "answers.sqlite"
    shutil.copy(download.value.path(), tmp_path / "answers.sqlite")
    found = {each.label: each.value for each in AnswerStore(tmp_path / "answers.sqlite").current()}
    assert found == {**dict.fromkeys(given, ACCEPTED), COMPLETE: ACCEPTED}
    expect(page.locator(".kept")).to_have_text("Saved.")


def test_one_slider_moves_all_thresholds(open_page, url, images):
    page = open_page(url)
    choose(page, images[:3])
    fitted = labels(page)
    slider = page.get_by_role("slider", name="Thresholds")
    slider.fill("4")
    expect(page.locator("#shift-value")).to_have_text("+4.0")
    few = page.locator(".results .given .name").count()
    slider.fill("-4")
    many = page.locator(".results .given .name").count()
    assert few < len(fitted) < many
    page.locator("#shift-reset").click()
    assert labels(page) == fitted
    expect(page.locator("#shift-value")).to_have_text("as fitted")
    expect(slider).to_be_focused()


@pytest.mark.parametrize("dark", [False, True])
def test_axe_finds_no_violation(open_page, url, images, axe, dark):
    page = open_page(url, dark=dark)
    choose(page, images[:2])
    page.locator(".results summary").first.click()
    page.locator(".results .given input").first.uncheck()
    page.evaluate(axe)
    violations(page, "serve")


@pytest.mark.parametrize("width", [390, 320])
def test_a_phone_need_not_scroll_sideways(open_page, url, images, width):
    page = open_page(url, width=width)
    choose(page, images[:2])
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_names_are_text_and_without_thresholds_the_surest_are_shown(open_page, backbone, images, tmp_path):
    names = ["</script><script>alert(1)</script>", "<img src=x onerror=alert(2)>", "it's", 'a "b"', "a & b", "__proto__"]
    run = write_run(tmp_path / "run", backbone, above=None)
    config = json.loads((run / "model" / "config.json").read_text())
    config["id2label"] = {str(number): name for number, name in enumerate(names)}
    config["label2id"] = {name: number for number, name in enumerate(names)}
    (run / "model" / "config.json").write_text(json.dumps(config))
    with served(run) as url:
        page = open_page(url)
        choose(page, images[:1])
        page.locator(".results summary").click()
        expect(page.locator(".results .bars li")).to_have_count(6)
        shown = page.locator(".results .name").all_text_contents()
        assert complaints(page) == []
    assert sorted(shown) == sorted(names)
