"""YAML files as nodes with line numbers; an error names the line."""

import errno
from pathlib import Path

import yaml

from aevlp.core.errors import UserError

MOST_NODES = 1_000_000
"""Values in a file. A prompt table for 100,000 classes has 300,000."""


def read_nodes(path: Path, hint: str = "") -> yaml.Node | None:
    """Return the content of a YAML file, None if it is empty. `hint` ends error messages: how to write such a file."""
    content = b""
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            raise OSError(errno.EINVAL, "a pipe, a socket or a device, not a regular file")
        content = path.read_bytes()
        root: yaml.Node | None = yaml.compose(content.decode("utf-8-sig"), Loader=yaml.SafeLoader)
        if root is not None:
            _check(root, path)
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}); check the path and its permissions") from None
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise UserError(f"{path}, line {line}: not UTF-8 text; save it in that encoding") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place, why = f", line {mark.line + 1}" if mark else "", str(error.problem or error.context)
        if why.startswith("but "):
            why = f"{error.context} {why}"
        if "\\t" in why:
            why = "a tab where only spaces may stand"
        raise UserError(f"{path}{place}: cannot be read as YAML: {why}{hint}") from None
    except yaml.YAMLError as error:
        raise UserError(f"{path}: cannot be read as YAML: {' '.join(str(error).split())}{hint}") from None
    except RecursionError:
        raise UserError(f"{path}: cannot be read as YAML: lists or mappings within each other, too many{hint}") from None
    return root


def _check(root: yaml.Node, path: Path) -> None:
    """Refuse aliases that stand for themselves, or for more than any reader gets through: a few lines of them can.

    Refuse text that no file can hold, too.
    """
    sizes: dict[int, int] = {}

    def size(node: yaml.Node) -> int:
        """Return the number of nodes in `node` with every alias written out."""
        if isinstance(node, yaml.ScalarNode):
            try:
                node.value.encode(errors="surrogateescape")  # names of files need not be UTF-8
            except UnicodeEncodeError:
                raise UserError(f"{path}, line {line_of(node)}: half of a character (a lone surrogate); write it anew") from None
            return 1
        if id(node) not in sizes:
            sizes[id(node)] = MOST_NODES + 1  # until it is known: a node within itself has no end
            inner = node.value if isinstance(node, yaml.SequenceNode) else [part for pair in node.value for part in pair]
            sizes[id(node)] = 1 + sum(map(size, inner))
            if sizes[id(node)] > MOST_NODES:
                raise UserError(f"{path}, line {line_of(node)}: its aliases stand for too much, or for themselves; write it out")
        return sizes[id(node)]

    size(root)


def line_of(node: yaml.Node) -> int:
    """Return the line that a node begins on."""
    return node.start_mark.line + 1
