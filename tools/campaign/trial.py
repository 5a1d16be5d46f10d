"""One command in a process of its own, forked from one that has loaded everything: it starts in milliseconds and can be killed.

The process that forks runs no torch operation and starts no thread, so that its children are as good as new.
"""

import fcntl
import importlib
import os
import pkgutil
import resource
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import aevlp
from aevlp.cli.main import main

LIMIT = 60.0  # seconds, without those in which others had the cores; a command that takes longer hangs
LONGEST = 1800.0  # seconds, whoever had the cores
ORPHANS = 15.0  # seconds that the processes of a killed command have to end
PIPE = 1 << 20  # bytes
STOPPED = {signal.SIGKILL: -signal.SIGKILL, signal.SIGINT: 130}
"""Signals that stop a command -> the exit code that it must have then; negative: the signal ended it."""
UNLOADED = ("aevlp.__main__", "aevlp.experiments.doctor.child")


@dataclass(frozen=True)
class Trial:
    """The end of a command."""

    code: int
    """Exit code; negative: the signal that ended it."""
    out: str
    err: str
    seconds: float
    is_hung: bool = False
    orphans: int = 0
    """Processes that the command had started and that did not end after it."""
    may_end_with: tuple[int, ...] = (0, 2)
    """Exit codes; every one above 0 needs a line that says why."""

    @property
    def lines(self) -> list[str]:
        """The lines in which the command tells the user what is wrong."""
        return [line.removeprefix("aevlp: ") for line in self.err.splitlines() if line.startswith("aevlp: ")]

    @property
    def wrong(self) -> str | None:
        """Say what no command may do, if it did: hang, end with a traceback or another exit code, leave processes behind."""
        text = f"{self.out}\n{self.err}"
        if self.is_hung:
            return f"hangs (more than {LIMIT:.0f} s)"
        if "Traceback (most recent call last)" in text:
            return f"traceback: {' '.join(text.splitlines()[-1].split())[:200]}"
        if self.code not in self.may_end_with:
            return f"exit code {self.code}: {' '.join(self.err.split())[-200:]}"
        if self.code > 0 and len(self.lines) != 1:
            return f"{len(self.lines)} lines of refusal: {self.lines[:3]}"
        if self.orphans:
            return f"{self.orphans} processes are left"
        return None


def preload() -> None:
    """Load every module of the package, with torch and transformers."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false", PYTHONUNBUFFERED="1")
    os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")  # some virtual machines announce AMX and refuse it
    for module in pkgutil.walk_packages(aevlp.__path__, "aevlp."):
        if module.name not in UNLOADED:
            importlib.import_module(module.name)


def fork(job: Callable[[], int]) -> int:
    """Run a function in a forked process, the first of a new session; return its id. It ends with the function's value."""
    sys.stdout.flush()
    sys.stderr.flush()
    if (pid := os.fork()) != 0:
        return pid
    code = 1
    try:
        os.setsid()
        code = job()
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def wait_for(pid: int, seconds: float | None) -> int | None:
    """Return the exit code of a process, negative for a signal; None if it still runs after so many seconds."""
    handle = os.pidfd_open(pid)
    try:
        if not select.select([handle], [], [], seconds)[0]:
            return None
    finally:
        os.close(handle)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def wait_fairly(pid: int, seconds: float) -> int | None:
    """Wait as `wait_for` does, but do not count the time in which a process was ready to run and others had the cores."""
    started, left = time.monotonic(), seconds
    while left > 0:
        if (code := wait_for(pid, left)) is not None:
            return code
        passed = time.monotonic() - started
        left = min(seconds - passed + _waited_for_a_core(pid), LONGEST - passed)
    return None


def _waited_for_a_core(session: int) -> float:
    """Return the seconds for which the thread that waited longest, of all in a session, was ready to run and did not."""
    waited = 0
    for pid in _processes_of(session):
        with suppress(OSError):  # it ends meanwhile
            for thread in Path(f"/proc/{pid}/task").iterdir():
                waited = max(waited, int((thread / "schedstat").read_text().split()[1]))
    return waited / 1e9


def command(words: Sequence[str], folder: Path) -> int:
    """Run a command in a folder, in this process; return its exit code."""
    os.chdir(folder)
    sys.argv = ["aevlp", *words]
    try:
        main(list(words))
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(bool(end.code))
    return 0


def run(
    words: Sequence[str],
    folder: Path,
    *,
    stop: tuple[float, signal.Signals] | None = None,
    meanwhile: tuple[float, Callable[[], None]] | None = None,
    prepare: Callable[[], object] | None = None,
    limit: float = LIMIT,
) -> Trial:
    """Run `aevlp WORDS` in a folder, in a process of its own.

    `stop`: seconds, and the signal that it gets then: SIGKILL, or SIGINT for all its processes, as Ctrl-C sends it. `meanwhile`:
    seconds, and what happens then while the command runs. `prepare` runs in the process before the command.
    """
    with _Pipe() as out, _Pipe() as err:

        def job() -> int:
            os.dup2(out.end, 1)
            os.dup2(err.end, 2)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            if prepare is not None:
                prepare()
            signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell lets what it starts with & ignore it
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
            return command(words, folder)

        started = time.monotonic()
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # until the command has begun
        try:
            pid = fork(job)
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        code, is_hung = None, False
        if stop is not None and (code := wait_for(pid, stop[0])) is None:
            with suppress(ProcessLookupError):  # it has no session of its own yet
                (os.killpg if stop[1] == signal.SIGINT else os.kill)(pid, stop[1])
        if meanwhile is not None and (code := wait_for(pid, meanwhile[0])) is None:
            meanwhile[1]()
        if code is None and (code := wait_fairly(pid, limit)) is None:
            is_hung = True
            os.kill(pid, signal.SIGKILL)
            code = wait_for(pid, None)
        assert code is not None
        seconds = time.monotonic() - started
        orphans = end_session(pid)
        codes = (0, 2) if stop is None else (0, 2, STOPPED[stop[1]])
        return Trial(code, out.text(), err.text(), seconds, is_hung, orphans, codes)


def end_session(session: int) -> int:
    """Wait until the processes of a session have ended, then kill those that have not; return their number."""
    until = time.monotonic() + ORPHANS
    while (left := _processes_of(session)) and time.monotonic() < until:
        time.sleep(0.1)
    for pid in left:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return len(left)


def _processes_of(session: int) -> list[int]:
    found = []
    for path in Path("/proc").iterdir():
        if path.name.isdecimal():
            with suppress(OSError, ValueError):
                state, *numbers = (path / "stat").read_text().rpartition(")")[2].split()
                if state != "Z" and int(numbers[2]) == session:
                    found.append(int(path.name))
    return found


class _Pipe:
    """A pipe that holds all that a command prints; a limit on the size of files is none on a pipe."""

    def __enter__(self) -> "_Pipe":
        self._read, self.end = os.pipe()
        fcntl.fcntl(self.end, fcntl.F_SETPIPE_SZ, PIPE)
        os.set_blocking(self._read, False)
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._read)
        os.close(self.end)

    def text(self) -> str:
        """Return what is in the pipe."""
        found = b""
        with suppress(BlockingIOError):
            while piece := os.read(self._read, PIPE):
                found += piece
        return found.decode(errors="replace")


def limit_files(size: int) -> None:
    """Let no file of this process grow beyond so many bytes, as on a full disk."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
