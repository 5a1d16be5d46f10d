"""Training of the small CLIP: the ordinary contrastive loss between scenes and captions that name some of the things there.

A vision transformer that is trained from scratch needs millions of pairs to learn where to look. Here a second loss helps at
first: a linear layer, thrown away later, predicts the class in each patch. Its weight falls to 0 before the end.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from aevlp.experiments.bench.models import save_model, save_processor
from tools.demo_models.captions import caption, save_tokenizer
from tools.demo_models.clip_model import PATCH, SIDE, WIDTH, new_clip
from tools.demo_models.muon import Muon
from tools.demo_models.scenes import NAMES, TrainingScenes

DRAWN_SIDE = 54
"""Side of the training pictures: a little more than SIDE, for random crops."""

MEAN, STD = (0.481, 0.458, 0.408), (0.269, 0.261, 0.276)


@dataclass(frozen=True)
class ClipPlan:
    """Steps and learning rates of the small CLIP."""

    steps: int = 3000
    batch: int = 64
    rate: float = 2e-3
    matrix_rate: float = 3e-3
    decay: float = 0.05
    help_until: float = 0.8
    """Share of the steps after which the loss on patches has no weight; it falls in a straight line."""


def train_clip(scenes: TrainingScenes, folder: Path, *, seed: int, plan: ClipPlan, log: Callable[[str], None]) -> Any:
    """Train on the scenes (pictures of DRAWN_SIDE), write the folder, return the model (float32, evaluating)."""
    torch.manual_seed(seed)
    rng = np.random.default_rng([seed, 0xC11B])
    tokenizer = save_tokenizer(folder)
    first = torch.from_numpy(scenes.pixels[:2000, :, :SIDE, :SIDE])
    model = new_clip(tokenizer, normalised(first, MEAN, STD)).train()
    patch_head = nn.Linear(WIDTH, len(NAMES) + 1)
    optimizers = _optimizers(model, patch_head, plan)
    losses, started, order = list[float](), time.monotonic(), np.empty(0, dtype=np.int64)
    for step in range(1, plan.steps + 1):
        if len(order) < plan.batch:
            order = np.concatenate([order, rng.permutation(len(scenes.areas))])
        picked, order = order[: plan.batch], order[plan.batch :]
        texts = [caption(rng, scenes.areas[i]) for i in picked]
        words = tokenizer(texts, padding=True, truncation=True, return_tensors="pt")
        pictures, where = augmented(scenes, picked, rng)
        output = model(**words, pixel_values=pictures, return_loss=True)
        loss, helping = output.loss, max(0.0, 1 - step / (plan.help_until * plan.steps))
        losses.append(loss.item())
        if helping:
            patches = patch_head(output.vision_model_output.last_hidden_state[:, 1:])
            loss = loss + helping * nn.functional.cross_entropy(patches.flatten(0, 1), patch_classes(where).flatten())
        model.zero_grad()
        patch_head.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = group["peak"] * pace(step, plan.steps)
            optimizer.step()
        with torch.no_grad():
            model.logit_scale.clamp_(max=math.log(100.0))
        if step % 200 == 0 or step == plan.steps:
            recent, left = losses[-200:], (plan.steps - step) * (time.monotonic() - started) / step
            scale = model.logit_scale.exp().item()
            log(
                f"  clip: step {step} of {plan.steps}, loss {sum(recent) / len(recent):.3f}, scale {scale:.1f}, {left:.0f} s left"
            )
    save_processor(folder, "CLIPImageProcessor", side=SIDE, mean=MEAN, std=STD)
    save_model(model.eval(), folder)
    return model


def augmented(scenes: TrainingScenes, picked: npt.NDArray[np.int64], rng: np.random.Generator) -> tuple[Tensor, Tensor]:
    """Return pictures, cropped and mirrored at random: normalised float[n, 3, SIDE, SIDE], classes int64[n, SIDE, SIDE]."""
    room = scenes.pixels.shape[-1] - SIDE
    views = np.empty((len(picked), 3, SIDE, SIDE), dtype=np.uint8)
    where = np.empty((len(picked), SIDE, SIDE), dtype=np.int64)
    corners, mirrored = rng.integers(0, room + 1, (len(picked), 2)), rng.random(len(picked)) < 0.5
    for at, (i, (x, y), flip) in enumerate(zip(picked, corners, mirrored, strict=True)):
        turn = slice(None, None, -1 if flip else 1)
        views[at] = scenes.pixels[i, :, y : y + SIDE, x : x + SIDE][..., turn]
        where[at] = scenes.where[i, y : y + SIDE, x : x + SIDE][..., turn]
    return normalised(torch.from_numpy(views), MEAN, STD), torch.from_numpy(where)


def patch_classes(where: Tensor) -> Tensor:
    """Return the class that covers most of each patch, int64[n, patches]; the background (0) needs five times as much."""
    cells = SIDE // PATCH
    pixels = where.view(-1, cells, PATCH, cells, PATCH).permute(0, 1, 3, 2, 4).reshape(len(where), cells * cells, -1)
    counts = torch.zeros(*pixels.shape[:2], len(NAMES) + 1)
    counts.scatter_add_(2, pixels, torch.ones(pixels.shape))
    counts[..., 0] *= 0.2
    return counts.argmax(dim=-1)


def normalised(pixels: Tensor, mean: tuple[float, ...], std: tuple[float, ...]) -> Tensor:
    """Return uint8 pixels as float[n, 3, h, w], minus the mean and divided by the standard deviation of each channel."""
    return (pixels.float() / 255 - torch.tensor(mean).view(3, 1, 1)) / torch.tensor(std).view(3, 1, 1)


def pace(step: int, steps: int, warmup: float = 0.05) -> float:
    """Return the share of the learning rate at a step: a linear rise, then half a cosine down to 0."""
    return min((step + 1) / max(1.0, steps * warmup), 0.5 + 0.5 * math.cos(math.pi * step / steps))


def _optimizers(model: nn.Module, patch_head: nn.Module, plan: ClipPlan) -> list[torch.optim.Optimizer]:
    """Return Muon for the matrices of the transformer's layers and AdamW for the rest; each group has its `peak` rate."""
    named = [*model.named_parameters(), *patch_head.named_parameters()]
    matrices = [p for name, p in named if p.ndim == 2 and ".layers." in name]
    others = [p for name, p in named if p.ndim >= 2 and ".layers." not in name]
    plain = [p for _, p in named if p.ndim < 2]
    groups = [
        {"params": others, "weight_decay": plan.decay, "peak": plan.rate},
        {"params": plain, "weight_decay": 0.0, "peak": plan.rate},
    ]
    muon = Muon(matrices, lr=plan.matrix_rate, weight_decay=plan.decay)
    muon.param_groups[0]["peak"] = plan.matrix_rate
    return [muon, torch.optim.AdamW(groups, lr=plan.rate, betas=(0.9, 0.98))]
