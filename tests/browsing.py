"""Pages in a browser: the Chromium that tests use, and what a page asked for and complained of."""

import json
import os
import time

import pytest
from playwright.sync_api import Page

PATIENCE = 30.0  # seconds; a busy machine is slow


def required_chromium() -> str:
    """Return the path of Chromium. Without one, the test skips; where a browser is required, it fails."""
    from tools.screenshot import PROGRAMS, find_chromium  # those who copy the tests need not have the tools

    program = find_chromium()
    if program is not None:
        return program
    reason = f"no browser is installed; install one of {', '.join(PROGRAMS)} (Debian: apt-get install chromium)"
    if os.environ.get("CI") == "true" or os.environ.get("AEVLP_REQUIRE_BROWSER"):
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


def complaints(page: Page) -> list[str]:
    """Every message on the page's console and every uncaught error."""
    return [message.text for message in page.console_messages()] + [str(error) for error in page.page_errors()]


def requests(page: Page) -> list[str]:
    """The addresses that the page asked for, in order; those of data: are not among them."""
    return [request.url for request in page.requests()]


def wait_until(page: Page, script: str, argument: object = None) -> None:
    """Wait until a function of JavaScript returns true. Unlike Playwright's own, it works where a page forbids `eval`."""
    end = time.monotonic() + PATIENCE
    while not page.evaluate(script, argument):
        assert time.monotonic() < end, f"never true: {script}"
        page.wait_for_timeout(20)


def violations(page: Page, where: str) -> None:
    """Assert that axe, which the page must have loaded, finds nothing wrong."""
    found = page.evaluate(
        "axe.run().then((result) => result.violations.map((v) => [v.id, v.nodes.map((n) => n.html + n.failureSummary)]))"
    )
    assert found == [], f"{where}: {json.dumps(found, indent=1)}"
