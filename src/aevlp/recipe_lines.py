"""What stands on which line of a YAML file of nested mappings; what YAML would pass over in silence is refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

from aevlp.errors import UserError


@dataclass(frozen=True)
class Entry:
    """A key with dots, the text of its value (None: a list) and the line it stands on."""

    key: str
    text: str | None
    line: int


def entries(path: Path) -> list[Entry]:
    """All that a file sets, in its order; a key given twice within a mapping is refused, and so is a file that sets nothing."""
    root = _root(path)
    if root is None:
        raise UserError(f"{path}: there is nothing in it; a recipe sets options (section: key: value), see aevlp train --help")
    if not isinstance(root, yaml.MappingNode):
        kind = "a list" if isinstance(root, yaml.SequenceNode) else repr(root.value)[:60]
        raise UserError(f"{path}, line {_line(root)}: a recipe must be a mapping of keys to values, not {kind}")
    return list(_walk(root, "", path, ()))


def _root(path: Path) -> yaml.Node | None:
    """The file's content as YAML nodes, which know their lines."""
    try:
        root: yaml.Node | None = yaml.compose(path.read_text(encoding="utf-8-sig"), Loader=yaml.SafeLoader)
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise UserError(f"{path}, line {line}: not UTF-8 text; save it in that encoding") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place, why = f", line {mark.line + 1}" if mark else "", str(error.problem or error.context)
        if why.startswith("but "):
            why = f"{error.context} {why}"
        if "\\t" in why:
            why = "a tab where only spaces may stand"
        raise UserError(f"{path}{place}: cannot be read as YAML: {why}") from None
    except yaml.YAMLError as error:
        raise UserError(f"{path}: cannot be read as YAML: {' '.join(str(error).split())}") from None
    return root


def _walk(node: yaml.Node, key: str, path: Path, above: tuple[yaml.Node, ...]) -> Iterator[Entry]:
    if isinstance(node, yaml.ScalarNode):
        yield Entry(key, node.value, _line(node))
    elif not isinstance(node, yaml.MappingNode):
        yield Entry(key, None, _line(node))
    else:
        if node in above:
            raise UserError(f"{path}, line {_line(node)}: {key} contains itself")
        seen: dict[str, int] = {}
        for name, value in node.value:
            if not isinstance(name, yaml.ScalarNode):
                raise UserError(f"{path}, line {_line(name)}: a key must be a word, not a list or a mapping")
            inner = f"{key}.{name.value}" if key else name.value
            if name.value in seen:  # YAML would take the last
                before = seen[name.value]
                raise UserError(f"{path}, line {_line(name)}: {inner} stands on line {before} already; keep one of them")
            seen[name.value] = _line(name)
            yield from _walk(value, inner, path, (*above, node))


def _line(node: yaml.Node) -> int:
    return node.start_mark.line + 1
