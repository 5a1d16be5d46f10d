from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from PIL import Image


@pytest.fixture
def pictures(tmp_path: Path) -> Callable[[Iterable[str]], Path]:
    """Writes small images, all different, under the names given, and returns the folder they are in."""
    written = 0

    def write(names: Iterable[str]) -> Path:
        nonlocal written
        for name in names:
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (12, 8), (written % 256, written // 256, 100)).save(path, "PNG")
            written += 1
        return tmp_path

    return write
