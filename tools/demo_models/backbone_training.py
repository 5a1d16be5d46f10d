"""Training of the small backbone: an ordinary `ResNetForImageClassification`, on things that the demo does not have."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from transformers import ResNetConfig, ResNetForImageClassification

from aevlp.experiments.bench.models import save_model, save_processor
from tools.demo_models.clip_training import normalised, pace
from tools.demo_models.muon import Muon
from tools.demo_models.others import OTHERS
from tools.demo_models.scenes import TrainingScenes

SIDE = 96
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@dataclass(frozen=True)
class BackbonePlan:
    """Steps and learning rates of the backbone."""

    steps: int = 5000
    batch: int = 32
    rate: float = 3e-3
    filter_rate: float = 3e-3
    decay: float = 0.05
    small_until: float = 0.6
    """Share of the steps on pictures of two thirds the side, which cost less than half."""


def train_backbone(scenes: TrainingScenes, folder: Path, *, seed: int, plan: BackbonePlan, log: Callable[[str], None]) -> Any:
    """Train on the scenes (pictures of SIDE) to find every class in them, write the folder, return the model."""
    torch.manual_seed(seed)
    rng = np.random.default_rng([seed, 0xBAC0])
    names = sorted(OTHERS)
    config = ResNetConfig(
        embedding_size=32,
        hidden_sizes=[32, 64, 128, 256],
        depths=[1, 1, 1, 1],
        layer_type="basic",
        id2label=dict(enumerate(names)),
        label2id={name: i for i, name in enumerate(names)},
        problem_type="multi_label_classification",
    )
    model = ResNetForImageClassification(config).train()
    truth = torch.tensor([[float(name in areas) for name in names] for areas in scenes.areas])
    filters = [p for p in model.parameters() if p.ndim == 4]
    others = [p for p in model.parameters() if p.ndim < 4]
    optimizers = [
        Muon(filters, lr=plan.filter_rate, weight_decay=plan.decay),
        torch.optim.AdamW(others, lr=plan.rate, weight_decay=plan.decay),
    ]
    schedules = [torch.optim.lr_scheduler.LambdaLR(o, lambda step: pace(step, plan.steps)) for o in optimizers]
    losses, started = list[float](), time.monotonic()
    for step in range(1, plan.steps + 1):
        picked = rng.choice(len(truth), plan.batch, replace=False)
        pictures = normalised(torch.from_numpy(scenes.pixels[picked]), MEAN, STD)
        if rng.random() < 0.5:
            pictures = pictures.flip(-1)
        if step < plan.small_until * plan.steps:
            pictures = nn.functional.interpolate(pictures, scale_factor=2 / 3, mode="area")
        loss: Any = nn.functional.binary_cross_entropy_with_logits(model(pictures).logits, truth[picked])
        model.zero_grad()
        loss.backward()
        for optimizer, schedule in zip(optimizers, schedules, strict=True):
            optimizer.step()
            schedule.step()
        losses.append(loss.item())
        if step % 200 == 0 or step == plan.steps:
            recent, left = losses[-200:], (plan.steps - step) * (time.monotonic() - started) / step
            log(f"  backbone: step {step} of {plan.steps}, loss {sum(recent) / len(recent):.4f}, {left:.0f} s left")
    save_processor(folder, "ViTImageProcessor", side=SIDE, mean=MEAN, std=STD)
    save_model(model.eval(), folder)
    return model
