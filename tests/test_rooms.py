"""The order of the rooms: a room imports only from rooms above it, wherever in a file the import stands."""

import ast
from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

import aevlp

PACKAGE = Path(aevlp.__file__).parent
ROOMS = (
    *("core", "data", "losses", "models", "store", "damp", "sources"),
    *("config", "training", "inference", "reports", "experiments", "cli"),
)
LONGEST_CHAIN = 14  # modules
LONGEST_FUNCTION = 60  # lines
MOST_INNER_IMPORTS = 80


def name_of(path: Path) -> str:
    return ".".join(["aevlp", *path.relative_to(PACKAGE).with_suffix("").parts]).removesuffix(".__init__")


MODULES = {name_of(path): path for path in PACKAGE.rglob("*.py")}


def imports(path: Path, *, at_the_top_only: bool = False) -> Iterator[str]:
    """Modules of the package that a file imports; with `at_the_top_only`, not those inside functions or for types alone."""
    tree = ast.parse(path.read_text())
    for node in tree.body if at_the_top_only else ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "aevlp":
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in MODULES else node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == "aevlp")


def room_of(module: str) -> str:
    return (*module.split("."), "")[1]


def test_the_root_holds_the_rooms_and_nothing_else():
    found = {path.name for path in PACKAGE.iterdir() if path.name != "__pycache__"}
    assert found == {*ROOMS, "__init__.py", "__main__.py", "py.typed"}


def test_a_room_imports_only_from_rooms_above_it():
    wrong = [
        f"{module} imports {other}"
        for module, path in MODULES.items()
        for other in imports(path)
        if room_of(module) in ROOMS and room_of(other) in ROOMS and ROOMS.index(room_of(other)) > ROOMS.index(room_of(module))
    ]
    assert wrong == []


def test_no_chain_of_imports_is_long():
    @cache
    def chain(module: str) -> tuple[str, ...]:
        below = [chain(other) for other in set(imports(MODULES[module], at_the_top_only=True)) if other != module]
        return (module, *max(below, key=len, default=()))

    longest = max(map(chain, MODULES), key=len)
    assert len(longest) <= LONGEST_CHAIN, " -> ".join(longest)
    assert all(other in set(imports(MODULES[module])) for module, other in pairwise(longest))


def test_the_tests_have_the_same_rooms():
    folders = {path.name for path in Path(__file__).parent.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert folders - {"tools"} <= set(ROOMS)


def functions() -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for module, path in MODULES.items():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{module}.{node.name}", node


def test_functions_are_short():
    long = {name: node.end_lineno - node.lineno + 1 for name, node in functions() if node.end_lineno is not None}
    assert {name: lines for name, lines in long.items() if lines > LONGEST_FUNCTION} == {}
    assert long["aevlp.training.loop.train"] < 50


def test_few_imports_stand_inside_functions():
    found = [
        f"{name}, line {node.lineno}"
        for name, function in functions()
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    assert len(found) <= MOST_INNER_IMPORTS, found


def test_no_class_name_means_two_things():
    names = Counter(
        node.name for path in MODULES.values() for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ClassDef)
    )
    assert [name for name, count in names.items() if count > 1] == []
