"""A picture of a page, light or dark, of any width: python tools/screenshot.py report.html report.png [--dark] [--width 390].

It asks a Chromium without a window, through the pipe of its DevTools protocol, so that nothing but a browser is needed.
"""

from __future__ import annotations

import argparse
import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-extensions", "--remote-debugging-pipe"),
)
FREE = 10  # number of a file from which on none has a meaning to the browser
TALLEST = 16000  # pixels of a picture
PATIENCE = 60.0  # seconds


def find_browser() -> str | None:
    """The browser's program; None if there is none on this machine."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


class Browser:
    """A Chromium without a window. `events`: what it told unasked since a page was opened (requests, errors, ...)."""

    def __init__(self, program: str) -> None:
        self.events: list[dict[str, Any]] = []
        self._asked, self._unread = 0, b""
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        to_browser, ours_out = (_high(end) for end in os.pipe())
        ours_in, from_browser = (_high(end) for end in os.pipe())

        def wire() -> None:
            os.dup2(to_browser, 3)  # where the protocol's pipe is expected
            os.dup2(from_browser, 4)

        self._process = subprocess.Popen(
            [program, *FLAGS, f"--user-data-dir={self._profile.name}", "about:blank"],
            preexec_fn=wire,
            pass_fds=(3, 4),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        self._out, self._in = ours_out, ours_in
        self._session: str | None = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        os.close(self._out)  # its end of the pipe: the browser leaves by itself
        os.close(self._in)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._profile.cleanup()

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """What the browser answers to a method of its protocol."""
        self._asked += 1
        message = {"id": self._asked, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while (answer := self._read()).get("id") != self._asked:
            self.events.append(answer)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']['message']}")
        result: dict[str, Any] = answer["result"]
        return result

    def _read(self) -> dict[str, Any]:
        """The next message."""
        while b"\0" not in self._unread:
            ready, _, _ = select.select([self._in], [], [], PATIENCE)
            more = os.read(self._in, 1 << 20) if ready else b""
            if not more:
                raise RuntimeError("the browser has ended" if ready else f"the browser says nothing for {PATIENCE} s")
            self._unread += more
        line, self._unread = self._unread.split(b"\0", 1)
        message: dict[str, Any] = json.loads(line)
        return message

    def open(self, page: Path, *, width: int = 1200, height: int = 900, scale: float = 1, dark: bool = False) -> None:
        """Opens a file from disk and waits until it is there."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=width < 600)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.events.clear()
        self.call("Page.navigate", url=page.resolve().as_uri())
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._read())

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(json.dumps(answer["exceptionDetails"]))
        return answer["result"].get("value")

    def picture(self, *, height: int | None = None, top: int = 0) -> bytes:
        """A PNG of the whole page, or of so many pixels of it from `top` on."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        tall = min(height or int(size["height"]) - top, TALLEST)
        clip = {"x": 0, "y": top, "width": size["width"], "height": tall, "scale": 1}
        return base64.b64decode(self.call("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)["data"])


def _high(end: int) -> int:
    """The same file under a number that the browser gives no meaning to."""
    moved = fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, FREE)
    os.close(end)
    return moved


def main(argv: Sequence[str] | None = None) -> None:
    """Takes the picture."""
    parser = argparse.ArgumentParser(description="Take a picture of a page.")
    parser.add_argument("page", type=Path)
    parser.add_argument("picture", type=Path, metavar="FILE.png")
    parser.add_argument("--width", type=int, default=1200, help="of the window, in pixels (default: 1200)")
    parser.add_argument("--height", type=int, help="how much of the page, from its top, in pixels (default: all of it)")
    parser.add_argument("--top", type=int, default=0, help="where the picture begins, in pixels (default: 0)")
    parser.add_argument("--scale", type=float, default=1, help="pixels of the picture per pixel of the page (default: 1)")
    parser.add_argument("--dark", action="store_true", help="as on a dark screen (default: light)")
    given = parser.parse_args(argv)
    program = find_browser()
    if program is None:
        parser.error(f"no browser is installed; install one of {', '.join(NAMES)}")
    with Browser(program) as browser:
        browser.open(given.page, width=given.width, scale=given.scale, dark=given.dark)
        given.picture.write_bytes(browser.picture(height=given.height, top=given.top))


if __name__ == "__main__":
    main()
