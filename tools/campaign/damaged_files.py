"""Damage to files by their kind: each function changes a file in place and returns the name of the damage."""

import base64
import csv
import io
import json
import os
import random
import shutil
import sqlite3
import struct
import zipfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import yaml

from tools.campaign.damage import HOSTILE, NESTED, damage_bytes, damage_value, json_text

CELLS = (
    "",
    "nan",
    "-1",
    "1e999",
    "true",
    ";;;",
    "a;a",
    "../../x",
    "x" * 10_000,
    '"',
    "\x00",
    "é",
    "=1+1",
    "a=2",
    "a=nan",
    "train",
)
YAML_TRICKS = (
    "a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\nd: &d [*c, *c]\n",
    "!!python/object/apply:os.system [echo]\n",
    "method: [\n",
    "\tmethod: an\n",
    "method: an\nmethod: gr\n",
    "? {a: 1}\n: 2\n",
    "--- a\n--- b\n",
    "train: {epochs: 1_0}\n",
    "train:\n  epochs: .nan\n",
    "%YAML 9.9\n---\nmethod: an\n",
)


def damage_any(file: Path, rng: random.Random) -> str:
    """Damage the bytes of a file."""
    content, name = damage_bytes(file.read_bytes(), rng)
    file.write_bytes(content)
    return name


def replace_file(file: Path, rng: random.Random) -> str:
    """Put something else in a file's place: nothing, a folder, a loop of links, a pipe, or another file of the bench."""
    kind = rng.choice(("missing", "a folder", "a loop of links", "a pipe", "another file", "a dangling link"))
    others = [path for path in file.parent.iterdir() if path.is_file() and path != file]
    shutil.rmtree(file) if file.is_dir() else file.unlink()
    if kind == "a folder":
        file.mkdir()
    elif kind == "a loop of links":
        file.symlink_to(file.name)
    elif kind == "a dangling link":
        file.symlink_to("nowhere")
    elif kind == "a pipe":
        os.mkfifo(file)
    elif kind == "another file" and others:
        other = rng.choice(sorted(others))
        shutil.copy(other, file)
        kind = f"{other.name} in its place"
    return kind


def damage_json(file: Path, rng: random.Random) -> str:
    """Damage a value of a JSON file."""
    value, name = damage_value(json.loads(file.read_text()), rng)
    file.write_text(json_text(value, rng), errors="surrogatepass")
    return name


def damage_lines(file: Path, rng: random.Random) -> str:
    """Damage a JSON Lines file: a value of a line, or the lines."""
    lines = file.read_text().splitlines()
    place, kind = rng.randrange(len(lines)), rng.random()
    if kind < 0.1:
        lines.insert(place, lines[place])
        name = "a line twice"
    elif kind < 0.15:
        lines.insert(place, rng.choice(("", "null", "[]", "1", "{", '"text"', "{}")))
        name = "a foreign line"
    elif kind < 0.2:
        lines[place] = lines[place][: len(lines[place]) // 2]
        name = "half a line"
    else:
        value, name = damage_value(json.loads(lines[place]), rng)
        lines[place] = json_text(value, rng).replace("\n", " ")
    file.write_text("\n".join(lines) + "\n", errors="surrogatepass")
    return name


def damage_yaml(file: Path, rng: random.Random) -> str:
    """Damage a value of a YAML file, or write one of YAML's own tricks."""
    if rng.random() < 0.2:
        trick = rng.choice(YAML_TRICKS)
        file.write_text(trick if rng.random() < 0.5 else file.read_text() + trick)
        return f"YAML: {trick.splitlines()[0]}"
    value, name = damage_value(yaml.safe_load(file.read_text()), rng)
    if isinstance(value, str) and "\ud800" in value:
        value = "\\ud800"
    text = yaml.safe_dump(value).encode(errors="surrogatepass").replace(b'"\\0deep\\0"', b"[" * NESTED + b"]" * NESTED)
    file.write_bytes(text)
    return name


def damage_csv(file: Path, rng: random.Random) -> str:
    """Damage the cells, rows or columns of a table."""
    rows = list(csv.reader(io.StringIO(file.read_text())))
    row, column = rng.randrange(len(rows)), rng.randrange(len(rows[0]))
    kind = rng.choice(
        ("cell", "cell", "cell", "row twice", "row gone", "column gone", "column twice", "short row", "long row", "quote")
    )
    if kind == "cell" and column < len(rows[row]):
        rows[row][column] = rng.choice(CELLS)
        kind = f"row {row}, column {column}: {rows[row][column][:12]!r}"
    elif kind == "row twice":
        rows.insert(row, rows[row])
    elif kind == "row gone":
        del rows[row]
    elif kind == "column gone":
        rows = [[cell for place, cell in enumerate(each) if place != column] for each in rows]
    elif kind == "column twice":
        rows = [[*each, *each[column : column + 1]] for each in rows]
    elif kind == "short row":
        rows[row] = rows[row][:column]
    elif kind == "long row":
        rows[row] = [*rows[row], "more", ""]
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    content = text.getvalue()
    if kind == "quote":
        content = content.replace(",", ',"', 1)
    file.write_text(content)
    return kind


def damage_safetensors(file: Path, rng: random.Random) -> str:
    """Damage the header of a safetensors file, or its numbers."""
    content = file.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header, data, kind = content[8 : 8 + length], bytearray(content[8 + length :]), rng.random()
    if kind < 0.5:
        value, name = damage_value(json.loads(header), rng)
        header = json_text(value, random.Random(0)).encode(errors="surrogatepass")
        file.write_bytes(struct.pack("<Q", len(header)) + header + data)
        return f"header: {name}"
    if kind < 0.6:
        size = rng.choice((0, 1, len(content), 2**40, 2**64 - 1))
        file.write_bytes(struct.pack("<Q", size) + content[8:])
        return f"header of {size} bytes"
    number = rng.choice((b"\x00\x00\xc0\x7f", b"\x00\x00\x80\x7f", b"\x00\x00\x80\xff", b"\xff\xff\x7f\x7f"))
    place = rng.randrange(len(data) // 4) * 4
    data[place : place + 4] = number
    file.write_bytes(content[: 8 + length] + data)
    return f"a number: {number.hex()}"


def damage_npz(file: Path, rng: random.Random) -> str:
    """Damage an array of a .npz: its values, its shape, its type, or its name."""
    with np.load(file, allow_pickle=False) as found:
        arrays = {name: found[name] for name in found.files}
    name = rng.choice(sorted(arrays))
    array, kind = (
        arrays[name],
        rng.choice(("nan", "huge", "empty", "flat", "3d", "int", "text", "object", "gone", "half", "bomb", "scalar")),
    )
    changed: dict[str, Callable[[], object]] = {
        "nan": lambda: np.where(np.arange(array.size).reshape(array.shape) == 1, np.nan, 0.5),
        "huge": lambda: np.full(array.shape, 1e38, np.float64),
        "empty": lambda: array[:0],
        "flat": lambda: array.reshape(-1),
        "3d": lambda: array[None],
        "int": lambda: np.full(array.shape, -7, np.int64),
        "text": lambda: np.full(array.shape, "x"),
        "object": lambda: np.full(array.shape, None, object),
        "half": lambda: array[: len(array) // 2] if array.ndim else array,
        "scalar": lambda: np.float32(1),
    }
    if kind in changed:
        arrays[name] = np.asarray(changed[kind]())
    elif kind == "gone":
        del arrays[name]
    np.savez(file, **arrays)
    if kind == "bomb":
        with zipfile.ZipFile(file, "a", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(
                f"{name}.npy",
                b"\x93NUMPY\x01\x00"
                + b"\x76\x00"
                + b"{'descr': '<f4', 'fortran_order': False, 'shape': (9999999999, 99), }".ljust(118),
            )
    return f"{name}: {kind}"


def damage_sqlite(file: Path, rng: random.Random) -> str:
    """Change a cell of a database to something hostile, or its tables."""
    with closing(sqlite3.connect(file)) as connection, connection:
        tables = [
            name
            for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'")
        ]
        table = rng.choice(sorted(tables))
        columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
        column, kind = rng.choice(columns), rng.random()
        if kind < 0.1:
            connection.execute(f"DROP TABLE {table}")
            return f"no table {table}"
        if kind < 0.2:
            connection.execute(f"ALTER TABLE {table} RENAME COLUMN {column} TO renamed")
            return f"{table}.{column} renamed"
        if kind < 0.3:
            version = rng.choice((-1, 2, 99, 2**31 - 1))
            connection.execute(f"PRAGMA user_version = {version}")
            return f"version {version}"
        value = rng.choice(
            [each for each in HOSTILE if isinstance(each, float | int) and abs(each) < 2**63] + ["", "text", b"\xff\x00"]
        )
        one = "" if rng.random() < 0.5 else f" WHERE rowid = (SELECT min(rowid) FROM {table})"
        try:
            connection.execute(f"UPDATE OR IGNORE {table} SET {column} = ?{one}", (value,))
        except sqlite3.Error as error:
            return f"{table}.{column}: {error}"
    return f"{table}.{column} = {value!r}"


def damage_image(file: Path, rng: random.Random) -> str:
    """Put another content under an image's name: text, an SVG, a PostScript, a picture that says it is huge."""
    huge = (
        b"\x89PNG\r\n\x1a\n" + b"\x00\x00\x00\rIHDR" + struct.pack(">II", 60_000, 60_000) + b"\x08\x02\x00\x00\x00" + b"\x00" * 4
    )
    contents = {
        "text": b"no image",
        "SVG": b"<svg xmlns='http://www.w3.org/2000/svg'/>",
        "PostScript": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\nshowpage\n",
        "huge PNG": huge,
        "GIF": base64.b64decode("R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAICRAEAOw=="),
    }
    kind = rng.choice(sorted(contents))
    file.write_bytes(contents[kind])
    return kind


KINDS: dict[str, Callable[[Path, random.Random], str]] = {
    "json": damage_json,
    "jsonl": damage_lines,
    "yaml": damage_yaml,
    "csv": damage_csv,
    "safetensors": damage_safetensors,
    "npz": damage_npz,
    "sqlite": damage_sqlite,
    "image": damage_image,
    "bytes": damage_any,
}


def damage_file(file: Path, kind: str, rng: random.Random) -> str:
    """Damage a file: mostly by its kind, else its bytes, or something else in its place. Return the name of the damage."""
    choice = rng.random()
    if choice < 0.08:
        return replace_file(file, rng)
    return (damage_any if choice < 0.3 else KINDS[kind])(file, rng)
