"""Commands as a user types them, in this process (quick) or in one of their own."""

import hashlib
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aevlp.cli.main import main


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str


def aevlp(capsys, *words: object) -> Answer:
    """Runs a command in this process."""
    capsys.readouterr()
    try:
        main([str(word) for word in words])
        code = 0
    except SystemExit as stop:
        code = int(stop.code or 0)
    captured = capsys.readouterr()
    return Answer(code, captured.out, captured.err)


def refused(capsys, *words: object) -> str:
    """The one line that a command answers when the user must put something right."""
    answer = aevlp(capsys, *words)
    lines = [line for line in answer.err.splitlines() if line.startswith("aevlp: ")]
    assert answer.code == 2, answer
    assert len(lines) == 1, answer.err
    assert "Traceback" not in answer.err, answer.err
    return lines[0].removeprefix("aevlp: ")


def start(*words: object, processes: int = 1, program: Sequence[object] = ("-m", "aevlp"), **options) -> subprocess.Popen[str]:
    """Starts a command in a process of its own, or in several that work together."""
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={processes}"] if processes > 1 else []
    command = [sys.executable, *launcher, *map(str, program), *map(str, words)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def result_of(run: Path) -> dict[str, Any]:
    """The figures of a finished run."""
    found: dict[str, Any] = json.loads((run / "result.json").read_text())
    return found


def weights_of(run: Path) -> str:
    """A digest of the trained weights."""
    return hashlib.sha256((run / "model" / "model.safetensors").read_bytes()).hexdigest()
