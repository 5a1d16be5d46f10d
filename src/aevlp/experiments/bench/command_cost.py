"""Time and peak memory of commands, each in a process of its own."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.request import urlopen

_LAUNCH = """
import os, signal, subprocess, sys, time
parent, command = int(sys.argv[1]), sys.argv[2:]
child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
signal.signal(signal.SIGTERM, lambda *_: child.terminate())
ended = 0
while not ended:
    time.sleep(0.01)
    ended, status, used = os.wait4(child.pid, os.WNOHANG)
    if os.getppid() != parent:
        child.kill()
print(used.ru_maxrss, used.ru_utime + used.ru_stime)
sys.exit(os.waitstatus_to_exitcode(status) & 255)
"""
"""A small process in between: the peak of a child starts at the peak of the process that forked it. It ends with its parent."""

_ADDRESS = re.compile(r"http://\S+")


@dataclass(frozen=True)
class CommandCost:
    """Time and memory of a command."""

    seconds: float
    peak: float  # resident MB
    processor: float  # seconds of all its threads


def cost_of(words: Sequence[object]) -> CommandCost:
    """Run the command `aevlp WORDS` in a process of its own and return its cost."""
    return _cost(words, lambda _: None)


def cost_to_first_page(words: Sequence[object]) -> CommandCost:
    """Run a command that serves a page and stop it when the page has been read; return its cost up to then."""

    def read_page(process: subprocess.Popen[str]) -> None:
        assert process.stderr is not None
        for line in process.stderr:
            if found := _ADDRESS.search(line):
                with urlopen(found.group()) as page:
                    page.read()
                process.terminate()
                return

    return _cost(words, read_page)


def _cost(words: Sequence[object], meanwhile: Callable[[subprocess.Popen[str]], object]) -> CommandCost:
    launcher = [sys.executable, "-S", "-c", _LAUNCH, str(os.getpid()), sys.executable, "-m", "aevlp", *map(str, words)]
    started = time.perf_counter()
    with subprocess.Popen(launcher, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        meanwhile(process)
        out, err = process.communicate()
    seconds = time.perf_counter() - started
    if process.returncode:
        raise RuntimeError(f"aevlp {' '.join(map(str, words))} failed:\n{err}")
    peak, processor = map(float, out.split())
    unit = 1 if sys.platform == "darwin" else 1024  # bytes there, kilobytes elsewhere
    return CommandCost(seconds, peak * unit / 1e6, processor)
