"""Model folders as `transformers` reads them, small: weights in half precision, loaded in single."""

import hashlib
import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

_BICUBIC = 3


def save_model(model: Any, folder: Path) -> None:
    """Write config.json and model.safetensors; floats are stored as float16, and config.json asks for float32 on loading."""
    folder.mkdir(parents=True, exist_ok=True)
    model.config.architectures = [type(model).__name__]
    model.config.dtype = torch.float32
    model.config.save_pretrained(folder)
    weights = {
        name: (value.half() if value.is_floating_point() else value).contiguous() for name, value in model.state_dict().items()
    }
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "model.safetensors").chmod(0o644)  # safetensors makes it private


def save_processor(folder: Path, kind: str, *, side: int, mean: tuple[float, ...], std: tuple[float, ...]) -> None:
    """Write preprocessor_config.json: squash to side x side (bicubic), scale to [0, 1], normalise."""
    square = {"height": side, "width": side}
    settings = {
        "image_processor_type": kind,
        "do_convert_rgb": True,
        "do_resize": True,
        "size": square,
        "resample": _BICUBIC,
        "do_center_crop": False,
        "crop_size": square,
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": list(mean),
        "image_std": list(std),
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "preprocessor_config.json").write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")


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
