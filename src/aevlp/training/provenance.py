"""Checks that an existing result was made of the images, features and weights that are there now."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aevlp.core.errors import UserError
from aevlp.data.dataset import Dataset, data_fingerprint, names_content


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
