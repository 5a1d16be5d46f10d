"""The page in a browser."""

import json
import shutil
import time

import numpy as np
import pytest
from tools.screenshot import find_browser

from tests.inference.serve.talk import send_paths, served
from tests.trained_runs import CALIBRATION, write_run

pytestmark = pytest.mark.skipif(find_browser() is None, reason="no Chromium is installed")
NAMES = "Array.from(document.querySelectorAll('.results .given .name, .results .none'), (each) => each.textContent)"
NUMBERS = "Array.from(document.querySelectorAll('.results .given data'), (each) => Number(each.value))"
STATUS = "document.getElementById('status').textContent"


def visit(browser, url, width=1000):
    browser.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600)
    browser.events.clear()
    browser.call("Page.navigate", url=url)
    wait_for(browser, f"document.readyState === 'complete' && location.href.startsWith({json.dumps(url)})")


def wait_for(browser, condition):
    until = time.monotonic() + 30
    while not browser.evaluate(condition):
        assert time.monotonic() < until, browser.evaluate("document.body.innerText")
        time.sleep(0.02)


def choose(browser, paths):
    root = browser.call("DOM.getDocument")["root"]["nodeId"]
    node = browser.call("DOM.querySelector", nodeId=root, selector="#files")["nodeId"]
    browser.call("DOM.setFileInputFiles", nodeId=node, files=[str(path) for path in paths])
    wait_for(browser, f"{STATUS} && !{STATUS}.includes('\u2026')")


def complaints(browser):
    bad = ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")
    return [event for event in browser.events if event.get("method") in bad]


def requests(browser):
    return [e["params"]["request"]["url"] for e in browser.events if e.get("method") == "Network.requestWillBeSent"]


def test_chosen_images_get_their_labels(browser, url, images, tmp_path):
    twin = tmp_path / images[1].name
    shutil.copy(images[7], twin)  # another image of the same name
    (tmp_path / "broken.png").write_bytes(b"nothing")
    (tmp_path / "large.png").write_bytes(bytes(1_000_001))
    visit(browser, url)
    choose(browser, [images[1], tmp_path / "broken.png", twin, tmp_path / "large.png"])
    assert browser.evaluate(STATUS) == "2 of 4 images done, 2 failed"
    found = send_paths(url, [images[1], images[7]]).json["images"]
    labels = [one["labels"] for one in found]
    assert all(labels)
    assert browser.evaluate(NAMES) == [*labels[0], *labels[1]]
    shown = browser.evaluate(NUMBERS)
    raw = [one["probabilities"][name] for one in found for name in one["labels"]]
    assert shown == pytest.approx(raw, abs=1e-5)
    said = browser.evaluate("Array.from(document.querySelectorAll('.results .wrong'), (each) => each.textContent)")
    assert said == ["Failed: not an image, or of an unknown format", "Failed: has more than 1 MB"]
    previews = "Array.from(document.querySelectorAll('.results img'), (image) => image.naturalWidth)"
    assert browser.evaluate(previews) == [48, 48]

    browser.evaluate("document.getElementById('calibrated').click()")
    assert browser.evaluate(NUMBERS) == pytest.approx(CALIBRATION(np.array(raw)).tolist(), abs=1e-4)
    assert browser.evaluate(NAMES) == [*labels[0], *labels[1]]

    browser.evaluate("document.querySelector('.results details').open = true")
    wait_for(browser, "document.querySelectorAll('.results > li:first-child .others li').length > 0")
    assert browser.evaluate("document.querySelectorAll('.results > li:first-child .bars li').length") == 6

    assert complaints(browser) == []
    asked = requests(browser)
    assert f"{url}/api/predict" in asked
    assert all(address.startswith((f"{url}/", f"blob:{url}/", "data:")) for address in asked), asked


def test_results_can_be_saved(browser, url, images):
    visit(browser, url)
    # What would be saved is kept for the test in the place of a file.
    browser.evaluate(
        "window.kept = []; HTMLAnchorElement.prototype.click = function () {"
        " window.kept.push(this.download); };"
        "const make = URL.createObjectURL; window.texts = [];"
        "URL.createObjectURL = (blob) => { if (!(blob instanceof File)) window.texts.push(blob.text()); return make(blob); }; 0"
    )
    choose(browser, images[:2])
    for button in ("csv", "json"):
        browser.evaluate(f"document.getElementById('{button}').click()")
    table, text = browser.evaluate("Promise.all(window.texts)")
    assert browser.evaluate("window.kept") == ["labels.csv", "labels.json"]
    found = send_paths(url, images[:2]).json
    saved = json.loads(text)
    assert saved["errors"] == []
    assert [one["labels"] for one in saved["images"]] == [one["labels"] for one in found["images"]]
    lines = table.splitlines()
    assert lines[0] == "image,labels,black,blue,green,red,violet,yellow"
    assert [line.split(",")[:2] for line in lines[1:]] == [
        [path.name, ";".join(one["labels"])] for path, one in zip(images, found["images"], strict=False)
    ]
    browser.evaluate("document.querySelector('.results .remove').click()")
    assert browser.evaluate(STATUS) == "1 of 1 image done"
    browser.evaluate("document.getElementById('clear').click()")
    assert browser.evaluate("document.getElementById('found').hidden")


@pytest.mark.parametrize("dropped", [True, False])
def test_images_are_dropped_and_pasted(browser, url, dropped):
    visit(browser, url)
    event = "new DragEvent('drop', {dataTransfer: all" if dropped else "new ClipboardEvent('paste', {clipboardData: all"
    browser.evaluate(
        "(async () => { const canvas = document.createElement('canvas'); const all = new DataTransfer();"
        " const blob = await new Promise((done) => canvas.toBlob(done));"
        " all.items.add(new File([blob], 'drawn.png', {type: 'image/png'}));"
        f" document.body.dispatchEvent({event}, bubbles: true, cancelable: true}})); }})()"
    )
    wait_for(browser, f"{STATUS} === '1 of 1 image done'")
    assert complaints(browser) == []


@pytest.mark.parametrize("width", [390, 320])
def test_a_phone_need_not_scroll_sideways(browser, url, images, width):
    visit(browser, url, width)
    choose(browser, images[:2])
    assert browser.evaluate("document.documentElement.scrollWidth") <= width


def test_names_are_text_and_without_thresholds_the_surest_are_shown(browser, backbone, images, tmp_path):
    names = ["</script><script>alert(1)</script>", "<img src=x onerror=alert(2)>", "it's", 'a "b"', "a & b", "__proto__"]
    run = write_run(tmp_path / "run", backbone, above=None)
    config = json.loads((run / "model" / "config.json").read_text())
    config["id2label"] = {str(number): name for number, name in enumerate(names)}
    config["label2id"] = {name: number for number, name in enumerate(names)}
    (run / "model" / "config.json").write_text(json.dumps(config))
    with served(run) as url:
        visit(browser, url)
        choose(browser, images[:1])
        browser.evaluate("document.querySelector('.results details').open = true")
        wait_for(browser, "document.querySelectorAll('.results .bars li').length === 6")
        shown = browser.evaluate("Array.from(document.querySelectorAll('.results .name'), (each) => each.textContent)")
    assert sorted(shown) == sorted(names)
    assert complaints(browser) == []
