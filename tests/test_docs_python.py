"""docs/python.md: every Python block in it runs.

The blocks of a section (##) are one program, run in a folder that has `photos/`, an image set, and `run/`, a run trained on it.
A block below a line `<!-- not run: reason -->` is only compiled.
"""

import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from aevlp.cli.main import main
from aevlp.config.config import build_config
from aevlp.config.recipe import read_recipe, recipe_file
from aevlp.losses.gpr import GprOptions
from tests.colours import write_world
from tests.conftest import REPOSITORY

PAGE = REPOSITORY / "docs" / "python.md"


@dataclass(frozen=True)
class Section:
    """A section's code; every line has the number that it has on the page, so that errors point there."""

    title: str
    run: str
    compiled: str


def sections(page: str) -> list[Section]:
    """The sections of a page that have Python blocks."""
    lines = page.splitlines()
    title, in_block, is_run = "", False, True
    found: dict[str, tuple[list[str], list[str]]] = {}
    for number, line in enumerate(lines):
        if in_block and line == "```":
            in_block, is_run = False, True
        elif in_block:
            run, compiled = found.setdefault(title, ([""] * len(lines), [""] * len(lines)))
            (run if is_run else compiled)[number] = line
        elif line == "```python":
            in_block = True
        elif line.startswith("<!-- not run: "):
            is_run = False
        elif line.startswith("## "):
            title = line.removeprefix("## ")
        elif line:
            is_run = True
    assert not in_block, "a block has no end"
    return [Section(title, "\n".join(run), "\n".join(compiled)) for title, (run, compiled) in found.items()]


def run_code(code: str, folder) -> subprocess.CompletedProcess[str]:
    """Runs code in a process of its own, with the folder as the current one."""
    (folder / "code.txt").write_text(code)
    program = "exec(compile(open('code.txt').read(), 'docs/python.md', 'exec'))"
    return subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """Where photos/ and run/ are made, once."""
    return tmp_path_factory.mktemp("places")


@pytest.fixture
def folder(places, small, tmp_path):
    """A folder with photos/ and run/. They are made here, since only here is the store the test's own."""
    if not (places / "run").exists():
        write_world(places / "photos")
        main(["train", str(places / "photos"), "--out", str(places / "run"), *small])
    return Path(shutil.copytree(places, tmp_path / "folder"))


AFTERWARDS = {
    "The loss alone": """
from sklearn.metrics import average_precision_score

assert (pseudo == 1).sum() > 500 and (pseudo == -1).sum() == 400  # a fifth of the classes
hits = truth[(pseudo == 1) & (observed == 0)].float()
assert hits.mean() > 0.9
assert average_precision_score(truth, model(images).detach()) > 0.9
network.eval()
assert average_precision_score(truth, network(images).logits.detach()) > truth.float().mean() + 0.1
assert trainer.state.epoch == epochs
assert torch.allclose(loss, gpr(model(images), observed, 0 * observed, **GprOptions(eta=0).at(1, 8, 1), expected_positives=7))
""",
}
"""What must hold after a section's code, by title."""


@pytest.mark.parametrize("section", sections(PAGE.read_text()), ids=lambda section: section.title)
def test_the_code_of_a_section_runs(section, folder):
    compile(section.compiled, "docs/python.md", "exec")
    done = run_code(section.run + AFTERWARDS.get(section.title, ""), folder)
    assert done.returncode == 0, done.stderr


def test_what_must_hold_is_about_sections_that_there_are():
    assert set(AFTERWARDS) <= {section.title for section in sections(PAGE.read_text())}


def test_the_values_of_the_schedule_are_those_of_the_options():
    rows = re.findall(r"^\| (\d+) \| ([-\d.]+) \| ([-\d.]+) \| ([-\d.]+) \| ([-\d.]+) \|$", PAGE.read_text(), re.MULTILINE)
    assert [row[0] for row in rows] == ["1", "4", "8"]
    for epoch, *values in rows:
        settings = GprOptions().at(int(epoch), 8, 1)
        assert [settings[name] for name in ("w", "b", "mu", "sigma")] == pytest.approx([float(value) for value in values])


def test_the_constants_of_the_paper_are_those_of_the_recipes():
    rows = re.findall(r"^\| ([\w-]+) \| `([^`]*)` \| ([\d.]+) \|$", PAGE.read_text(), re.MULTILINE)
    assert [row[0] for row in rows] == ["VOC", "COCO", "NUS-WIDE", "CUB"]
    for name, arguments, expected in rows:
        values = read_recipe(recipe_file(name.split("-")[0].lower()))
        config = build_config("", "aevlp", values)
        assert eval(f"GprOptions({arguments})") == config.loss
        assert float(expected) == config.train.expected_positives


PAGE_OF_A_TEST = """# Title
## First
```python
a = 1
```
Text.
```python
print(a + 1)
```
```console
nothing
```
## Second

<!-- not run: needs a download -->

```python
missing()
```

```python
from pathlib import Path
assert Path("photos/labels.csv").is_file() and Path("run/model").is_dir()
wrong_here
```
"""


def test_sections_are_programs_and_errors_point_to_the_page(folder):
    first, second = sections(PAGE_OF_A_TEST)
    assert (first.title, second.title) == ("First", "Second")
    assert run_code(first.run, folder).stdout == "2\n"
    assert second.compiled.split() == ["missing()"]
    failed = run_code(second.run, folder)
    assert failed.returncode == 1
    number = PAGE_OF_A_TEST.splitlines().index("wrong_here") + 1
    assert f'File "docs/python.md", line {number}' in failed.stderr
    assert "NameError" in failed.stderr
