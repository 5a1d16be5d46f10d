"""The same images in every kind of set: folders, a table, Parquet, save_to_disk, WebDataset, and a remote address."""

import csv
import io
import json
import tarfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq

from aevlp.core.remote import RemotePath
from tests.colours import write_world

STRUCT = pa.struct([("bytes", pa.binary()), ("path", pa.string())])


@dataclass(frozen=True)
class Item:
    name: str
    label: str
    split: str
    content: bytes


def colour_items(folder: Path, *, train: int = 30, test: int = 10) -> list[Item]:
    """Images of the world of colours with one label each, in the order in which every kind of set has them."""
    world = write_world(folder, train=train, test=test)
    with (world / "labels.csv").open() as file:
        rows = list(csv.DictReader(file))
    items = []
    for row in rows:
        path = world / row["image"]
        items.append(Item(path.name, row["labels"].split(";")[0], row["split"], path.read_bytes()))
    return sorted(items, key=lambda item: (item.split, item.label, item.name))


def as_folder(items: Iterable[Item], root: Path) -> Path:
    for item in items:
        path = root / item.split / item.label / item.name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(item.content)
    return root


def as_table(items: Iterable[Item], root: Path) -> Path:
    lines = ["image,labels,split"]
    for item in items:
        (root / "photos").mkdir(parents=True, exist_ok=True)
        (root / "photos" / item.name).write_bytes(item.content)
        lines.append(f"photos/{item.name},{item.label},{item.split}")
    (root / "labels.csv").write_text("\n".join(lines))
    return root


def features(**kinds: object) -> dict[bytes, bytes]:
    """The metadata by which `datasets` describes columns."""
    return {b"huggingface": json.dumps({"info": {"features": kinds}}).encode()}


def write_parquet(file: Path, columns: dict[str, pa.Array], metadata: dict[bytes, bytes] | None = None, group: int = 7) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns).replace_schema_metadata(metadata), file, row_group_size=group)
    return file


def image_array(items: Sequence[Item]) -> pa.Array:
    return pa.array([{"bytes": item.content, "path": item.name} for item in items], STRUCT)


def as_parquet(items: Sequence[Item], root: Path) -> Path:
    names = sorted({item.label for item in items})
    for split in ("train", "test"):
        some = [item for item in items if item.split == split]
        labels = pa.array([names.index(item.label) for item in some], pa.int64())
        described = features(image={"_type": "Image"}, label={"names": names, "_type": "ClassLabel"})
        write_parquet(root / "data" / f"{split}-00000-of-00001.parquet", {"image": image_array(some), "label": labels}, described)
    return root


def as_saved(items: Sequence[Item], root: Path) -> Path:
    import datasets

    names = sorted({item.label for item in items})
    kinds = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=names)})
    splits = {}
    for split in ("train", "test"):
        some = [item for item in items if item.split == split]
        rows = {"image": [{"bytes": item.content, "path": None} for item in some], "label": [item.label for item in some]}
        splits[split] = datasets.Dataset.from_dict(rows, features=kinds)
    datasets.DatasetDict(splits).save_to_disk(str(root))
    return root


def write_tar(file: Path, members: Iterable[tuple[str, bytes]]) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(file, "w") as archive:
        for name, content in members:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return file


def as_tar(items: Sequence[Item], root: Path, key: str = "labels") -> Path:
    for split in ("train", "test"):
        some = [item for item in items if item.split == split]
        for first in range(0, len(some), 12):
            members: list[tuple[str, bytes]] = []
            for number, item in enumerate(some[first : first + 12]):
                members.append((f"{number:04d}.png", item.content))
                members.append((f"{number:04d}.json", json.dumps({key: [item.label]}).encode()))
            write_tar(root / f"{split}-{first:06d}.tar", members)
    return root


def in_memory(folder: Path, name: str) -> RemotePath:
    """A copy of a folder on fsspec's file system in memory."""
    system = fsspec.filesystem("memory")
    for path in folder.rglob("*"):
        if path.is_file():
            system.pipe_file(f"/{name}/{path.relative_to(folder).as_posix()}", path.read_bytes())
    return RemotePath(f"memory://{name}")


KINDS: dict[str, Callable[[Sequence[Item], Path], Path]] = {
    "folder": as_folder,
    "table": as_table,
    "parquet": as_parquet,
    "save-to-disk": as_saved,
    "webdataset": as_tar,
}
