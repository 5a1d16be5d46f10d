"""Words that a shell completes, asked for as bash does through argcomplete."""

import os
import subprocess
import sys

import pytest

ASK = "import os; os.dup2(1, 8); os.dup2(2, 9); from aevlp.cli.main import main; main()"


def completions(line: str) -> list[str]:
    shell = {"COMP_LINE": line, "COMP_POINT": str(len(line)), "COMP_TYPE": "9", "_ARGCOMPLETE": "1", "_ARGCOMPLETE_IFS": "\n"}
    environment = {**os.environ, **shell, "_ARGCOMPLETE_SUPPRESS_SPACE": "1"}
    done = subprocess.run([sys.executable, "-c", ASK], env=environment, capture_output=True, text=True, check=True)
    assert "Traceback" not in done.stderr
    return [word.strip() for word in done.stdout.split("\n")]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("aevlp tr", ["train"]),
        ("aevlp train photos --method aev", ["aevlp"]),
        ("aevlp train --method aevlp --damp.neg", ["--damp.negative_fraction", "--damp.negatives"]),
        ("aevlp train --method an --damp.neg", [""]),  # `an` asks no teacher
        ("aevlp compare photos --device c", ["cpu", "cuda"]),
        ("aevlp train --recipe no-such-file --ep", [""]),
    ],
)
def test_a_word_is_completed_by_what_may_stand_there(line, expected):
    assert completions(line) == expected
