"""Damage to bytes and to values: what a flipped bit, a broken copy or a careless editor makes of a file."""

import json
import random
from collections.abc import Callable, Iterator
from typing import Any

Path = tuple[Any, ...]
DEEP = "\x00deep\x00"  # stands for a nesting that no program can build
NESTED = 20_000
HOSTILE: tuple[Any, ...] = (
    *(float("nan"), float("inf"), -float("inf"), -1, 0, 1, 2, 0.5, -0.5, 1e308, 1e-320, 10**30, 2**63, -(2**31)),
    *(True, False, None, "", "text", "nan", "-1", "../../etc/passwd", "/", "\x00", "\ud800", "a" * 100_000, "=1+1", "é\u202e"),
    *([], {}, [[]], [None], [1, "a", {}], {"": None}, {"a": {"b": [1]}}, DEEP),
)


def damage_bytes(content: bytes, rng: random.Random) -> tuple[bytes, str]:
    """Return damaged bytes, and the name of the damage."""
    name, function = rng.choice(BYTES)
    return function(content, rng), name


def _flip(content: bytes, rng: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(rng.choice((1, 1, 1, 8))):
        if changed:
            changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _zero(content: bytes, rng: random.Random) -> bytes:
    start = rng.randrange(len(content) + 1)
    length = min(rng.choice((1, 16, 512)), len(content) - start)
    return content[:start] + bytes(length) + content[start + length :]


def _insert(content: bytes, rng: random.Random) -> bytes:
    start = rng.randrange(len(content) + 1)
    return content[:start] + rng.randbytes(rng.choice((1, 4, 64))) + content[start:]


def _cut_out(content: bytes, rng: random.Random) -> bytes:
    start = rng.randrange(len(content) + 1)
    return content[:start] + content[start + rng.choice((1, 16, 256)) :]


BYTES: tuple[tuple[str, Callable[[bytes, random.Random], bytes]], ...] = (
    ("bits flipped", _flip),
    ("bits flipped", _flip),
    ("truncated", lambda content, rng: content[: rng.randrange(len(content) + 1)]),
    ("empty", lambda content, rng: b""),
    ("zeros", _zero),
    ("bytes inserted", _insert),
    ("bytes cut out", _cut_out),
    ("twice", lambda content, rng: content + content),
    ("UTF-16", lambda content, rng: content.decode("latin-1").encode("utf-16")),
    ("byte order mark", lambda content, rng: b"\xef\xbb\xbf" + content),
    ("not UTF-8", lambda content, rng: content.replace(b"a", b"\xe9", 3)),
    ("only spaces", lambda content, rng: b" \n" * 20),
    ("random bytes", lambda content, rng: rng.randbytes(200)),
)


def damage_value(value: Any, rng: random.Random) -> tuple[Any, str]:
    """Return a copy of a JSON value with one part deleted, replaced, doubled or renamed, and the name of the damage."""
    value = json.loads(json.dumps(value))
    paths = [path for path in _paths(value) if path]
    if not paths or rng.random() < 0.04:
        found = rng.choice(HOSTILE)
        return found, f"all of it: {_short(found)}"
    path = rng.choice(paths)
    parent = value
    for key in path[:-1]:
        parent = parent[key]
    key, kind, where = path[-1], rng.random(), ".".join(map(str, path))
    if kind < 0.2:
        del parent[key]
        return value, f"{where} deleted"
    if kind < 0.3 and isinstance(parent, list):
        parent.append(parent[key])
        return value, f"{where} doubled"
    if kind < 0.3 and isinstance(parent, dict):
        parent[f"{key}x"] = parent.pop(key)
        return value, f"{where} renamed"
    if kind < 0.4:
        other = rng.choice(paths)
        parent[key] = json.loads(json.dumps(_at(value, other)))
        return value, f"{where} as {'.'.join(map(str, other))}"
    found = rng.choice(HOSTILE)
    if kind < 0.5 and isinstance(parent[key], int | float) and not isinstance(parent[key], bool):
        found = parent[key] * rng.choice((-1, 1000, 1e-9)) + rng.choice((0, 1))
    parent[key] = found
    return value, f"{where}: {_short(found)}"


def json_text(value: Any, rng: random.Random) -> str:
    """Return a value as JSON; now and then with a key that stands there twice."""
    text = json.dumps(value, indent=rng.choice((None, 2)))
    if rng.random() < 0.05 and isinstance(value, dict) and value:
        key, other = rng.choice(list(value)), rng.choice(HOSTILE[:24])
        text = text.rstrip()[:-1] + f", {json.dumps(key)}: {json.dumps(other)}}}"
    return text.replace(json.dumps(DEEP), "[" * NESTED + "]" * NESTED)


def _paths(value: Any, path: Path = ()) -> Iterator[Path]:
    yield path
    if isinstance(value, dict):
        for key in value:
            yield from _paths(value[key], (*path, key))
    elif isinstance(value, list):
        for index in range(min(len(value), 60)):
            yield from _paths(value[index], (*path, index))


def _at(value: Any, path: Path) -> Any:
    for key in path:
        value = value[key]
    return value


def _short(value: Any) -> str:
    text = "deep nesting" if value == DEEP else repr(value)
    return text if len(text) <= 30 else f"{text[:30]}..."
