"""Reports in a browser, opened from disk."""

import pytest
from tools.screenshot import find_browser

from aevlp.reports.run_page import write_report
from tests.reports.made import evidence, picture, write_run

CLASSES = ("10 apples", "9 boats", "<img src=x onerror=alert(1)>", "</script><script>alert(2)</script>", "élan")
NAMES = "Array.from(document.querySelectorAll('#class-table tbody tr:not([hidden]) th'), (cell) => cell.textContent)"

pytestmark = pytest.mark.skipif(find_browser() is None, reason="no Chromium is installed")


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("browser")
    made = evidence(CLASSES, picture(folder / "images" / "one.jpg"), grid=4)
    return write_report(write_run(folder / "run", made))


def heading(label: str) -> str:
    return f"Array.from(document.querySelectorAll('#class-table thead button')).find((b) => b.textContent === '{label}')"


def column(number: int) -> str:
    rows = "Array.from(document.querySelectorAll('#class-table tbody tr')"
    return f"{rows}, (row) => Number(row.cells[{number}].querySelector('data').value))"


def test_it_opens_without_an_error_or_a_request(browser, report):
    browser.open(report)
    browser.evaluate("new Promise((done) => setTimeout(done, 200))")
    requests = [e["params"]["request"]["url"] for e in browser.events if e.get("method") == "Network.requestWillBeSent"]
    assert requests[0] == report.as_uri()
    assert {url.split(":")[0] for url in requests[1:]} <= {"data"}
    bad = ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")
    errors = [event for event in browser.events if event.get("method") in bad]
    assert errors == []
    assert browser.evaluate("Array.from(document.images).every((image) => image.naturalWidth > 0)")
    assert browser.evaluate("document.images.length") == 6


def test_a_click_sorts_the_classes_and_another_turns_the_order_round(browser, report):
    browser.open(report)
    values = browser.evaluate(column(1))
    assert values == sorted(values, reverse=True)
    browser.evaluate(f"{heading('AP')}.click()")
    assert browser.evaluate(column(1)) == sorted(values)
    browser.evaluate(f"{heading('positives')}.click()")
    assert browser.evaluate(column(3)) == sorted(browser.evaluate(column(3)), reverse=True)
    browser.evaluate(f"{heading('class')}.click()")
    names = browser.evaluate(NAMES)
    assert names.index("9 boats") < names.index("10 apples") < names.index("élan")
    assert set(names) == set(CLASSES)
    marked = "Array.from(document.querySelectorAll('#class-table th[aria-sort]'), (head) => head.getAttribute('aria-sort'))"
    assert browser.evaluate(marked) == ["ascending", *["none"] * 7]


def test_the_keyboard_sorts_too(browser, report):
    browser.open(report)
    before = browser.evaluate(column(1))
    browser.evaluate(f"{heading('AP')}.focus()")
    for kind in ("keyDown", "keyUp"):
        browser.call("Input.dispatchKeyEvent", type=kind, key="Enter", code="Enter", windowsVirtualKeyCode=13, text="\r")
    assert browser.evaluate(column(1)) == before[::-1]


def test_classes_can_be_picked_out_by_their_names(browser, report):
    browser.open(report)
    browser.evaluate("document.querySelector('input[data-filters]').focus()")
    browser.call("Input.insertText", text="BOAT")
    assert browser.evaluate(NAMES) == ["9 boats"]


@pytest.mark.parametrize("dark", [False, True])
def test_light_and_dark_hold_for_charts_as_well(browser, report, dark):
    browser.open(report, dark=dark)
    paper = browser.evaluate("getComputedStyle(document.body).backgroundColor")
    assert paper == ("rgb(19, 23, 27)" if dark else "rgb(255, 255, 255)")
    ink = browser.evaluate("getComputedStyle(document.body).color")
    assert browser.evaluate("getComputedStyle(document.querySelector('.chart text')).fill") == ink
    line = browser.evaluate("getComputedStyle(document.querySelector('.chart path[style*=\"--blue\"]')).stroke")
    assert line == ("rgb(79, 169, 226)" if dark else "rgb(0, 114, 178)")


@pytest.mark.parametrize("width", [390, 320])
def test_a_phone_need_not_scroll_sideways(browser, report, width):
    browser.open(report, width=width)
    assert browser.evaluate("document.documentElement.scrollWidth") <= width


def test_a_picture_of_it_can_be_taken(browser, report):
    browser.open(report, width=400)
    assert browser.picture(height=300).startswith(b"\x89PNG")
