"""The record beside a trained checkpoint: how its weights were made."""

import hashlib
import json
from pathlib import Path
from typing import Any

import torch


def save_record(folder: Path, *, command: str, seed: int, seconds: float, figures: dict[str, Any]) -> None:
    """Write build.json: how the weights beside it came about, and their sha256."""
    import transformers

    record = {
        "command": command,
        "seed": seed,
        "seconds": round(seconds, 1),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "sha256": hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest(),
        "bytes": (folder / "model.safetensors").stat().st_size,
        "figures": figures,
    }
    (folder / "build.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
