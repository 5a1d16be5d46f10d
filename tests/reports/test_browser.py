"""Reports in a browser, opened from disk."""

import re

import pytest
from playwright.sync_api import expect

from aevlp.reports.run_page import write_report
from tests.browsing import complaints, requests, violations
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


def cards(page):
    return page.locator(".gallery > li:visible")


def test_examples_can_be_filtered_by_class(open_page, report):
    page = open_page(report)
    total = cards(page).count()
    page.locator("#found select").select_option("9 boats")
    expect(page.locator("#mistakes select")).to_have_value("9 boats")  # one choice for the whole page
    shown = cards(page).evaluate_all("(items) => items.map((item) => item.dataset.label)")
    assert shown
    assert set(shown) == {"9 boats"}
    expect(page.locator("#found output")).to_have_text(f"{len(shown)} of {total} examples")
    page.locator("#teacher select").select_option("")
    expect(cards(page)).to_have_count(total)
    assert complaints(page) == []


def test_an_example_is_enlarged_by_the_keyboard(open_page, report):
    page = open_page(report)
    first = page.locator("#mistakes button.enlarge").first
    first.press("Enter")
    dialog = page.locator("#enlarged")
    expect(dialog).to_be_visible()
    expect(dialog.locator("img")).to_have_js_property("complete", True)
    expect(dialog.locator("[data-part=path]")).to_have_text(re.compile(r"/images/one\.jpg$"))
    expect(dialog.locator("[data-part=review]")).to_have_text(re.compile(r"^aevlp review \S+/run --class "))
    expect(dialog).to_contain_text("aevlp label")
    page.keyboard.press("ArrowRight")
    expect(dialog.locator("[data-part=place]")).to_have_text(re.compile("^2 of "))
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    focused = page.evaluate("document.activeElement.closest('li') === document.querySelectorAll('.gallery > li')[1]")
    assert focused  # where one was
    page.locator("#teacher button.enlarge").first.press("Enter")
    expect(dialog.locator("svg.tiles")).to_be_visible()
    expect(dialog.locator("[data-part=review]")).to_have_text(re.compile(" --image /"))
    assert complaints(page) == []


def test_a_path_is_copied_or_at_least_marked(open_page, report):
    page = open_page(report)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    button = cards(page).first.locator("button.copy")
    button.click()
    expect(cards(page).first.locator("[role=status]")).to_have_text("copied")
    assert page.evaluate("navigator.clipboard.readText()").endswith("/images/one.jpg")
    page.evaluate("Object.defineProperty(navigator, 'clipboard', {value: undefined})")
    button.click()
    expect(cards(page).first.locator("[role=status]")).to_have_text("marked: copy it with Ctrl+C")
    assert page.evaluate("getSelection().toString()").strip() == "one.jpg"


@pytest.mark.parametrize("dark", [False, True])
def test_axe_finds_no_violation(open_page, report, axe, dark):
    page = open_page(report, dark=dark)
    page.evaluate(axe)
    violations(page, "report")
    page.locator("#mistakes button.enlarge").first.click()
    violations(page, "enlarged")


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
