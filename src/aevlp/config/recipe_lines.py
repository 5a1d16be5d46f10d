"""What stands on which line of a YAML file of nested mappings; what YAML would pass over in silence is refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

from aevlp.core.errors import UserError
from aevlp.core.yaml_lines import line_of, read_nodes


@dataclass(frozen=True)
class Entry:
    """A key with dots, the text of its value (None: a list) and the line it stands on."""

    key: str
    text: str | None
    line: int


def entries(path: Path) -> list[Entry]:
    """All that a file sets, in its order; a key given twice within a mapping is refused, and so is a file that sets nothing."""
    root = read_nodes(path)
    if root is None:
        raise UserError(f"{path}: there is nothing in it; a recipe sets options (section: key: value), see aevlp train --help")
    if not isinstance(root, yaml.MappingNode):
        kind = "a list" if isinstance(root, yaml.SequenceNode) else repr(root.value)[:60]
        raise UserError(f"{path}, line {line_of(root)}: a recipe must be a mapping of keys to values, not {kind}")
    return list(_walk(root, "", path, ()))


def _walk(node: yaml.Node, key: str, path: Path, above: tuple[yaml.Node, ...]) -> Iterator[Entry]:
    if isinstance(node, yaml.ScalarNode):
        yield Entry(key, node.value, line_of(node))
    elif not isinstance(node, yaml.MappingNode):
        yield Entry(key, None, line_of(node))
    else:
        if node in above:
            raise UserError(f"{path}, line {line_of(node)}: {key} contains itself")
        seen: dict[str, int] = {}
        for name, value in node.value:
            if not isinstance(name, yaml.ScalarNode):
                raise UserError(f"{path}, line {line_of(name)}: a key must be a word, not a list or a mapping")
            inner = f"{key}.{name.value}" if key else name.value
            if name.value in seen:  # YAML would take the last
                before = seen[name.value]
                raise UserError(f"{path}, line {line_of(name)}: {inner} stands on line {before} already; keep one of them")
            seen[name.value] = line_of(name)
            yield from _walk(value, inner, path, (*above, node))
