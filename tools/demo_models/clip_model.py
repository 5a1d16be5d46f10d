"""The small CLIP before training: a `CLIPModel` whose first layer is fitted to the patches of pictures."""

from typing import Any

import torch
from torch import Tensor
from transformers import CLIPConfig, CLIPModel

from tools.demo_models.captions import LONGEST

SIDE, PATCH = 48, 8
WIDTH = 96


def new_clip(tokenizer: Any, pictures: Tensor) -> Any:
    """Return an untrained `CLIPModel` whose first layer is fitted to `pictures` (normalised [n, 3, SIDE, SIDE])."""
    marks = {f"{mark}_token_id": getattr(tokenizer, f"{mark}_token_id") for mark in ("pad", "bos", "eos")}
    shape = {
        "hidden_size": WIDTH,
        "intermediate_size": 2 * WIDTH,
        "num_attention_heads": 4,
        "hidden_act": "gelu_pytorch_tanh",
    }
    words = {"num_hidden_layers": 2, "vocab_size": len(tokenizer), "max_position_embeddings": LONGEST}
    config = CLIPConfig(
        text_config=shape | marks | words,
        vision_config=shape | {"num_hidden_layers": 3, "image_size": SIDE, "patch_size": PATCH},
        projection_dim=WIDTH,
        **marks,
    )
    model = CLIPModel(config)
    embeddings = model.vision_model.embeddings
    with torch.no_grad():
        embeddings.patch_embedding.weight.copy_(_whitening(pictures))
        embeddings.position_embedding.weight[1:] = 0.5 * _waves(SIDE // PATCH)
    return model


def _whitening(pictures: Tensor) -> Tensor:
    """Return filters whose outputs on the pictures' patches are uncorrelated and of equal size, float[WIDTH, 3, PATCH, PATCH]."""
    patches = pictures.unfold(2, PATCH, PATCH).unfold(3, PATCH, PATCH).permute(0, 2, 3, 1, 4, 5).flatten(3).flatten(0, 2)
    values, vectors = torch.linalg.eigh(patches.T @ patches / len(patches))
    values, vectors = values.flip(0)[:WIDTH], vectors.flip(1)[:, :WIDTH]
    mixing, _ = torch.linalg.qr(torch.randn(WIDTH, WIDTH))
    filters: Tensor = mixing @ (vectors / (values + 0.02 * values.mean()).sqrt()).T
    return filters.view(WIDTH, 3, PATCH, PATCH)


def _waves(cells: int) -> Tensor:
    """Return sines and cosines of the position of each patch, float[cells * cells, WIDTH]: near patches start out alike."""
    rates = 1.5 / 8.0 ** (torch.arange(WIDTH // 4) / (WIDTH // 4))
    rows, columns = torch.meshgrid(torch.arange(cells).float(), torch.arange(cells).float(), indexing="ij")
    phases = [place.reshape(-1, 1) * rates for place in (columns, rows)]
    return torch.cat([wave(phase) for phase in phases for wave in (torch.sin, torch.cos)], dim=1)
