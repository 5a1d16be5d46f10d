"""Check this machine: every check on every device, each in processes of its own, so that a crash is a row of the table."""

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.table import Table

from aevlp.core.errors import UserError
from aevlp.core.files import read_json
from aevlp.core.processes import environment_of_job
from aevlp.core.tables import terminal_or_markdown
from aevlp.experiments.doctor.checks import ANSWER, CHECKS, SURVEY, Check, Step

CHILD = ("-m", "aevlp.experiments.doctor.child")
LONGEST = 300  # seconds of a step
log = logging.getLogger("aevlp")


@dataclass(frozen=True)
class Finding:
    """The answer of a check on a device."""

    device: str
    check: str
    is_passed: bool | None  # None: a fact and no check
    seen: str


def checks_named(only: str | None) -> list[Check]:
    """Return the checks that `--only` names, or all."""
    names = list(CHECKS) if only is None else dict.fromkeys(only.split(","))
    return [CHECKS.find(name, f"--only {name}") for name in names]


def examine(checks: Sequence[Check], device: str) -> Iterator[Finding]:
    """Yield a finding per check and device of a kind (auto: all), as they come; only a temporary folder is written to.

    What checks compare with is computed on the CPU first, even if it is not asked for.
    """
    with TemporaryDirectory(prefix="aevlp-doctor-") as temporary:
        folder = Path(temporary)
        is_passed, seen = _step(SURVEY, "cpu", folder, os.environ)
        yield Finding("machine", "versions", None if is_passed else False, seen)
        if not is_passed:
            return
        found = read_json(folder / "survey.json")
        devices: dict[str, str] = found["devices"]
        if device not in ("auto", *(name.partition(":")[0] for name in devices)):
            raise UserError(f"--device {device}: this machine has none that torch can use; use --device auto")
        gpus = sum(name.startswith("cuda:") for name in devices)
        for name, about in devices.items():
            kind, _, index = name.partition(":")
            is_asked = device in ("auto", kind)
            if is_asked:
                yield Finding(name, "device", None, about)
            environment = environment_of_job(os.environ, int(index or 0), found["threads"], gpus)
            first = {check.reference for check in checks} if kind == "cpu" else set()
            own = [check for check in CHECKS.values() if check.name in first or (is_asked and check in checks)]
            for check in [check for check in own if kind in check.devices]:
                log.info("%s: %s", name, check.name)
                yield Finding(name, check.name, *_answer(check, name, folder, environment))


def _answer(check: Check, device: str, folder: Path, environment: Mapping[str, str]) -> tuple[bool, str]:
    """Take the steps of a check until one fails; return whether none did, and what was seen last."""
    for step in check.steps:
        is_passed, seen = _step(step, device, folder, environment)
        if not is_passed:
            break
    return is_passed, seen


def _step(step: Step, device: str, folder: Path, environment: Mapping[str, str]) -> tuple[bool, str]:
    """Take a step in a process of its own; return whether it passed, and what was seen. A crash is seen too."""
    (folder / ANSWER).unlink(missing_ok=True)
    words = [sys.executable, *CHILD, step.function, step.argument, device, str(folder)]
    try:
        done = subprocess.run(
            words, env=dict(environment), stdin=subprocess.DEVNULL, capture_output=True, timeout=LONGEST, check=False
        )
    except subprocess.TimeoutExpired:
        return False, f"no answer after {LONGEST} seconds"
    if done.returncode < 0:
        return False, (signal.strsignal(-done.returncode) or f"signal {-done.returncode}").lower()
    with suppress(UserError):
        answer = read_json(folder / ANSWER)
        return bool(answer["passed"]), str(answer["seen"])
    lines = done.stderr.decode(errors="replace").strip().splitlines()
    return False, f"ended with exit code {done.returncode}: {lines[-1] if lines else 'no message'}"


def table(findings: Sequence[Finding]) -> Table | str:
    """Return a table with a row per finding: for a terminal or, elsewhere, in Markdown."""
    words = {True: "passed", False: "failed", None: ""}
    rows = [(each.device, each.check, words[each.is_passed], " ".join(each.seen.split())) for each in findings]
    return terminal_or_markdown(("device", "check", "result", "seen"), rows)
