"""What commands print, to a reader who leaves."""

import subprocess
import sys
from pathlib import Path

import pytest

from aevlp.core.tables import next_steps


def test_the_next_commands_can_be_typed_as_they_stand():
    said = next_steps(["predict", Path("my runs/first"), "PATH"], ["check", Path("photos")])
    assert said == "next: aevlp predict 'my runs/first' PATH\n      aevlp check photos"


@pytest.mark.parametrize("words", [["methods"], ["methods", "--markdown"], ["--help"]], ids=["table", "text", "overview"])
def test_a_reader_may_leave_before_the_end(words):
    """As `aevlp methods | head -1` does."""
    command = [sys.executable, "-m", "aevlp", *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    said = process.stderr.read()
    assert (process.wait(), said) == (0, "")
