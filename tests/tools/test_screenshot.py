import io

import pytest
from PIL import Image
from tools.screenshot import main, screenshot

from tests.browsing import required_chromium

PAGE = "<!doctype html><style>body{margin:0;height:2000px;background:%s}</style>"
DARK = PAGE % "rgb(255, 0, 0)" + "<style>@media (prefers-color-scheme: dark){body{background:rgb(0, 0, 255)}}</style>"


@pytest.fixture
def page(tmp_path):
    file = tmp_path / "page.html"
    file.write_text(DARK)
    return file


def test_a_picture_shows_the_whole_page_or_a_part_of_it(browser, page):
    def size(**options):
        return Image.open(io.BytesIO(screenshot(browser, page.as_uri(), **options))).size

    assert size(width=400) == (400, 2000)
    assert size(width=400, height=300) == (400, 300)
    assert size(width=400, top=1900) == (400, 100)
    assert size(width=400, height=100, scale=2) == (800, 200)


@pytest.mark.parametrize("dark", [False, True])
def test_a_picture_is_light_or_dark(browser, page, dark):
    drawn = Image.open(io.BytesIO(screenshot(browser, page.as_uri(), width=400, height=100, dark=dark))).convert("RGB")
    assert drawn.getpixel((10, 10)) == ((0, 0, 255) if dark else (255, 0, 0))


def test_a_page_that_is_not_there_is_refused(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("tools.screenshot.find_chromium", lambda: "chromium")
    with pytest.raises(SystemExit):
        main([str(tmp_path / "none.html"), str(tmp_path / "none.png")])
    assert "none.html is not a file" in capsys.readouterr().err


@pytest.mark.parametrize(("name", "value"), [("CI", "true"), ("AEVLP_REQUIRE_BROWSER", "1"), ("CI", "false")])
def test_without_a_browser_tests_fail_in_continuous_integration_and_skip_elsewhere(monkeypatch, name, value):
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.delenv("AEVLP_REQUIRE_BROWSER", raising=False)
    monkeypatch.setattr("tools.screenshot.find_chromium", lambda: None)
    monkeypatch.setenv(name, value)
    outcome = pytest.skip.Exception if value == "false" else pytest.fail.Exception
    with pytest.raises(outcome, match="no browser is installed; install one of chromium, "):
        required_chromium()
