"""Processes that end with the one that started them."""

import os
import signal
import subprocess
import sys

import pytest

from aevlp.core.processes import lost_process

CHILD = """
import signal, time
from aevlp.core.processes import end_with_launcher
signal.signal(signal.SIGINT, signal.{})
end_with_launcher()
print("ready", flush=True)
time.sleep(600)
"""
PARENT = """
import os, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", sys.argv[1]], env={**os.environ, **eval(sys.argv[2])})
child.wait()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="an orphan keeps its parent's id there")
@pytest.mark.parametrize("environment", ["{'AEVLP_PARENT': str(os.getpid())}", "{'TORCHELASTIC_RUN_ID': 'none'}"])
@pytest.mark.parametrize("interrupts", ["default_int_handler", "SIG_IGN"])
def test_a_process_ends_with_the_one_that_started_it(environment, interrupts):
    """Also where interrupts are ignored, as in the background of a shell."""
    words = [sys.executable, "-c", PARENT, CHILD.format(interrupts), environment]
    parent = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert parent.stdout is not None
    assert parent.stdout.readline() == b"ready\n"
    parent.send_signal(signal.SIGKILL)
    assert parent.stdout.read() == b""  # until the child, which has it open too, has ended
    parent.wait()


def test_a_process_of_a_shell_does_not_end_with_it():
    code = "from aevlp.core.processes import *; end_with_launcher(); print(threading.active_count())"
    plain = {key: value for key, value in os.environ.items() if key not in ("AEVLP_PARENT", "TORCHELASTIC_RUN_ID")}
    assert subprocess.run([sys.executable, "-c", code], env=plain, capture_output=True, text=True, check=True).stdout == "1\n"


def test_only_an_error_about_another_process_is_one(monkeypatch):
    reset = RuntimeError("[gloo/transport/tcp/pair.cc:537] Read error [10.0.0.7]:2856: Connection reset by peer. GLHF!")
    assert lost_process(reset) is None  # a process alone has no other
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "3")
    said = "process 1: one of the other 2 processes has ended or cannot be reached (Connection reset by peer); "
    assert str(lost_process(reset)).startswith(said)
    assert lost_process(RuntimeError("mat1 and mat2 shapes cannot be multiplied")) is None
