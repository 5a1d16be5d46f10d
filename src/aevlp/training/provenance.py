"""What a result was made of, and whether that is what is there now."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aevlp.config.config import ModelOptions
from aevlp.core.errors import UserError
from aevlp.data.splits import Dataset, data_fingerprint
from aevlp.models.classifier import backbone_of
from aevlp.training.user_features import OwnFeatures


def origin_of(options: ModelOptions, features: OwnFeatures | None = None) -> str:
    """Names what a classifier is made of: the user's own features, which are read unless given, or a backbone's weights."""
    if options.features is None:
        return backbone_of(options).fingerprint
    return (features or OwnFeatures(options.features)).fingerprint()


def require_same_images(path: Path, result: Mapping[str, Any], data: Dataset) -> None:
    """Refuses a result at `path` that was made of other images, or does not say of which."""
    if result.get("fingerprint") != data_fingerprint(data):
        raise UserError(
            f"{path}: made of other images, labels or classes ({result.get('data', 'not known which')}); choose another --out"
        )


def require_same_origin(path: Path, result: Mapping[str, Any], origin: str) -> None:
    """Refuses a result at `path` that was made of other features, or of a backbone with other weights."""
    if result["origin"] != origin:
        raise UserError(
            f"{path}: made of other features, or of a backbone with other weights, than are there now; "
            "put those back, remove it, or choose another --out"
        )
