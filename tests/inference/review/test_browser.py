"""The page in a browser, by keyboard alone."""

import re
from dataclasses import replace

import pytest
from playwright.sync_api import expect

from aevlp.core.errors import UserError
from aevlp.data.answers import ACCEPTED, REJECTED
from aevlp.inference.review.app import start_of
from tests.browsing import complaints, requests, violations, wait_until
from tests.inference.review.made import open_review, served, values, write_set

NASTY = "<img src=x onerror=alert(1)>"


@pytest.fixture
def review(data):
    """A review of 40 images and its address."""
    session = open_review(data, audit=8)
    with served(session) as url:
        yield session, url


def press(page, *keys):
    for key in keys:
        page.keyboard.press(key)


def shown_files(page):
    return page.locator(".cell .quiet").all_text_contents()


def shown_grid(page):
    return page.locator("#question").text_content(), *shown_files(page)


def expect_another_grid(page, before):
    """Wait until the page shows another grid than this."""
    script = "(before) => [document.getElementById('question'), ...document.querySelectorAll('.cell .quiet')]"
    wait_until(page, f"{script}.map((each) => each.textContent).join() !== before.join()", list(before))


def expect_said(page, text):
    expect(page.locator("#said")).to_have_text(text if isinstance(text, re.Pattern) else re.compile(re.escape(text)))


def expect_idle(page):
    """Wait until a grid or an image is shown and can be answered."""
    expect(page.locator(".cell:visible, .chip:visible").first).to_be_visible()
    expect(page.locator("#main")).to_have_attribute("aria-busy", "false")


def test_by_class_with_keys_alone(open_page, review):
    session, url = review
    page = open_page(url)
    expect_idle(page)
    label, *files = shown_grid(page)
    name = label.removeprefix("Is this “").removesuffix("”?")
    accepts = page.locator("#settle-text").text_content() == "Accept the rest"
    press(page, "ArrowRight", "Space", "ArrowDown", "ArrowUp", "ArrowRight", "x")
    expect(page.locator(".cell[data-mark]")).to_have_count(2)
    expect(page.locator(".cell").nth(2)).to_be_focused()
    assert page.locator("#effect").text_content().startswith(f"Enter: {len(files) - 2} are")
    assert page.locator("#effect").text_content().endswith("1 stays open.")
    assert re.fullmatch(r"[01]\.\d\d", page.locator(".cell .caption span").first.text_content())  # a confidence, 0 to 1
    press(page, "Enter")
    expect_said(page, f"{len(files) - 1} answers kept for {name}")
    rest, marked = (ACCEPTED, REJECTED) if accepts else (REJECTED, ACCEPTED)
    expected = {(file, name): marked if place == 1 else rest for place, file in enumerate(files) if place != 2}
    assert values(session) == expected

    expect_another_grid(page, [label, *files])
    expect_idle(page)
    second = shown_files(page)
    press(page, "r")
    expect_said(page, re.compile(r"^\d+ answers kept for .*: 0 accepted"))
    assert len(values(session)) == len(expected) + len(second)
    press(page, "u")
    expect_said(page, f"Undone: {len(second)} answers for ")
    assert values(session) == expected
    press(page, "u")
    expect(page.locator(".cell[data-mark]")).to_have_count(1)  # the first grid comes back as it was
    expect_said(page, f"Undone: {len(files) - 1} answers for {name}.")
    assert values(session) == {}
    expect(page.locator("#question")).to_have_text(label)
    assert set(shown_files(page)) == set(files) - {files[2]}
    press(page, "u")
    expect_said(page, "There is nothing to undo.")

    page.reload()
    expect_idle(page)
    assert set(shown_files(page)) == set(files) - {files[2]}  # this window still holds it
    press(page, "a")
    expect_said(page, f"{len(files) - 1} accepted, 0 rejected.")
    press(page, "s")
    expect_said(page, "Grid skipped")
    assert complaints(page) == []
    assert all(address.startswith(f"{url}/") for address in requests(page))


def test_a_class_is_chosen_by_its_first_letters(open_page, review):
    _, url = review
    page = open_page(url)
    expect_idle(page)
    press(page, "/")
    page.keyboard.type("so")
    expect(page.get_by_role("option")).to_have_text(["sofa"])
    press(page, "Enter")
    expect(page.locator("#question")).to_have_text("Is this “sofa”?")
    expect(page.locator(".cell").first).to_be_focused()
    expect(page).to_have_url(f"{url}/#class/3")
    page.reload()
    expect(page.locator("#question")).to_have_text("Is this “sofa”?")
    assert complaints(page) == []


def test_by_image_with_keys_alone(open_page, review):
    session, url = review
    page = open_page(url)
    expect_idle(page)
    press(page, "2")
    expect(page.locator(".chip").first).to_be_visible()
    file = page.locator("#image-title").text_content()
    row = session.table.names.index(file)
    names = session.table.classes
    tag, other, third, last = (names[(row + step) % 4] for step in range(4))
    states = {tag: "observed", other: "proposed", third: "candidate", last: "candidate"}
    assert chips(page) == states
    expect(page.locator(".chip", has_text=other).locator(".yes")).to_be_focused()
    press(page, "a")
    expect_said(page, f"{other} accepted.")
    assert values(session) == {(file, other): ACCEPTED}
    press(page, "r")  # the next open label has the focus
    expect_said(page, "rejected.")
    rejected = next(name for name, state in chips(page).items() if state == "rejected")
    left = next(name for name in (third, last) if name != rejected)
    assert values(session) == {(file, other): ACCEPTED, (file, rejected): REJECTED}
    press(page, "u")
    expect_said(page, "Undone: 1 answer.")
    assert chips(page)[rejected] == "candidate"
    press(page, "/")
    page.keyboard.type(left[:2])
    press(page, "Enter")
    expect_said(page, f"{left} accepted.")
    press(page, "Escape", "c")
    expect_said(page, f"{file} is complete.")
    expected = {(file, other): ACCEPTED, (file, left): ACCEPTED, (file, rejected): REJECTED, (file, ""): ACCEPTED}
    assert values(session) == expected

    expect(page.locator("#image-title")).not_to_have_text(file)
    second = page.locator("#image-title").text_content()
    press(page, "n")
    expect(page.locator("#image-title")).not_to_have_text(second)
    press(page, "p")
    expect(page.locator("#image-title")).to_have_text(second)
    page.reload()
    expect(page.locator("#image-title")).to_have_text(second)
    press(page, "Shift+A")
    expect_said(page, "1 proposed label accepted.")
    press(page, "t")
    expect_said(page, "No tiles: to download first")
    press(page, "z")
    expect(page.locator("#large")).to_be_visible()
    press(page, "Escape")
    expect(page.locator("#large")).to_be_hidden()
    assert complaints(page) == []


def chips(page):
    found = page.locator(".chip").evaluate_all(
        "(all) => all.map((chip) => [chip.querySelector('.name').textContent, chip.dataset.state])"
    )
    return dict(found)


def test_the_audit_is_answered_and_the_queue_read(open_page, review):
    session, url = review
    page = open_page(url)
    expect_idle(page)
    press(page, "4")
    expect(page.locator("#figures")).to_contain_text("0 of 8")
    seen = []
    for number in range(8):
        expect(page.locator("#figures")).to_contain_text(f"{number} of 8")
        seen.append(session.table.names.index(page.locator("#image-title").text_content()))
        press(page, "Shift+A")
        expect_said(page, "1 proposed label accepted.")
        press(page, "c")
        expect_said(page, f"{session.table.names[seen[-1]]} is complete.")
    assert seen == session.audit_rows
    expect(page.locator("#figures")).to_contain_text("8 of 8")
    expect(page.locator("#figures")).to_contain_text("100 %")
    expect(page.locator("#no-image")).to_contain_text("No image of the audit is left")
    press(page, "3")
    expect(page.locator("#fits")).to_contain_text("30 minutes by class")
    page.locator("#minutes").fill("1")
    page.keyboard.press("Tab")
    expect(page.locator("#fits")).to_contain_text("1 minute by class")
    page.get_by_role("button", name="Look at").first.press("Enter")
    expect(page.locator("#question")).to_contain_text("Is this")
    press(page, "?")
    expect(page.locator("#help")).to_be_visible()
    press(page, "Escape")
    expect(page.locator("#help")).to_be_hidden()
    assert complaints(page) == []


def test_labels_above_the_audited_line_are_accepted_together(open_page, tmp_path):
    session = open_review(write_set(tmp_path / "set", images=400), audit=100, precision=0.9)
    for row in session.audit_rows:
        session.answer_image("window-of-ben", "ben", "audit", row, [((row + 1) % 4, 1)], complete=True, keys=1, seconds=1)
    session.seats.seat("window-of-ben", "ben").release()
    expected = int(session.above(session.figures().line, None).sum())
    with served(session) as url:
        page = open_page(url)
        expect(page.locator("#bulk-button")).to_have_text(f"Accept all {expected}")
        before = len(values(session))
        page.locator("#bulk-button").press("Enter")
        expect_said(page, f"{expected} labels above the audited line accepted.")
        assert len(values(session)) == before + expected
        expect(page.locator("#bulk-text")).to_contain_text("none of them is open")
        press(page, "u")
        expect_said(page, f"Undone: {expected} answers.")
        assert complaints(page) == []


def test_keys_that_are_pressed_fast_are_not_lost(open_page, review):
    session, url = review
    page = open_page(f"{url}/#image")
    expect_idle(page)
    file = page.locator("#image-title").text_content()
    press(page, "a", "r", "r")
    expect(page.locator(".chip[data-state=rejected]")).to_have_count(2)
    assert sorted(values(session).values()) == [REJECTED, REJECTED, ACCEPTED]
    press(page, "u", "u", "u", "1")
    expect(page.locator("#question")).to_contain_text("Is this")
    press(page, "2")
    expect(page.locator("#image-title")).to_have_text(file)
    press(page, "u", "u", "u")
    expect_said(page, "There is nothing to undo.")
    assert values(session) == {}


def test_two_browsers_never_get_the_same_image_or_grid(open_page, review):
    session, url = review
    pages = [open_page(url), open_page(url)]
    for name, page in zip(("anna", "ben"), pages, strict=True):
        expect_idle(page)
        page.locator("#who").fill(name)
        page.locator("#who").press("Enter")
        expect_idle(page)
    answered = []
    for _ in range(3):
        shown = [shown_grid(page) for page in pages]
        assert not set(shown[0][1:]) & set(shown[1][1:])
        for page, grid in zip(pages, shown, strict=True):
            page.locator(".cell").first.focus()
            press(page, "Enter")
            expect_another_grid(page, grid)
            expect_idle(page)
            answered += [(file, grid[0]) for file in grid[1:]]
    assert len(answered) == len(set(answered)) == len(values(session))
    for page in pages:
        press(page, "2")
        expect(page.locator(".chip").first).to_be_visible()
    for _ in range(5):
        titles = [page.locator("#image-title").text_content() for page in pages]
        assert titles[0] != titles[1]
        for page, title in zip(pages, titles, strict=True):
            press(page, "n")
            expect(page.locator("#image-title")).not_to_have_text(title)
    who = {answer.who for answer in session.state.store.current()}
    assert who == {"anna", "ben"}
    expect(pages[0].locator("#pace")).to_contain_text("anna, ben")


def test_names_are_text(open_page, tmp_path):
    names = (NASTY, "</script><script>alert(2)</script>", "a & b", 'it\'s "x"')
    data = write_set(tmp_path / "set", classes=names)
    with served(open_review(data, audit=8)) as url:
        page = open_page(f"{url}/#class/0")
        dialogs = []
        page.on("dialog", lambda dialog: dialogs.append(dialog.dismiss()))
        expect(page.locator("#question")).to_have_text(f"Is this “{NASTY}”?")
        press(page, "Space", "/")
        page.keyboard.type("<img")
        expect(page.get_by_role("option")).to_have_text([NASTY])
        press(page, "Escape", "Enter")
        expect_said(page, f"answers kept for {NASTY}")
        for key in ("2", "3", "4"):
            press(page, key)
            expect(page.locator("main")).to_contain_text(NASTY)
        assert page.locator("main img").count() >= 1
        assert page.locator("img[src='x']").count() == 0
        assert dialogs == []
        assert complaints(page) == []


def test_it_begins_where_it_is_told_to(open_page, data):
    session = open_review(data)
    with served(session, start=start_of(session.table, "sofa", None)) as url:
        page = open_page(url)
        expect(page.locator("#question")).to_have_text("Is this \u201csofa\u201d?")
    path = session.table.paths[7]
    with served(session, start=start_of(session.table, None, str(path))) as url:
        page = open_page(url)
        expect(page.locator("#image-title")).to_contain_text("007.png")
        assert complaints(page) == []  # before the server ends


def test_a_beginning_that_is_not_reviewed_is_refused(data):
    table = open_review(data).table
    assert start_of(table, None, "images/007.png") == start_of(table, None, str(data.parent / "images" / ".." / "images/007.png"))
    with pytest.raises(
        UserError, match=r"^--class sofas: no such class \(did you mean 'sofa'\?\); there are car, cat, dog, sofa$"
    ):
        start_of(table, "sofas", None)
    with pytest.raises(UserError, match=r"^--image x\.png: not an image of this set; name it as the set does, or by its path$"):
        start_of(table, None, "x.png")
    with pytest.raises(UserError, match="exclude each other"):
        start_of(table, "sofa", "images/007.png")
    with pytest.raises(UserError, match="an image of the split test; only training images are reviewed"):
        start_of(replace(table, splits=("test",) * len(table.names)), None, "images/007.png")


@pytest.mark.parametrize("dark", [False, True])
def test_axe_finds_no_violation(open_page, review, axe, dark):
    _, url = review
    page = open_page(url, dark=dark)
    expect_idle(page)
    press(page, "Space", "ArrowRight", "x")
    page.evaluate(axe)
    violations(page, "class")
    press(page, "?")
    violations(page, "help")
    press(page, "Escape", "/")
    page.keyboard.type("c")
    expect(page.get_by_role("option")).to_have_count(2)
    violations(page, "class with a list")
    press(page, "Escape", "2")
    expect(page.locator(".chip").first).to_be_visible()
    press(page, "a", "r")
    expect_said(page, "rejected")
    violations(page, "image")
    press(page, "z")
    violations(page, "zoom")
    press(page, "Escape", "3")
    expect(page.locator("#fits")).to_contain_text("by class")
    violations(page, "queue")
    press(page, "4")
    expect(page.locator("#figures")).to_contain_text("0 of 8")
    violations(page, "audit")


@pytest.mark.parametrize("width", [390, 320])
def test_a_phone_need_not_scroll_sideways(open_page, review, width):
    _, url = review
    page = open_page(url, width=width)
    expect_idle(page)
    for mode in ("class", "image", "queue", "audit"):
        page.goto(f"{url}/#{mode}")
        expect(page.locator(f"[data-mode={mode}]")).to_have_attribute("aria-current", "page")
        expect(page.locator("main section:not([hidden])")).to_have_count(1)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, mode
