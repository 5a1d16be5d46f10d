"""Requests: malformed and slow ones against `aevlp serve` and `aevlp review`, as real servers."""

import json
import random
import re
import select
import socket
import time
from contextlib import suppress
from dataclasses import dataclass, field

from tools.campaign.campaign import Campaign, Found
from tools.campaign.cases import Case
from tools.campaign.malformed import malformed, request
from tools.campaign.servers import PATIENCE, Answer, Server, ask, connect, start

WORDS = {
    "serve": ("serve", "run"),
    "review": ("review", "completed.jsonl", "--recipe", "recipe.yaml", "--answers", "new.sqlite"),
}
GOOD = {"serve": "/health", "review": "/"}
MOST_GROWTH = 400.0  # megabytes
MOST_STALLED = 40  # connections at a time
CLOSED_WITHIN = 60.0  # seconds that a server may keep a connection that stalls


@dataclass
class Stalled:
    """Connections that stall; the server must close each of them in time, and answer others meanwhile."""

    open: list[tuple[float, socket.socket]] = field(default_factory=list)

    def add(self, port: int, content: bytes) -> None:
        """Open a connection, send something, and nothing more."""
        connection = connect(port)
        with suppress(OSError):
            connection.sendall(content)
        self.open.append((time.monotonic(), connection))

    def late(self) -> str | None:
        """Drop the connections that the server has closed; say if one is open for too long."""
        closed = set(select.select([each for _, each in self.open], [], [], 0)[0]) if self.open else set()
        for _, connection in self.open:
            if connection in closed:
                connection.close()
        self.open = [(since, each) for since, each in self.open if each not in closed]
        now = time.monotonic()
        if any(now - since > CLOSED_WITHIN for since, _ in self.open):
            self.open = [(since, each) for since, each in self.open if now - since <= CLOSED_WITHIN]
            return f"a connection that stalls is kept for more than {CLOSED_WITHIN:.0f} s"
        return None

    def wait(self) -> str | None:
        """Wait until the server has closed all of them, or one is late."""
        while self.open:
            if (late := self.late()) is not None:
                return late
            time.sleep(0.2)
        return None


def requests(campaign: Campaign) -> list[Case]:
    """Send the requests."""
    folder = campaign.fresh()
    servers = {name: start(name, words, folder) for name, words in WORDS.items()}
    before = {name: server.memory for name, server in servers.items()}
    stalled = {name: Stalled() for name in servers}
    page = ask(servers["review"].port, request("GET", "/", [])).content.decode()
    image_set = str(json.loads(re.findall(r'id="facts">(.*?)</script>', page)[0])["set"])

    def case(number: int, rng: random.Random) -> Found:
        name = rng.choice(sorted(servers))
        server, sent = servers[name], malformed(name, rng, image_set)
        if sent.stalls:
            stalled[name].add(server.port, sent.content)
            answer, end = None, "left open"
        else:
            answer = ask(server.port, sent.content, breaks_off=sent.breaks_off)
            end = "closed" if answer.status is None else str(answer.status)
        failure = _wrong(answer) or stalled[name].late()
        if campaign.only is not None or len(stalled[name].open) > MOST_STALLED or number >= campaign.count - 1:
            failure = failure or stalled[name].wait()
        failure = failure or _unwell(server)
        if server.memory - before[name] > MOST_GROWTH:
            failure = failure or f"memory grew from {before[name]:.0f} to {server.memory:.0f} MB"
        return Found(name, sent.name, end, failure)

    try:
        return campaign.run(case)
    finally:
        for server in servers.values():
            server.stop()


def _wrong(answer: Answer | None) -> str | None:
    """Return what is wrong with an answer: an error of the server, or none in time."""
    if answer is None:
        return None
    if answer.is_late:
        return f"no answer within {PATIENCE:.0f} s"
    if answer.status is not None and answer.status >= 500 and answer.status != 503:
        return f"status {answer.status}: {answer.content[-200:]!r}"
    return None


def _unwell(server: Server) -> str | None:
    """Return what a good request shows to be wrong with a server, or its log."""
    try:
        answer = ask(server.port, request("GET", GOOD[server.name], []))
    except OSError as error:
        return f"the server does not answer any more: {error}"
    if answer.status != 200:
        return f"a good request is answered by {answer.status}"
    log = server.new_log()
    return f"traceback in the log: {log.splitlines()[-1]}" if "Traceback" in log else None
