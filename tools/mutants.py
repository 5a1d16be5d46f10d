"""Change one thing at a time in the losses and in DAMP, and see whether a test fails: mutation testing with mutmut.

    pip install -c constraints.txt mutmut
    python -m tools.mutants FOLDER                      all of losses/ and damp/; the same again goes on
    python -m tools.mutants FOLDER --only damp/views    one module
    python -m tools.mutants FOLDER --sample 250         so many, drawn at random from those that a stopped run has not tried

FOLDER gets a copy of the source and the tests of these rooms and of the sources that use them. Prints a table, and writes the
changes that no test saw to FOLDER/survivors.md. Tests of commands are left out for their time.
"""

import argparse
import ast
import json
import os
import random
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

REPOSITORY = Path(__file__).parent.parent
ROOMS = ("losses", "damp")
TESTED_BY = ("tests/losses", "tests/damp", "tests/sources")
CAUGHT, SURVIVED, NOT_REACHED, NOT_TRIED = "caught", "survived", "reached by no test", "not tried"
EXIT_CODES = {None: NOT_TRIED, 0: SURVIVED, 5: NOT_REACHED, 33: NOT_REACHED}
"""How mutmut notes the end of the tests of a mutant -> what it means; every other code means that a test failed or hung."""


def undecorated(source: str) -> str:
    """Return a module whose functions are registered by a call after their definition: mutmut skips those with a decorator."""
    lines = source.splitlines()
    for node in reversed(ast.parse(source).body):
        if isinstance(node, ast.FunctionDef) and node.decorator_list:
            calls = [f"{ast.unparse(decorator)}({node.name})" for decorator in node.decorator_list]
            assert node.end_lineno is not None
            lines[node.end_lineno : node.end_lineno] = ["", "", *calls]
            del lines[node.decorator_list[0].lineno - 1 : node.lineno - 1]
    return "\n".join(lines) + "\n"


def configuration(only: Sequence[str]) -> str:
    """Return the section of pyproject.toml that mutmut reads."""
    values = {
        "source_paths": ["src"],
        "only_mutate": [f"src/aevlp/{part}.py" if "/" in part else f"src/aevlp/{part}/*" for part in only],
        "pytest_add_cli_args_test_selection": list(TESTED_BY),
        "pytest_add_cli_args": ["-p", "no:cacheprovider"],
        "use_git_change_detection": False,
        "timeout_multiplier": 3.0,
    }
    return "\n[tool.mutmut]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items())


def write_copy(folder: Path, only: Sequence[str]) -> None:
    """Write the source and the tests to `folder`, ready for mutmut."""
    left_out = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for part in ("src", "tests", "tools"):
        shutil.copytree(REPOSITORY / part, folder / part, ignore=left_out)
    for file in sorted((folder / "src/aevlp/losses").glob("*.py")):
        file.write_text(undecorated(file.read_text()))
    (folder / "pyproject.toml").write_text((REPOSITORY / "pyproject.toml").read_text() + configuration(only))


def is_copy(folder: Path, only: Sequence[str]) -> bool:
    """Return whether a folder is a copy in which these parts are changed."""
    settings = folder / "pyproject.toml"
    return settings.is_file() and settings.read_text().endswith(configuration(only))


def results(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the name of every mutant, and what became of it."""
    for file in sorted((folder / "mutants" / "src" / "aevlp").rglob("*.meta")):
        for name, code in json.loads(file.read_text())["exit_code_by_key"].items():
            yield name, EXIT_CODES.get(code, CAUGHT)


def module_of(mutant: str) -> str:
    """Return room/module of a mutant, whose name is aevlp.ROOM.MODULE.FUNCTION with marks of mutmut."""
    _, room, *module, _ = mutant.split(".")
    return "/".join((room, *(module or ["__init__"])))


def table(found: Iterable[tuple[str, str]]) -> str:
    """Return the counts of each module, of each room and of all, in Markdown."""
    counts: dict[str, Counter[str]] = {}
    for name, end in found:
        module = module_of(name)
        for part in (module, f"{module.partition('/')[0]}/", "all"):
            counts.setdefault(part, Counter())[end] += 1
    lines = ["| | mutants | tried | caught | survived | reached by no test |", "| --- | --- | --- | --- | --- | --- |"]
    for part, ends in sorted(counts.items()):
        tried = ends.total() - ends[NOT_TRIED]
        share = f" ({ends[CAUGHT] / tried:.0%})" if tried else ""
        lines.append(f"| {part} | {ends.total()} | {tried} | {ends[CAUGHT]}{share} | {ends[SURVIVED]} | {ends[NOT_REACHED]} |")
    return "\n".join(lines)


def mutmut(*words: str) -> list[str]:
    """Return the words that run mutmut."""
    return [sys.executable, "-m", "mutmut", *words]


def write_survivors(folder: Path, found: Iterable[tuple[str, str]]) -> Path:
    """Write the change that each survivor made."""
    shown = []
    for name, end in found:
        if end == SURVIVED:
            change = subprocess.run(mutmut("show", name), cwd=folder, capture_output=True, text=True, check=True)
            shown.append(f"## {name}\n\n```diff\n{change.stdout.strip()}\n```\n")
    file = folder / "survivors.md"
    file.write_text("\n".join(shown))
    return file


def main(argv: Sequence[str] | None = None) -> None:
    """Run mutmut on a copy, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the copy goes; one that is there goes on")
    parser.add_argument("--only", nargs="+", default=ROOMS, help="rooms or modules, as damp or damp/views")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="mutants that are tried at a time")
    parser.add_argument(
        "--sample", type=int, help="mutants, drawn at random from those that were not tried (mutmut tries quick ones first)"
    )
    given = parser.parse_args(argv)
    if find_spec("mutmut") is None:
        parser.error("mutmut is not installed; pip install -c constraints.txt mutmut")
    for part in given.only:
        if not any((REPOSITORY / "src/aevlp" / name).exists() for name in (part, f"{part}.py")):
            parser.error(f"--only {part}: there is no such room or module in src/aevlp")
    if not given.folder.exists():
        write_copy(given.folder, given.only)
    elif not is_copy(given.folder, given.only):
        parser.error(f"{given.folder}: exists and is not a copy of these parts (--only); choose another folder")
    names = []
    if given.sample is not None:
        left = [name for name, end in results(given.folder) if end == NOT_TRIED]
        if not 0 < given.sample <= len(left):
            parser.error(f"--sample {given.sample}: {len(left)} were listed and not tried; run without it first, and stop it")
        names = random.Random(0).sample(left, given.sample)
    # One thread each: a process that is forked from one with several may wait for them without end.
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": ""}
    done = subprocess.run(mutmut("run", "--max-children", str(given.jobs), *names), cwd=given.folder, env=environment)
    found = list(results(given.folder))
    if done.returncode or not found:
        raise SystemExit(f"mutmut failed with exit code {done.returncode}; its last lines say why")
    print(table(found))
    print(f"changes that no test saw: {write_survivors(given.folder, found)}")


if __name__ == "__main__":
    main()
