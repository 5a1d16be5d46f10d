"""The documentation: the site builds, every command in it is one that the parsers accept, and those of its story run."""

import re
import shlex
import shutil
import subprocess
import sys

import pytest

from aevlp.core.options import Parser
from tests.cli.run import aevlp
from tests.colours import write_world
from tests.conftest import REPOSITORY

PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md"))]
COMMAND = re.compile(r"^    (?:OMP_NUM_THREADS=1 )?(?:\.venv/bin/)?(aevlp .*)$")
WAITING = ("review", "serve")  # they run until somebody ends them; tests of their own do that


def commands(page) -> list[str]:
    """The lines of a page's blocks that begin with aevlp, continued lines joined."""
    lines = page.read_text().replace("\\\n", " ").splitlines()
    return [found[1] for line in lines if (found := COMMAND.match(line))]


def words_of(line: str) -> list[str]:
    """The words as a shell would pass them on: without a comment, what follows a pipe or goes into a file."""
    words = shlex.split(line, comments=True)
    ends = [place for place, word in enumerate(words) if word in ("|", ">", "&&")]
    return words[1 : min(ends, default=None)]


class Accepted(Exception):
    """The parser has accepted the words; nothing is run."""


@pytest.mark.parametrize(("page", "line"), [(page.name, line) for page in PAGES for line in commands(page)])
def test_every_command_in_the_documentation_is_accepted(capsys, monkeypatch, tmp_path, page, line):
    parse = Parser.read

    def read(self, argv):
        parse(self, argv)
        raise Accepted

    monkeypatch.setattr(Parser, "read", read)
    monkeypatch.chdir(tmp_path)
    for recipe in ("tuned.yaml", "linear.yaml", "my.yaml"):
        (tmp_path / recipe).write_text("train: {epochs: 2}\n")
    words = words_of(line.replace("$R", "--data voc --recipe voc --out voc").replace("OPTIONS", "").replace("METHOD", "gr"))
    words = [word for word in words if word != "..."]
    if "--run" in words:  # its configuration decides which options there are
        run = tmp_path / words[words.index("--run") + 1]
        run.mkdir(parents=True)
        (run / "config.yaml").write_text("recipe: default\nmethod: consensus\n")
    if "--version" in words or "--help" in words or "--help-all" in words:
        assert aevlp(capsys, *words).code == 0
        return
    with pytest.raises(Accepted):
        aevlp(capsys, *words)


def test_the_story_of_your_photos_runs_from_the_folder_to_the_model(capsys, monkeypatch, tmp_path, small):
    """In one folder, in the order of the page; options make the models small, and nothing is downloaded."""
    monkeypatch.chdir(tmp_path)
    write_world(tmp_path / "photos", train=60)
    shutil.copytree(tmp_path / "photos" / "images", tmp_path / "new-photos")
    table = tmp_path / "photos" / "labels.csv"
    header, *rows = table.read_text().splitlines()
    table.write_text(
        "\n".join([header, *(row.replace(",train", ",val") if n % 4 == 0 else row for n, row in enumerate(rows))]) + "\n"
    )
    extra = {"train": [*small, "--report", "true"], "label": ["--device", "cpu"], "predict": ["--device", "cpu"]}
    done = []
    for line in commands(REPOSITORY / "docs" / "your-photos.md"):
        command, *words = words_of(line)
        if command in WAITING:
            continue
        answer = aevlp(capsys, command, *words, *extra.get(command, []))
        assert answer.code == 0, f"{line}\n{answer.err}"
        done.append(command)
    assert done == ["check", "train", "train", "label", "train", "rounds", "predict", "export"]
    for made in ("runs/first/report.html", "photos/completed.jsonl", "runs/second/rounds.html", "labels.csv"):
        assert (tmp_path / made).is_file(), made


def test_the_site_builds_without_a_broken_link(tmp_path):
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(words, cwd=REPOSITORY, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    start = (tmp_path / "site" / "index.html").read_text()
    assert "https://fonts" not in start  # nothing is fetched from elsewhere
    notebook = (tmp_path / "site" / "notebooks" / "first-steps.html").read_text()
    links = re.findall(r'href="(\.\./[^"#]+\.(?:md|html))', notebook)
    assert "../how-it-works.html" in links
    assert all((tmp_path / "site" / "notebooks" / link).is_file() for link in links)
