"""Take a screenshot of a page: python -m tools.screenshot report.html report.png [--dark] [--width 390].

Playwright drives the Chromium that is installed on the machine; it need not download one of its own.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
ARGUMENTS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
MAX_HEIGHT = 16000  # pixels; Chromium draws no taller picture


def find_chromium() -> str | None:
    """Return the path of the installed Chromium, or None."""
    return next((found for name in PROGRAMS if (found := shutil.which(name))), None)


@contextmanager
def launch_chromium(program: str) -> Iterator[Browser]:
    """Start a Chromium without a window and close it at the end."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=ARGUMENTS)
        try:
            yield browser
        finally:
            browser.close()


def screenshot(
    browser: Browser,
    address: str,
    *,
    width: int = 1200,
    height: int | None = None,
    top: int = 0,
    scale: float = 1,
    dark: bool = False,
) -> bytes:
    """Return a PNG of the whole page, or of `height` pixels of it from `top` on."""
    page = browser.new_page(
        viewport={"width": width, "height": 900}, device_scale_factor=scale, color_scheme="dark" if dark else "light"
    )
    try:
        page.goto(address)
        below_top = page.evaluate("document.documentElement.scrollHeight") - top
        clip_height = min(below_top if height is None else height, MAX_HEIGHT)
        return page.screenshot(full_page=True, clip={"x": 0, "y": top, "width": width, "height": clip_height})
    finally:
        page.close()


def main(argv: Sequence[str] | None = None) -> None:
    """Take the screenshot that the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m tools.screenshot", description="Take a screenshot of a page.")
    parser.add_argument("page", type=Path, help="an HTML file")
    parser.add_argument("picture", type=Path, metavar="FILE.png")
    parser.add_argument("--width", type=int, default=1200, help="width of the window in pixels (default: 1200)")
    parser.add_argument("--height", type=int, help="height of the picture in pixels of the page (default: the whole page)")
    parser.add_argument("--top", type=int, default=0, help="first row of the page in the picture, in pixels (default: 0)")
    parser.add_argument("--scale", type=float, default=1, help="pixels of the picture per pixel of the page (default: 1)")
    parser.add_argument("--dark", action="store_true", help="take the page's dark colours (default: light)")
    given = parser.parse_args(argv)
    program = find_chromium()
    if program is None:
        parser.error(f"no browser is installed; install one of {', '.join(PROGRAMS)}")
    if not given.page.is_file():
        parser.error(f"{given.page} is not a file")
    options = {name: getattr(given, name) for name in ("width", "height", "top", "scale", "dark")}
    with launch_chromium(program) as browser:
        given.picture.write_bytes(screenshot(browser, given.page.resolve().as_uri(), **options))


if __name__ == "__main__":
    main()
