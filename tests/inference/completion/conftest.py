from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from aevlp.inference.completion.formats import LABEL_FORMATS, LabelFile
from tests.inference.completion.examples import CLASSES, RECORDS


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """The image set that RECORDS are about."""
    root = tmp_path / "my photos"
    for number, image in enumerate(RECORDS, 1):
        path = root / image.name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (10 * number, 7), (number, 0, 0)).save(path)
    return root


@pytest.fixture
def written(photos: Path, tmp_path: Path) -> Callable[..., Path]:
    """Writes RECORDS in a format and returns the file."""

    def write_as(name: str, out: Path | None = None, records=RECORDS, classes=CLASSES, **options) -> Path:
        format = LABEL_FORMATS[name]
        out = out or tmp_path / "out" / f"labels{format.suffix}"
        file = LabelFile(out, photos, tuple(classes), **options)
        format.check(file)
        format.write(file, iter(records))
        return out

    return write_as
