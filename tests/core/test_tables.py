"""What commands print, to a reader who leaves."""

import subprocess
import sys

import pytest


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
