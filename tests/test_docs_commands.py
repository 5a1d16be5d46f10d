"""The documentation: the site builds, and every command in it is one that the parsers accept."""

import re
import shlex
import subprocess
import sys

import pytest

from aevlp.core.options import Parser
from tests.cli.run import aevlp
from tests.conftest import REPOSITORY

PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md"))]
COMMAND = re.compile(r"^ {4,}(?:\w+=\S+ )*(?:(?:srun )?torchrun .* -m )?(?:\.venv/bin/)?(aevlp .*)$")


def commands(text: str) -> list[str]:
    """The lines of a page's blocks that begin with aevlp, continued lines joined."""
    lines = text.replace("\\\n", " ").splitlines()
    return [found[1] for line in lines if (found := COMMAND.match(line))]


def words_of(line: str) -> list[str]:
    """The words as a shell would pass them on: without a comment, what follows a pipe or goes into a file.

    What stands for several possible words is one of them.
    """
    line = line.replace("$R", "--data voc2012-224 --recipe voc --out voc").replace("OPTIONS", "").replace("METHOD", "gr")
    words = [word for word in shlex.split(line, comments=True) if word != "..."]
    ends = [place for place, word in enumerate(words) if word in ("|", ">", "&&")]
    return words[1 : min(ends, default=None)]


class Accepted(Exception):
    """The parser has accepted the words; nothing is run."""


@pytest.mark.parametrize(("page", "line"), [(page.name, line) for page in PAGES for line in commands(page.read_text())])
def test_every_command_in_the_documentation_is_accepted(capsys, monkeypatch, tmp_path, page, line):
    parse = Parser.read

    def read(self, argv):
        parse(self, argv)
        raise Accepted

    monkeypatch.setattr(Parser, "read", read)
    monkeypatch.chdir(tmp_path)
    for recipe in ("tuned.yaml", "linear.yaml", "my.yaml"):
        (tmp_path / recipe).write_text("train: {epochs: 2}\n")
    words = words_of(line)
    if "--run" in words:  # its configuration decides which options there are
        run = tmp_path / words[words.index("--run") + 1]
        run.mkdir(parents=True)
        (run / "config.yaml").write_text("recipe: default\nmethod: consensus\n")
    if "--version" in words or "--help" in words or "--help-all" in words:
        assert aevlp(capsys, *words).code == 0
        return
    with pytest.raises(Accepted):
        aevlp(capsys, *words)


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
