"""docs/add-a-method.md, followed to the letter in a copy of the repository."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY

GUIDE = REPOSITORY / "docs" / "add-a-method.md"


def run(words: list[str], folder: Path, out: Path | None = None) -> str:
    """What a command says in that copy; into a file if the guide says so."""
    environment = {**os.environ, "PYTHONPATH": f"{folder / 'src'}:{folder}"}
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    if out is not None:
        out.write_text(done.stdout)
    return done.stdout


@pytest.mark.soak
def test_the_guide_adds_a_method_in_one_file(world, plain, tmp_path):
    folder = tmp_path / "copy"
    for part in ("src", "tests", "docs"):
        shutil.copytree(REPOSITORY / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(REPOSITORY / "pyproject.toml", folder)
    guide = GUIDE.read_text()

    written = re.findall(r"^Write `([^`]+)`.*?```python\n(.*?)```", guide, re.DOTALL | re.MULTILINE)
    assert [file for file, _ in written] == ["src/aevlp/losses/focal.py", "tests/losses/test_focal.py"]
    for file, content in written:
        assert not (folder / file).exists()
        (folder / file).write_text(content)

    (commands,) = re.findall(r"```console\n(.*?)```", guide, re.DOTALL)
    said = []
    for command in commands.splitlines():
        line, _, target = command.partition(" > ")
        words = shlex.split(line.replace("DATA", str(world)).replace("RUN", str(tmp_path / "run")))
        if words[0] == "python":
            words = [sys.executable, *words[1:], "-p", "no:cacheprovider", "-k", "focal"]
        else:
            words = [sys.executable, "-m", *words]
        if "train" in words:
            words += plain
        said.append(run(words, folder, folder / target if target else None))

    assert "Lin et al., Focal Loss for Dense" in " ".join(said[0].replace("│", " ").split())
    assert "focal, best epoch" in said[1]
    assert "| `focal` | Focal loss: whatever" in (folder / "docs" / "methods.md").read_text()
    passed = re.search(r"(\d+) passed", said[3])
    assert passed
    assert int(passed[1]) > 10
    checks = [[sys.executable, "-m", "ruff", "check", *(f for f, _ in written)]]
    checks += [[sys.executable, "-m", "ruff", "format", "--check", *(f for f, _ in written)]]
    for check in checks:
        run(check, folder)
