"""WebDataset: tar archives of samples, each an image with a `.json`, `.cls` or `.txt` of the same name."""

import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

from aevlp.core.errors import UserError, first_few
from aevlp.data.dataset import ImageTable
from aevlp.data.files import IMAGE_SUFFIXES, files_of, fixed_classes, is_set_of
from aevlp.data.image_files import opened
from aevlp.data.label_columns import choose_column, classes_in, encoding_of, split_of
from aevlp.data.readers import DETECTED, ChosenColumns, Reader, register
from aevlp.data.records import LabelRecord, image_table
from aevlp.data.row_labels import POSITIVES
from aevlp.data.tar_files import TarImages

SUFFIX = ".tar"
JSON, NUMBER, TEXT = "json", "cls", "txt"
MOST_BYTES = 16 << 20  # of a file of labels
log = logging.getLogger("aevlp")
Sample = dict[str, str]  # suffix without its dot -> the member's name


def detects(path: Path) -> bool:
    """Return whether this is a tar archive, or a folder with some in it."""
    return is_set_of(path, SUFFIX)


def read(path: Path, chosen: ChosenColumns = DETECTED) -> ImageTable:
    """Return one image per sample, archive by archive in the order of their names; an archive's name tells its split."""
    root, names = files_of(path, SUFFIX)
    archives = {name: _archive(root / name) for name in names}
    samples = [(name, key, sample) for name, archive in archives.items() for key, sample in _samples(archive).items()]
    suffixes = _image_suffixes(path, [sample for *_, sample in samples], chosen.image)
    shown = [each for each in samples if any(suffix in each[2] for suffix in suffixes)]
    labels, what = _labels(path, archives, shown, chosen.label)
    encoding = encoding_of(labels, None, fixed := fixed_classes(root), f"{path}, {what}")
    log.info(
        "%s: images from %s, labels from %s (--image-column, --label-column)",
        path,
        ", ".join(f".{each}" for each in suffixes),
        what,
    )
    placed = []
    for (name, key, sample), value in zip(shown, labels, strict=True):
        where = f"{root / name}, sample {key}"
        positives, negatives = encoding.labels(value, where)
        member = next(sample[suffix] for suffix in suffixes if suffix in sample)
        record = LabelRecord(f"{name}/{member}", split_of(name), tuple(dict.fromkeys(positives)), rejected=tuple(negatives))
        placed.append((where, record))
    used = {label for _, record in placed for label in record.observed}
    table = image_table(placed, root, fixed or classes_in(encoding, used), "webdataset")
    without = len(samples) - len(shown)
    return replace(table, notes=(f"samples without an image, left out: {without:,}",)) if without else table


def _image_suffixes(path: Path, samples: list[Sample], wanted: str | None) -> list[str]:
    """Return the suffixes of the images: the one that the user wants, or all, as long as no sample has two images."""
    found = {suffix for sample in samples for suffix in sample}
    images = sorted(suffix for suffix in found if f".{suffix}" in IMAGE_SUFFIXES)
    if not images:
        raise UserError(f"{path}: no images in it; its members end in: {first_few(sorted(found), 8) or 'nothing'}")
    if wanted is None and all(sum(suffix in sample for suffix in images) <= 1 for sample in samples):
        return images
    chosen = choose_column("--image-column", wanted, [], images, path, "images")
    assert chosen is not None
    return [chosen]


def _archive(file: Path) -> TarImages:
    archive = opened(file)
    assert isinstance(archive, TarImages)
    return archive


def _samples(archive: TarImages) -> dict[str, Sample]:
    """Return key -> sample. A key is a member's name up to the first dot after its folders; its members follow each other."""
    samples: dict[str, Sample] = {}
    last = None
    for name in archive.names():
        folder, slash, file = name.rpartition("/")
        stem, _, suffix = file.partition(".")
        key = f"{folder}{slash}{stem}"
        if key != last and key in samples:
            raise UserError(f"{archive.file}: two samples have the key '{key}'; give each a key of its own")
        if not suffix:
            continue
        sample, last = samples.setdefault(key, {}), key
        if suffix.lower() in sample:
            raise UserError(f"{archive.file}: two members of the sample '{key}' end in .{suffix.lower()}; remove one")
        sample[suffix.lower()] = name
    return samples


def _labels(
    path: Path, archives: dict[str, TarImages], samples: list[tuple[str, str, Sample]], wanted: str | None
) -> tuple[list[Any], str]:
    """Return the value of each sample's label, None without one, and the words for where it is: a suffix, or a key in `.json`."""
    found = {suffix for *_, sample in samples for suffix in sample} & {JSON, NUMBER, TEXT}
    contents: list[Any] = []
    if JSON in found and wanted not in (NUMBER, TEXT):
        contents = [_parsed(archives[name], sample) for name, _, sample in samples]
    keys = sorted({key for content in contents if isinstance(content, dict) for key in content})
    is_plain = any(content is not None and not isinstance(content, dict) for content in contents)
    columns = [*keys, *sorted(found - {JSON}), *([JSON] if is_plain else [])]
    usual = [key for key in POSITIVES if key in keys][:1]
    obvious = columns if len(columns) == 1 else usual if found == {JSON} else []
    column = choose_column("--label-column", wanted, obvious, columns, path, "labels")
    if column is None:
        return [None] * len(samples), "nothing (.json, .cls or .txt)"
    if column in (NUMBER, TEXT) and column in found and column not in keys:
        return [_text(archives[name], sample, column) for name, _, sample in samples], f".{column}"
    if column == JSON:
        return contents, ".json"
    return [content.get(column) if isinstance(content, dict) else None for content in contents], f"'{column}' in .json"


def _content(archive: TarImages, name: str) -> str:
    content = archive.image(name)
    if len(content) > MOST_BYTES:
        raise UserError(f"{archive.file}: '{name}' is too large for labels; leave it out")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UserError(f"{archive.file}: '{name}' is not UTF-8 text; write it again") from None


def _text(archive: TarImages, sample: Sample, suffix: str) -> Any:
    """Return the number, or the names one per line, in a member of a sample; None if it has none."""
    if suffix not in sample:
        return None
    lines = [line.strip() for line in _content(archive, sample[suffix]).splitlines() if line.strip()]
    if suffix == NUMBER and lines and lines[0].lstrip("-").isdecimal():
        return int(lines[0])
    return lines


def _parsed(archive: TarImages, sample: Sample) -> Any:
    if JSON not in sample:
        return None
    try:
        return json.loads(_content(archive, sample[JSON]))
    except (ValueError, RecursionError) as error:
        raise UserError(f"{archive.file}: '{sample[JSON]}' is not valid JSON ({error}); correct it") from None


LOOKS_LIKE = "tar archives of images with .json, .cls or .txt (WebDataset)"
register(Reader("webdataset", detects, read, LOOKS_LIKE, rank=1, takes_columns=True))
