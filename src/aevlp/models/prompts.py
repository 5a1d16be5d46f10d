"""Prompt tables: class -> its prompts. The benchmarks' come with the package; users write their own in the same format."""

import json
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path

import yaml

from aevlp.core.errors import UserError, did_you_mean, first_few
from aevlp.core.yaml_lines import line_of, read_nodes
from aevlp.data.benchmarks import PROMPT_TABLES

NO_TABLE = "none"
"""Value of `--prompts` for the class names themselves."""
NULL = "tag:yaml.org,2002:null"

Prompts = tuple[str, ...]
"""The prompts of one class, at least one; their embeddings are averaged."""


def prompt_tables() -> list[str]:
    """Return the names of the tables that come with the package, one per benchmark."""
    return sorted(path.stem for path in PROMPT_TABLES.glob("*.yaml"))


def table_file(name: str) -> Path:
    """Return the file of a table: a name of one that comes with the package, or a path."""
    shipped = prompt_tables()
    path = PROMPT_TABLES / f"{name}.yaml" if name in shipped else Path(name)
    if not path.exists():
        raise UserError(
            f"--prompts {name}: no such table or file{did_you_mean(name, shipped)}; "
            f"name one of {', '.join(shipped)}, a file, or none for the class names themselves"
        )
    return path


def settled_table(name: str) -> str | None:
    """Return the value that a run records for `--prompts NAME`: a shipped table's name, an absolute path, or None for none.

    A table that cannot be read is refused.
    """
    if name == NO_TABLE:
        return None
    path = table_file(name)
    read_table(path)
    return name if name in prompt_tables() else str(path.absolute())


def read_table(path: Path) -> dict[str, Prompts]:
    """Return class -> prompts of a table file, in the order of its lines."""
    table: dict[str, Prompts] = {}
    lines: dict[str, int] = {}
    for name, value, line in _entries(path):
        where = f"{path}, line {line}"
        if name in lines:
            raise UserError(f"{where}: class '{name}' is already on line {lines[name]}; remove one, or list both prompts in it")
        nodes = value.value if isinstance(value, yaml.SequenceNode) else [value]
        if not all(isinstance(node, yaml.ScalarNode) for node in nodes):
            raise UserError(
                f'{where}: class \'{name}\' must have a prompt, or a list of prompts: ["a photo of a dog.", "a dog."]'
            )
        prompts = tuple("" if node.tag == NULL else node.value.strip() for node in nodes)
        if not prompts or "" in prompts:
            raise UserError(f"{where}: class '{name}' has an empty prompt; write one, such as a photo of a {name}.")
        table[name], lines[name] = prompts, line
    if not table:
        raise UserError(f"{path}: no prompts in it; write a line per class, such as dog: a photo of a dog.")
    return table


def _entries(path: Path) -> Iterator[tuple[str, yaml.Node, int]]:
    """Yield (class, its value, line number) of every entry, as text: `no` and `1` are class names like any other."""
    root = read_nodes(path, "; a line is class: prompt, with quotes around a text with ': ' in it")
    if root is None:
        return
    if not isinstance(root, yaml.MappingNode):
        where = f"{path}, line {line_of(root)}"
        raise UserError(f"{where}: not a table of prompts; a line is class: prompt, such as dog: a photo of a dog.")
    for key, value in root.value:
        line = line_of(key)
        if not isinstance(key, yaml.ScalarNode):
            raise UserError(f"{path}, line {line}: a class must be a single name; put it in quotes")
        yield key.value, value, line


def class_prompts(name: str | None, template: str, classes: Sequence[str]) -> list[Prompts]:
    """Return the prompts of each class: from a table, which must have exactly these classes, or from the template."""
    if name is None:
        return [(template.replace("{}", label),) for label in classes]
    table = read_table(table_file(name))
    _refuse_other_classes(name, table, classes)
    return [table[label] for label in classes]


def digest_of(prompts: Sequence[Prompts]) -> str:
    """Return a hash of the prompts of all classes."""
    return blake2b(json.dumps(prompts).encode(), digest_size=16).hexdigest()


def _refuse_other_classes(name: str, table: Mapping[str, Prompts], classes: Sequence[str]) -> None:
    missing = [label for label in classes if label not in table]
    foreign = [label for label in table if label not in set(classes)]
    wrong = []
    if missing:
        wrong.append(f"no prompt for {len(missing)} of the {len(classes)} classes ({first_few(missing)})")
    if foreign:
        near = did_you_mean(foreign[0], missing or classes)
        noun = "class" if len(foreign) == 1 else "classes"
        wrong.append(f"prompts for {len(foreign)} {noun} that the image set does not have ({first_few(foreign)}){near}")
    if wrong:
        edit = "write a table of your own" if name in prompt_tables() else "edit the table"
        raise UserError(f"--prompts {name}: {' and '.join(wrong)}; {edit}, or use the class names themselves with --prompts none")
