"""The images, features and weights that a result was made of, and checks that they are those that are there now."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from aevlp.core.errors import UserError
from aevlp.core.files import whole_file
from aevlp.data.dataset import Dataset, Split, data_fingerprint, names_content
from aevlp.data.fingerprint import DIGEST
from aevlp.training.run_folder import RunFolder


def require_same_images(path: Path, result: Mapping[str, Any], data: Dataset) -> None:
    """Refuse a result at `path` that was made of other images, or does not say of which."""
    if "fingerprint" in result and not names_content(result["fingerprint"]):
        raise UserError(f"{path}: made by version 0.6.0 or older, which named images otherwise; choose another --out")
    if result.get("fingerprint") != data_fingerprint(data):
        raise UserError(
            f"{path}: made of other images, labels or classes ({result.get('data', 'not known which')}); choose another --out"
        )


def require_same_origin(path: Path, result: Mapping[str, Any], origin: str) -> None:
    """Refuse a result at `path` that was made of other features, or of a backbone with other weights."""
    if result["origin"] != origin:
        raise UserError(
            f"{path}: made of other features, or of a backbone with other weights, than are there now; "
            "put those back, remove it, or choose another --out"
        )


def write_trained_on(run: RunFolder, train: Split) -> None:
    """Write the digests of the training images, so that later commands know which images the model has seen."""
    with whole_file(run.trained_on) as file:
        file.write(np.unique(train.digests).astype(f"S{DIGEST}").tobytes())


def has_trained_on(run: RunFolder, data: Dataset) -> bool:
    """Return whether the run's model was trained on any of the images to complete, or of those to measure it on."""
    if not run.trained_on.is_file():  # a run of 0.6 or earlier
        return (run.read_result() or {}).get("data") == str(data.train.root.resolve())
    seen = np.fromfile(run.trained_on, f"S{DIGEST}")
    return any(bool(np.isin(split.digests, seen).any()) for split in (data.train, data.val))
