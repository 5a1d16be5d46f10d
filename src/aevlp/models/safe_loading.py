"""Loading a network from a folder that may come from anywhere: its code is never run, and its weights are all there."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from aevlp.core.errors import UserError, one_line
from aevlp.core.files import SPECIAL, read_json

SETTINGS: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
"""Arguments of every `from_pretrained` that reads a configuration or a tokenizer."""
WEIGHT_SETTINGS: dict[str, Any] = {**SETTINGS, "use_safetensors": True, "dtype": torch.float32, "output_loading_info": True}
"""Arguments of every `from_pretrained` that reads weights; it returns the network and its report."""
ADAPTER = "adapter_config.json"


def foreign_code(folder: Path) -> str | None:
    """Return the end of a sentence that names the folder if loading it could run code from elsewhere, or never end; else None.

    Code in the folder itself (`auto_map`) is not meant: `SETTINGS` refuse it where transformers has none of its own.
    """
    if (special := next((file.name for file in sorted(folder.glob("*")) if _is_special(file)), None)) is not None:
        return f"holds {special}, {SPECIAL}; remove it"
    if (folder / ADAPTER).exists():
        return f"holds an adapter ({ADAPTER}), which may name any other model; merge it into its model and save that"
    if (folder / "config.json").is_file() and (kernel := _kernel(read_json(folder / "config.json"))) is not None:
        return f"asks for the code of {kernel} in config.json (attn_implementation), which is never run; remove that line"
    return None


def _is_special(file: Path) -> bool:
    return file.exists() and not file.is_file() and not file.is_dir()


def _kernel(value: Any) -> str | None:
    """Return the first implementation in a configuration that is a repository of the hub and not a part of transformers."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key.endswith("_implementation") and isinstance(inner, str) and "/" in inner:
                return inner
            if (found := _kernel(inner)) is not None:
                return found
    return None


def why_not_loaded(error: BaseException) -> str:
    """Return why `from_pretrained` failed, in one line; transformers itself would advise to run the folder's code."""
    if "trust_remote_code" in str(error):
        return "it needs code of its own (auto_map), which is never run"
    return one_line(error)


def unfit_tensors(report: Mapping[str, Any]) -> list[str]:
    """Return the names of the tensors that the file lacks or has too many, or that have another shape; sorted."""
    names = {*report["missing_keys"], *report["unexpected_keys"], *(key for key, *_ in report["mismatched_keys"])}
    # Checkpoints of older versions hold the positions, which are 0, 1, 2, ... and no weights.
    return sorted(name for name in names if not name.endswith("position_ids"))


def require_finite(network: nn.Module, where: str) -> None:
    """Refuse a network with a weight that is not a finite number: its output would be none either."""
    if (name := not_finite(network)) is not None:
        raise UserError(f"{where}: the weights in {name} are not all finite numbers; get the file again")


def require_finite_output(output: npt.NDArray[np.float32], where: object) -> None:
    """Refuse probabilities that are no numbers: finite weights can still be so large that their products are not."""
    if not np.isfinite(output).all():
        raise UserError(f"{where}: this model gives no finite numbers, so its weights are damaged; get or train it again")


def not_finite(network: nn.Module) -> str | None:
    """Return the name of a tensor of the network that has a number that is not finite; None if there is none."""
    for name, tensor in network.state_dict().items():
        # The sum is finite if and only if every number is, and takes no memory.
        if tensor.is_floating_point() and not tensor.sum(dtype=torch.float64).isfinite():
            return name
    return None
