"""Prompt tables: class -> the texts that stand for it. Those of the benchmarks lie here; users write their own the same way."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path

import yaml

from aevlp.core.errors import UserError, did_you_mean
from aevlp.core.yaml_lines import line_of, read_nodes
from aevlp.data.benchmarks import PROMPT_TABLES
from aevlp.data.classes import some

NO_TABLE = "none"
"""What a user says for the class names themselves."""
NULL = "tag:yaml.org,2002:null"

Prompts = tuple[str, ...]
"""The texts of one class, whose embeddings are averaged; at least one."""


def prompt_tables() -> list[str]:
    """The tables that come with the package, one per benchmark."""
    return sorted(path.stem for path in PROMPT_TABLES.glob("*.yaml"))


def table_file(name: str) -> Path:
    """The file of a table: one that comes with the package, or a path to one's own."""
    shipped = prompt_tables()
    path = PROMPT_TABLES / f"{name}.yaml" if name in shipped else Path(name)
    if not path.exists():
        raise UserError(
            f"--prompts {name}: no such table or file{did_you_mean(name, shipped)}; "
            f"name one of {', '.join(shipped)}, a file, or none for the class names themselves"
        )
    return path


def settled_table(name: str) -> str | None:
    """What a run records for `--prompts NAME`, readable if it is a table: its name, its absolute path, or None for none."""
    if name == NO_TABLE:
        return None
    path = table_file(name)
    read_table(path)
    return name if name in prompt_tables() else str(path.absolute())


def read_table(path: Path) -> dict[str, Prompts]:
    """Class -> prompts of a table file, in the order of its lines."""
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
    """(class, its value, line number) of every entry, as text: `no` and `1` are class names like any other."""
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
    """The prompts of each class: those of a table, which must have exactly these classes, or without one the template's."""
    if name is None:
        return [(template.replace("{}", label),) for label in classes]
    table = read_table(table_file(name))
    _refuse_other_classes(name, table, classes)
    return [table[label] for label in classes]


def digest_of(prompts: Sequence[Prompts]) -> str:
    """Names the prompts of all classes."""
    return blake2b(json.dumps(prompts).encode(), digest_size=16).hexdigest()


def _refuse_other_classes(name: str, table: Mapping[str, Prompts], classes: Sequence[str]) -> None:
    missing = [label for label in classes if label not in table]
    strange = [label for label in table if label not in set(classes)]
    if not missing and not strange:
        return
    wrong = []
    if missing:
        wrong.append(f"no prompt for {len(missing)} of the {len(classes)} classes ({some(missing)})")
    if strange:
        near = did_you_mean(strange[0], missing or classes)
        noun = "class" if len(strange) == 1 else "classes"
        wrong.append(f"prompts for {len(strange)} {noun} that the image set does not have ({some(strange)}){near}")
    edit = "write a table of your own" if name in prompt_tables() else "edit the table"
    raise UserError(f"--prompts {name}: {' and '.join(wrong)}; {edit}, or take the class names themselves with --prompts none")
