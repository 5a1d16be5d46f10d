"""The package: its version and extras, and a wheel and a source archive that are installed and used outside of the tree."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml

from aevlp import __version__
from tests.conftest import REPOSITORY

PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
EXTRAS = set(PROJECT["project"]["optional-dependencies"])
NAMED_EXTRA = re.compile(r"aevlp\[(\w+)\]|'\.\[(\w+)\]'|extra `(\w+)`")
BUILD = "import sys; from setuptools import build_meta as b; getattr(b, sys.argv[1])(sys.argv[2])"
SNIPPET = """
import aevlp
from aevlp.losses import gpr
from aevlp.losses.gpr import GprOptions
from torch import Tensor, zeros

result = aevlp.train("photos", "runs/first", epochs=2, options={"train.batch_size": 8})
mean: float | None = result.mAP
model = aevlp.load("runs/first")
found: list[dict[str, float]] = model.predict(["a.jpg"])
names: list[list[str]] = model.labels(["a.jpg"])
classes: list[str] = list(model.classes)
completed = aevlp.label("photos", "completed.csv", run="runs/first")
for image in completed:
    confidences: dict[str, float] = {name: score.confidence for name, score in image.proposed.items()}
value: Tensor = aevlp.losses.gr(zeros(2, 3), zeros(2, 3), w=1.0, b=0.0, mu=0.5, sigma=1.0, q1=0.5, q2=0.5)
settings = GprOptions().at(1, 8, cells=6)
value = gpr(zeros(2, 3), zeros(2, 3), zeros(2, 3), **settings, expected_positives=2.1)
try:
    aevlp.load("nowhere")
except aevlp.UserError as error:
    print(error)
"""


def test_every_extra_that_is_named_exists():
    pages = [*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").glob("*.md"), REPOSITORY / "mkdocs.yml", REPOSITORY / "Makefile"]
    sources = [*(REPOSITORY / "src").rglob("*.py"), REPOSITORY / "pyproject.toml"]
    named = {
        (next(filter(None, found)), file.name) for file in (*pages, *sources) for found in NAMED_EXTRA.findall(file.read_text())
    }
    assert {"datasets", "tracking", "serve", "export", "docs", "review", "timm"} <= {extra for extra, _ in named} & EXTRAS
    assert [(extra, file) for extra, file in named if extra not in EXTRAS] == []


def test_the_version_is_the_same_everywhere():
    assert yaml.safe_load((REPOSITORY / "CITATION.cff").read_text())["version"] == __version__
    released = re.findall(r"^## (\d+\.\d+\.\d+)", (REPOSITORY / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    assert released[0] == __version__
    tags = subprocess.run(["git", "tag", "--points-at", "HEAD"], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert [tag for tag in tags.stdout.split() if re.match(r"v\d", tag) and tag != f"v{__version__}"] == []


def test_only_the_python_that_is_tested_is_claimed():
    tested = re.findall(r'python-version: "([\d.]+)"', (REPOSITORY / ".github" / "workflows" / "ci.yml").read_text())
    prefix = "Programming Language :: Python :: "
    assert [line.removeprefix(prefix) for line in PROJECT["project"]["classifiers"] if line.startswith(prefix)] == tested


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    """A folder with the source archive, made from a copy of the tree without git, and the wheel, made from the archive."""
    folder = tmp_path_factory.mktemp("built")
    ignored = shutil.ignore_patterns(
        ".git", ".venv", "*.egg-info", "__pycache__", ".*_cache", "build", "demo-run", "runs", "site"
    )
    shutil.copytree(REPOSITORY, folder / "tree", ignore=ignored)
    build("build_sdist", folder / "tree", folder)
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as content:
        content.extractall(folder / "unpacked", filter="data")
    build("build_wheel", folder / "unpacked" / archive.name.removesuffix(".tar.gz"), folder)
    return folder


def build(hook: str, tree: Path, out: Path) -> None:
    """Builds as pip does, without asking an index for setuptools."""
    done = subprocess.run([sys.executable, "-c", BUILD, hook, out], cwd=tree, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def installed(built, tmp_path_factory) -> Path:
    """The bin folder of a new environment with the wheel; the packages that it needs are those of this environment."""
    home = tmp_path_factory.mktemp("installed") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", home], check=True)
    python = home / "bin" / "python"
    place = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = Path(subprocess.run([python, "-c", place], capture_output=True, text=True, check=True).stdout.strip())
    (wheel,) = built.glob("*.whl")
    words = ["--no-deps", "--no-index", "--disable-pip-version-check"]
    subprocess.run([sys.executable, "-m", "pip", "--python", python, "install", "-q", *words, wheel], check=True)
    # Files named .pth in a folder that is added like this are not read: the tree that is installed there stays out of sight.
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return home / "bin"


def outside(words: list[object], folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs a command in a folder outside of the tree."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(list(map(str, words)), cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.soak
def test_the_wheel_has_every_file_of_the_package(built):
    (wheel,) = built.glob("*.whl")
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("aevlp/")}
    package = REPOSITORY / "src" / "aevlp"
    wanted = {f"aevlp/{file.relative_to(package)}" for file in package.rglob("*") if file.is_file() and file.suffix != ".pyc"}
    assert wanted - packed == {"aevlp/experiments/demo/README.md"}  # for those who read the code
    assert packed - wanted == set()
    assert wheel.name.startswith(f"aevlp-{__version__}-")


@pytest.mark.soak
def test_the_wheel_works_outside_of_the_tree(installed, tmp_path):
    where = outside([installed / "python", "-c", "import aevlp; print(aevlp.__file__)"], tmp_path)
    assert Path(where.stdout.strip()).is_relative_to(installed.parent), where
    assert outside([installed / "aevlp", "--version"], tmp_path).stdout == f"aevlp {__version__}\n"
    assert "consensus" in outside([installed / "aevlp", "methods"], tmp_path).stdout
    demo = outside([installed / "aevlp", "demo", "--methods", "an", "--device", "cpu"], tmp_path)
    assert demo.returncode == 0, demo.stderr
    given = ["--recipe", "demo", "--damp.draws", "1", "--device", "cpu"]
    for words in (
        ["check", "demo-run/world"],
        ["train", "demo-run/world", "--out", "runs/first", *given, "--train.mode", "linear"],
        ["predict", "runs/first", "demo-run/world/images", "--out", "labels.csv", "--device", "cpu"],
        ["label", "demo-run/world", "--out", "completed.jsonl", *given],
    ):
        answer = outside([installed / "aevlp", *words], tmp_path)
        assert answer.returncode == 0, answer.stderr
    assert (tmp_path / "runs" / "first" / "report.html").stat().st_size > 100_000
    for file in ("labels.csv", "completed.jsonl"):
        assert len((tmp_path / file).read_text().splitlines()) > 1000


@pytest.mark.soak
def test_the_types_of_the_package_reach_its_users(installed, tmp_path):
    (tmp_path / "mine.py").write_text(SNIPPET)
    (tmp_path / "wrong.py").write_text("import aevlp\n\naevlp.load(3)\n")  # no types, no mistake
    words = [sys.executable, "-m", "mypy", "--strict", "--python-executable", installed / "python", "--config-file", ""]
    right = outside([*words, "mine.py"], tmp_path)
    assert right.returncode == 0, right.stdout
    wrong = outside([*words, "wrong.py"], tmp_path)
    assert "arg-type" in wrong.stdout
