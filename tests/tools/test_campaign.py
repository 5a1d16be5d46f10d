"""A small part of the fault campaign, and a control: a reader that fails must be reported with the line that repeats it."""

import json
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from tools.campaign.cases import Case, read_cases, repeat_line, table
from tools.campaign.damage import damage_bytes, damage_value, json_text
from tools.campaign.malformed import malformed
from tools.campaign.sanity import strict_json
from tools.campaign.trial import Trial, wait_fairly

from tests.conftest import REPOSITORY

SMALL = """
from tools.campaign import __main__ as campaign
campaign.COUNTS = {"kills": 3, "interrupts": 3, "mutations": 48, "requests": 25}
campaign.SHARDS = {}
campaign.main(["all", "--out", OUT, "--seed", "7", "--jobs", "1"])
"""
CONTROL = """
from aevlp.data.readers import READERS, readers
from tools.campaign.__main__ import main

def fail(path, *_):
    raise ValueError("a reader that does not say what is wrong")

readers()
object.__setattr__(READERS["table"], "read", fail)
main(["mutations", "--out", OUT, "--seed", "7", "--only", NUMBER])
"""


def run(program: str, out: Path, number: int = 0) -> subprocess.CompletedProcess[str]:
    """Run a campaign in a process of its own: it forks, which a process with threads should not."""
    code = f"OUT, NUMBER = {str(out)!r}, '{number}'\n{program}"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=REPOSITORY)


@pytest.fixture(scope="module")
def campaign(tmp_path_factory):
    """The folder of a small campaign, and what it printed."""
    out = tmp_path_factory.mktemp("campaign")
    return out, run(SMALL, out)


@pytest.mark.soak
def test_a_small_campaign_finds_nothing(campaign):
    out, done = campaign
    assert done.returncode == 0, done.stdout + done.stderr
    text = (out / "campaign.md").read_text()
    assert "0 of 79 cases failed." in text
    cases = [json.loads(line) for file in out.glob("*/cases-*.jsonl") for line in file.read_text().splitlines()]
    assert Counter(case["part"] for case in cases) == {"kills": 3, "interrupts": 3, "mutations": 48, "requests": 25}
    assert {"done", "refused"} <= {case["end"] for case in cases}
    assert not list(out.glob("trial-*"))


@pytest.mark.soak
def test_a_reader_that_fails_is_reported_with_the_line_that_repeats_the_case(campaign):
    out, _ = campaign
    cases = read_cases((out / "mutations").glob("*.jsonl"))
    tables = ("completed.csv", "completed.jsonl", "world/labels.csv")
    number = next(
        each.number for each in cases if each.subject == "check" and each.fault.startswith(tables) and each.end == "done"
    )
    done = run(CONTROL, out, number)
    assert done.returncode == 1, done.stderr
    assert "traceback: ValueError: a reader that does not say what is wrong" in done.stdout
    assert f"python -m tools.campaign mutations --seed 7 --only {number}" in done.stdout


@pytest.mark.parametrize(
    ("trial", "says"),
    [
        (Trial(0, "", "", 1.0), None),
        (Trial(2, "", "warning\naevlp: a.csv: damaged; get it again\n", 1.0), None),
        (Trial(2, "", "", 1.0), "0 lines of refusal"),
        (Trial(2, "", "aevlp: one\naevlp: two\n", 1.0), "2 lines of refusal"),
        (Trial(1, "", "bad\n", 1.0), "exit code 1"),
        (Trial(130, "", "aevlp: interrupted\n", 1.0), "exit code 130"),
        (Trial(130, "", "aevlp: interrupted\n", 1.0, may_end_with=(0, 2, 130)), None),
        (Trial(130, "", "", 1.0, may_end_with=(0, 2, 130)), "0 lines of refusal"),
        (Trial(-9, "", "", 1.0), "exit code -9"),
        (Trial(0, "", "Traceback (most recent call last):\nValueError: x\n", 1.0), "traceback: ValueError: x"),
        (Trial(-9, "", "", 61.0, is_hung=True), "hangs"),
        (Trial(0, "", "", 1.0, orphans=2), "2 processes are left"),
    ],
)
def test_how_a_command_may_end(trial, says):
    assert trial.wrong is None if says is None else (trial.wrong or "").startswith(says)


WORK = "import os, time; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
WORK += "while time.process_time() < SECONDS: pass"


def start(code: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", code], start_new_session=True)


def test_time_that_others_had_the_core_is_not_counted():
    others = [start(WORK.replace("SECONDS", "60")) for _ in range(3)]
    try:
        started = time.monotonic()
        assert wait_fairly(start(WORK.replace("SECONDS", "1")).pid, 2.0) == 0  # a quarter of a core: four seconds
        assert time.monotonic() - started > 2
    finally:
        for other in others:
            other.kill()
            other.wait()


def test_a_command_that_sleeps_or_spins_hangs():
    for code in ("import time; time.sleep(60)", "while True: pass"):
        process = start(code)
        assert wait_fairly(process.pid, 0.5) is None
        process.kill()
        process.wait()


def test_a_case_depends_on_its_number_alone():
    value = {"a": [1, 2, {"b": "text"}], "c": None}
    for number in range(50):
        one, other = (damage_value(value, random.Random(number)) for _ in range(2))
        assert repr(one) == repr(other)
        assert damage_bytes(b"content", random.Random(number)) == damage_bytes(b"content", random.Random(number))
        assert malformed("serve", random.Random(number)) == malformed("serve", random.Random(number))
        json_text(one[0], random.Random(number))
    assert value == {"a": [1, 2, {"b": "text"}], "c": None}


def test_numbers_that_are_none_are_no_json():
    for text in ('{"p": NaN}', "[Infinity]", "[-Infinity]"):
        with pytest.raises(ValueError, match="is not JSON"):
            strict_json(text)


def test_the_table_counts_failures_and_repeats_them():
    cases = [
        Case("kills", 0, "score", "SIGKILL", "given again", None, 1.0, repeat_line("kills", 3, 0)),
        Case("kills", 1, "score", "SIGKILL", "given again", "it hangs", 61.0, repeat_line("kills", 3, 1)),
    ]
    text = table(cases, "today")
    assert "| kills | score | 2 | given again 2 | 1 | 61.0 |" in text
    assert "1 of 2 cases failed." in text
    assert "`python -m tools.campaign kills --seed 3 --only 1`" in text
