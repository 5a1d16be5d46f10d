"""The text side: class embeddings with label-to-label noise, computed once per run.

| symbol | argument  | meaning                                                                |
| ------ | --------- | ---------------------------------------------------------------------- |
| e_i    | texts     | embedding of a class's prompt or mean of several, not normalised       |
| A*     | adjacency | weights of the noise: 0.8 from the class itself, 0.2 from similar ones |
| W_l    | weights   | three frozen random layers K -> 1024 -> 1024 -> K                      |
| t_i    |           | H_3[i] + e_i, normalised                                               |
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn.functional import leaky_relu, normalize

HIDDEN = 1024
FROM_OTHERS = 0.2
SLOPE = 0.2


def text_embeddings(encode: Callable[[list[str]], Tensor], prompts: Sequence[Sequence[str]]) -> Tensor:
    """Return e, float32 [C, K]: for each class the mean of its prompts' embeddings from a teacher's `encode_texts`."""
    embeddings = encode([prompt for own in prompts for prompt in own]).float()
    return torch.stack([own.mean(0) for own in torch.split(embeddings, [len(own) for own in prompts])])


def adjacency(texts: Tensor, neighbours: int | None = None) -> Tensor:
    """Return A* [C, C] for texts [C, K]: each row keeps its `neighbours` largest cosines (all if None; itself counts as one).

    The kept cosines to other classes are scaled to sum 0.2 (a negative cosine counts as 0); the diagonal is 0.8.
    """
    unit = normalize(texts.double(), dim=1)
    cosines = unit @ unit.T
    count = min(neighbours or len(texts), len(texts))
    kept = torch.zeros_like(cosines).scatter(1, cosines.topk(count, dim=1).indices, 1.0)
    others = (cosines * kept).clamp_min(0).fill_diagonal_(0)
    total = others.sum(1, keepdim=True)
    others = torch.where(total > 0, FROM_OTHERS * others / total.clamp_min(torch.finfo(total.dtype).tiny), 0.0)
    return (others + (1 - FROM_OTHERS) * torch.eye(len(texts), dtype=others.dtype, device=others.device)).to(texts.dtype)


def noise_weights(dimension: int, generator: torch.Generator) -> list[Tensor]:
    """Return layers [K, 1024], [1024, 1024], [1024, K], each from U(-1/sqrt(out), 1/sqrt(out)), on the generator's device."""
    shapes = [(dimension, HIDDEN), (HIDDEN, HIDDEN), (HIDDEN, dimension)]
    return [(2 * torch.rand(shape, generator=generator) - 1) / shape[1] ** 0.5 for shape in shapes]


def class_embeddings(texts: Tensor, weights: Sequence[Tensor] | None, neighbours: int | None = None) -> Tensor:
    """Return unit vectors t [C, K] of texts [C, K]; with weights, each class carries noise from its neighbours."""
    if weights is None:
        return normalize(texts, dim=1)
    mix, hidden = adjacency(texts, neighbours), texts
    for layer, weight in enumerate(weights, start=1):
        hidden = mix @ hidden @ weight.to(texts)
        if layer < len(weights):
            hidden = leaky_relu(hidden, SLOPE)
    return normalize(hidden + texts, dim=1)
