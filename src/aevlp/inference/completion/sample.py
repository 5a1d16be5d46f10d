"""A random sample of new labels that nobody has verified, for a person to check."""

import csv
import io
from collections.abc import Iterable
from pathlib import Path

from aevlp.core.files import write_text
from aevlp.inference.completion.formats import LabelFile

COLUMNS = ("image", "label", "confidence", "is_right")
SAMPLE = 100  # new labels


def sample_file(out: Path) -> Path:
    """Return the file of the sample, beside the file `out` of completed labels."""
    return out.with_name(f"{out.stem}-sample.csv")


def write_sample(file: LabelFile, cells: Iterable[tuple[str, str, float]]) -> None:
    """Write (image, label, confidence) of new labels, with an empty column `is_right` for the answer."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows([file.relative(name), label, f"{confidence:.4f}", ""] for name, label, confidence in cells)
    write_text(sample_file(file.out), text.getvalue())
