"""Settings with which each figure takes about a second."""

from typing import Any

RESNET = {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1], "layer_type": "basic"}
SMALL = {"width": 60, "height": 40}

TINY: dict[str, dict[str, Any]] = {
    "scoring": {**SMALL, "repeats": 2, "images": 3, "side": 32, "layers": 1, "grid": 2},
    "views": {"repeats": 2, "images": 2, "side": 64, "grid": 2},
    "predict": {**SMALL, "repeats": 2, "images": 40, "side": 32, "workers": 1, "backbone": RESNET},
    "step": {**SMALL, "repeats": 2, "images": 24, "side": 32, "workers": 1, "backbone": RESNET},
    "labels": {"repeats": 2, "images": 300, "classes": 5},
    "store": {"repeats": 2, "images": 600},
    "int8": {"repeats": 2, "images": 2, "side": 32, "layers": 1, "scenes": 20},
    "method": {
        **SMALL,
        "repeats": 2,
        "train": 20,
        "val": 4,
        "epochs": 1,
        "draws": 1,
        "workers": 1,
        "side": 32,
        "layers": 1,
        "grid": 2,
        "classifier_side": 32,
        "backbone": RESNET,
    },
}
