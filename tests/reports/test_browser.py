"""Reports in a browser, opened from disk."""

import pytest
from playwright.sync_api import expect

from aevlp.reports.run_page import write_report
from tests.browsing import complaints, requests
from tests.reports.made import evidence, picture, write_run

CLASSES = ("10 apples", "9 boats", "<img src=x onerror=alert(1)>", "</script><script>alert(2)</script>", "élan")


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("browser")
    made = evidence(CLASSES, picture(folder / "images" / "one.jpg"), grid=4)
    return write_report(write_run(folder / "run", made)).as_uri()


def heading(page, label):
    return page.locator("#class-table thead").get_by_text(label, exact=True)


def names(page):
    return page.locator("#class-table tbody tr:visible th")


def column(page, number):
    """The figures of a column of the table of classes, from top to bottom."""
    script = "(rows, number) => rows.map((row) => Number(row.cells[number].querySelector('data').value))"
    return page.locator("#class-table tbody tr").evaluate_all(script, number)


def test_it_opens_without_an_error_or_a_request(open_page, report):
    page = open_page(report)
    page.wait_for_load_state("networkidle")
    assert requests(page) == [report]
    assert complaints(page) == []
    expect(page.locator("img")).to_have_count(6)
    assert page.locator("img").evaluate_all("(images) => images.every((image) => image.complete && image.naturalWidth > 0)")


def test_a_click_sorts_the_classes_and_another_turns_the_order_round(open_page, report):
    page = open_page(report)
    values = column(page, 1)
    assert values == sorted(values, reverse=True)
    heading(page, "AP").click()
    assert column(page, 1) == sorted(values)
    heading(page, "positives").click()
    assert column(page, 3) == sorted(column(page, 3), reverse=True)
    heading(page, "class").click()
    shown = names(page).all_text_contents()
    assert shown.index("9 boats") < shown.index("10 apples") < shown.index("élan")
    assert set(shown) == set(CLASSES)
    sortable = page.locator("#class-table th[aria-sort]")
    assert [head.get_attribute("aria-sort") for head in sortable.all()] == ["ascending", *["none"] * 7]


def test_the_keyboard_sorts_too(open_page, report):
    page = open_page(report)
    before = column(page, 1)
    heading(page, "AP").press("Enter")
    assert column(page, 1) == before[::-1]


def test_classes_can_be_picked_out_by_their_names(open_page, report):
    page = open_page(report)
    page.locator("input[data-filters]").press_sequentially("BOAT")
    expect(names(page)).to_have_text(["9 boats"])


@pytest.mark.parametrize("dark", [False, True])
def test_light_and_dark_hold_for_charts_as_well(open_page, report, dark):
    page = open_page(report, dark=dark)
    body = page.locator("body")
    expect(body).to_have_css("background-color", "rgb(19, 23, 27)" if dark else "rgb(255, 255, 255)")
    ink = body.evaluate("(body) => getComputedStyle(body).color")
    expect(page.locator(".chart text").first).to_have_css("fill", ink)
    line = page.locator(".chart path[style*='--blue']").first
    expect(line).to_have_css("stroke", "rgb(79, 169, 226)" if dark else "rgb(0, 114, 178)")


@pytest.mark.parametrize("width", [390, 320])
def test_a_phone_need_not_scroll_sideways(open_page, report, width):
    page = open_page(report, width=width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
