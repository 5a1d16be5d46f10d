"""Real servers in processes of their own, and raw connections to them."""

import os
import re
import signal
import socket
import struct
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tools.campaign.trial import command, end_session, fork, wait_for

START = 60.0  # seconds
PATIENCE = 25.0  # seconds that a client waits for an answer


@dataclass
class Server:
    """A server that was started by a command."""

    name: str
    pid: int
    port: int
    log: Path
    seen: int = 0
    """Characters of the log that have been looked at."""

    def new_log(self) -> str:
        """Return what the server has logged since the last call."""
        text = self.log.read_text(errors="replace")
        new, self.seen = text[self.seen :], len(text)
        return new

    @property
    def memory(self) -> float:
        """Resident memory, in megabytes."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(re.findall(r"VmRSS:\s+(\d+)", status)[0]) / 1000

    def stop(self) -> int | None:
        """End the server; return its exit code, None if it had to be killed."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGTERM)
        if (code := wait_for(self.pid, 30)) is None:
            os.kill(self.pid, signal.SIGKILL)
            wait_for(self.pid, None)
        end_session(self.pid)
        return code


def start(name: str, words: tuple[str, ...], folder: Path) -> Server:
    """Start a server by a command in a folder, at a free port."""
    log = folder / f"{name}.log"
    log.unlink(missing_ok=True)

    def serve() -> int:
        os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644), 2)
        os.dup2(2, 1)
        return command((*words, "--port", "0"), folder)

    pid, until = fork(serve), time.monotonic() + START
    while time.monotonic() < until:
        if log.is_file() and (found := re.search(r"at http://127\.0\.0\.1:(\d+)", log.read_text())):
            return Server(name, pid, int(found[1]), log)
        time.sleep(0.05)
    raise SystemExit(f"{name} does not start: {log.read_text()}")


@dataclass(frozen=True)
class Answer:
    """The answer of a server."""

    status: int | None
    """None: the connection was closed without an answer."""
    content: bytes
    is_late: bool = False


def connect(port: int) -> socket.socket:
    """Return a new connection."""
    return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)


def ask(port: int, request: bytes, *, breaks_off: bool = False) -> Answer:
    """Send bytes and return the answer, up to the end of the connection or a pause after it.

    `breaks_off`: reset the connection instead of waiting for an answer.
    """
    with connect(port) as connection:
        try:
            connection.sendall(request)
            if breaks_off:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                return Answer(None, b"")
        except OSError:  # refused while it was being sent; the answer may be there
            pass
        received = b""
        try:
            while not _is_whole(received) and (piece := connection.recv(1 << 16)):
                received += piece
        except TimeoutError:
            return Answer(None, received, is_late=True)
        except OSError:
            pass
    found = re.match(rb"HTTP/1\.[01] (\d{3})", received)
    return Answer(int(found[1]) if found else None, received)


def _is_whole(received: bytes) -> bool:
    """Return whether an answer with a length is there; others last until the connection is closed."""
    head, separator, body = received.partition(b"\r\n\r\n")
    length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
    return bool(separator and length and len(body) >= int(length[1]))
