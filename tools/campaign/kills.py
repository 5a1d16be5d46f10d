"""Kills and interrupts: SIGKILL or Ctrl-C at random moments of every long command.

Given again, it must end as if nothing had happened.
"""

import http.client
import json
import os
import random
import re
import signal
import sqlite3
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aevlp.data.answers import AnswerStore
from tools.campaign.campaign import Campaign, Found
from tools.campaign.cases import Case
from tools.campaign.scenarios import SCENARIOS, Scenario, is_done_already, left_behind
from tools.campaign.trial import STOPPED, command, end_session, fork, run, wait_for

REVIEW, REVIEW_KILLS, LONGEST_REVIEW = "review", 14, 1.5  # seconds
RESUMED, AGAIN, ENDED = "resumed", "given again", "ended before"


@dataclass
class Undisturbed:
    """What scenarios take and write when nobody disturbs them; each is run once, when it is first asked for."""

    campaign: Campaign
    known: dict[str, tuple[float, dict[str, str]]] = field(default_factory=dict)

    def of(self, scenario: Scenario) -> tuple[float, dict[str, str]]:
        """Return the seconds, and the digests of the outputs."""
        if scenario.name not in self.known:
            folder = ready(self.campaign, scenario)
            trial = run(scenario.words, folder, limit=scenario.limit)
            if trial.wrong or trial.code != 0:
                raise SystemExit(f"{scenario.name} fails without any fault: {trial.wrong or trial.err}")
            self.known[scenario.name] = trial.seconds, scenario.digest(folder)
        return self.known[scenario.name]


def ready(campaign: Campaign, scenario: Scenario) -> Path:
    """Return a fresh copy of the bench, made ready for a scenario."""
    folder = campaign.fresh()
    if scenario.before is not None:
        scenario.before(folder)
    return folder


def finished(scenario: Scenario, folder: Path, expected: dict[str, str]) -> str | None:
    """Give the command again; return what is wrong with its end."""
    trial = run(scenario.again, folder, limit=scenario.limit)
    if trial.wrong is not None:
        return f"given again: {trial.wrong}"
    if trial.code != 0 and not is_done_already(scenario, trial):
        return f"given again, it is refused: {trial.lines}"
    found = scenario.digest(folder)
    if different := sorted(key for key in {**expected, **found} if expected.get(key) != found.get(key)):
        return f"the result differs from that of an undisturbed run: {', '.join(different[:4])}"
    return left_behind(folder)


def _stop(campaign: Campaign, scenario: Scenario, undisturbed: Undisturbed, by: signal.Signals, rng: random.Random) -> Found:
    seconds, expected = undisturbed.of(scenario)
    folder, moment = ready(campaign, scenario), rng.uniform(0, seconds)
    trial = run(scenario.words, folder, stop=(moment, by), limit=scenario.limit)
    fault, is_stopped = f"{by.name} after {moment:.2f} of {seconds:.2f} s", trial.code == STOPPED[by]
    end = (RESUMED if scenario.resumes else AGAIN) if is_stopped else ENDED
    if not is_stopped:  # the undisturbed run was slowed down by others
        undisturbed.known[scenario.name] = min(seconds, trial.seconds), expected
    failure = trial.wrong
    if failure is None and trial.code > 0 and not (is_stopped and trial.lines[0].startswith("interrupted")):
        failure = f"it does not say that it was interrupted: {trial.lines}"
    return Found(scenario.name, fault, end, failure or finished(scenario, folder, expected))


def _kill_review(campaign: Campaign, rng: random.Random) -> Found:
    """Kill a server while somebody answers: every answer that it confirmed is kept, and the next server goes on."""
    folder, moment = campaign.fresh(), rng.uniform(0, LONGEST_REVIEW)
    fault, confirmed = f"SIGKILL {moment:.2f} s after its start", dict[tuple[str, str], int]()
    for is_killed in (True, False):
        log = folder / "review.log"
        log.unlink(missing_ok=True)

        def serve(log: Path = log) -> int:
            os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT), 2)
            words = ("review", "completed.jsonl", "--port", "0", "--audit", "0", "--answers", "new.sqlite")
            return command((*words, "--recipe", "recipe.yaml"), folder)

        server = fork(serve)
        port = _port(log)
        killer = fork(lambda: _kill_later(server, moment)) if is_killed else None  # noqa: B023
        try:
            _answer(port, confirmed, rng, most=10_000 if is_killed else 3)
        except (OSError, http.client.HTTPException, ValueError):
            if not is_killed:
                return Found(REVIEW, fault, AGAIN, f"the next server does not answer: {log.read_text()[-200:]}")
        if not is_killed:
            os.kill(server, signal.SIGTERM)
        wait_for(server, 30)
        if killer is not None:
            wait_for(killer, None)
        end_session(server)
        if "Traceback" in log.read_text():
            return Found(REVIEW, fault, AGAIN, f"traceback: {log.read_text().splitlines()[-1]}")
    kept = {(each.image, each.label): each.value for each in AnswerStore(folder / "new.sqlite").current()}
    lost = [cell for cell, value in confirmed.items() if kept.get(cell) != value]
    with sqlite3.connect(folder / "new.sqlite") as connection:
        (health,) = connection.execute("PRAGMA integrity_check").fetchone()
    failure = f"{len(lost)} confirmed answers are lost" if lost else None if health == "ok" else f"SQLite: {health}"
    return Found(REVIEW, fault, AGAIN, failure or left_behind(folder))


def _port(log: Path) -> int:
    for _ in range(6000):  # 5 minutes, since others may have the cores
        if log.is_file() and (found := re.search(r"at http://127\.0\.0\.1:(\d+)", log.read_text())):
            return int(found[1])
        time.sleep(0.05)
    raise SystemExit(f"the server does not start: {log.read_text()}")


def _kill_later(pid: int, seconds: float) -> int:
    time.sleep(seconds)
    os.kill(pid, signal.SIGKILL)
    return 0


def _answer(port: int, confirmed: dict[tuple[str, str], int], rng: random.Random, most: int) -> None:
    """Settle grids until there are no more, or until the server is gone; note what it has confirmed."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", "/")
    facts = json.loads(re.findall(r'id="facts">(.*?)</script>', connection.getresponse().read().decode())[0])
    person = {"who": "anna", "holder": "window-of-anna", "set": facts["set"]}

    def post(path: str, **body: Any) -> Any:
        connection.request("POST", f"/api/{path}", json.dumps({**person, **body}), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        content = answer.read()
        if answer.status != 200:
            raise ValueError(f"{path}: {answer.status} {content[:200]!r}")
        return json.loads(content)

    settled: list[list[tuple[str, str]]] = []
    for _ in range(most):
        if (grid := post("grid")["grid"]) is None:
            if not settled:
                return
            for cell in settled.pop():  # so that there is always something to answer
                confirmed.pop(cell, None)
            post("undo")
            continue
        cells = [each["cell"] for each in grid["cells"]]
        marked = [cell for cell in cells if rng.random() < 0.2]
        post("settle", cells=cells, marked=marked, accepts=True, keys=1, seconds=0.1)
        label = facts["classes"][grid["label"]]
        settled.append([(each["file"], label) for each in grid["cells"]])
        confirmed.update({(each["file"], label): -1 if each["cell"] in marked else 1 for each in grid["cells"]})


def kills(campaign: Campaign) -> list[Case]:
    """Run the kills. Every scenario gets its share of them."""
    return _stops(campaign, signal.SIGKILL, [REVIEW] * REVIEW_KILLS)


def interrupts(campaign: Campaign) -> list[Case]:
    """Run the interrupts. Every scenario gets its share of them, as of the kills."""
    return _stops(campaign, signal.SIGINT, [])


def _stops(campaign: Campaign, by: signal.Signals, others: list[str]) -> list[Case]:
    """Stop scenarios by a signal; `others`: names of further cases, which share in the schedule."""
    schedule = [scenario.name for scenario in SCENARIOS for _ in range(scenario.kills)] + others
    random.Random(0).shuffle(schedule)  # the same for every seed, so that a case keeps its scenario
    by_name, undisturbed = {scenario.name: scenario for scenario in SCENARIOS}, Undisturbed(campaign)

    def case(number: int, rng: random.Random) -> Found:
        name = schedule[number % len(schedule)]
        return _kill_review(campaign, rng) if name == REVIEW else _stop(campaign, by_name[name], undisturbed, by, rng)

    return campaign.run(case)
