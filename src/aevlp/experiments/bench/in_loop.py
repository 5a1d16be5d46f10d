"""The method as a plain loop, the way the paper's released code runs it: the teacher looks at every batch of every epoch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from accelerate import Accelerator
from PIL import Image
from torch import Tensor
from torch.nn.functional import normalize
from torch.utils.data import DataLoader, Sampler
from torch.utils.data import Dataset as Items

from aevlp.config.config import Config
from aevlp.core.engine import autocast, teacher_precision
from aevlp.core.seeds import seed_for
from aevlp.damp.labels import pseudo_labels, scores
from aevlp.damp.options import DampOptions
from aevlp.damp.text import class_embeddings, noise_weights, text_embeddings
from aevlp.damp.views import ViewSettings, plan_views
from aevlp.data.dataset import Dataset
from aevlp.experiments.bench.straightforward import decoded_twice, views_of
from aevlp.models.classifier import build_classifier
from aevlp.models.prompts import class_prompts
from aevlp.models.teacher import Teacher, load_teacher
from aevlp.training.evaluate import evaluate_split
from aevlp.training.inputs import ImageFiles, Item, TrainingOrder
from aevlp.training.setup import expected_positives, make_optimizer


class ImagesWithViews(Items[tuple[int, Tensor, Tensor]]):
    """Image files as (index, the classifier's pixels, the teacher's views), made anew for every epoch."""

    def __init__(self, paths: Sequence[Path], names: Sequence[str], size: int, settings: ViewSettings, teacher: Teacher) -> None:
        self.paths, self.names, self.size, self.settings = paths, names, size, settings
        self.mean, self.std = teacher.mean, teacher.std

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, item: tuple[Item, int]) -> tuple[int, Tensor, Tensor]:
        (index, flipped), epoch = item
        whole, parts = decoded_twice(self.paths[index])
        plan = plan_views(self.settings, epoch - 1, self.names[index], *whole.size)
        views = views_of(whole, parts, plan, self.settings.size, self.mean, self.std)
        image = whole.resize((self.size, self.size), Image.Resampling.BICUBIC)
        if flipped:
            image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        return index, torch.from_numpy(np.array(image)), views


class OrderWithEpoch(Sampler[tuple[Item, int]]):
    """The training's order, each item with the epoch: workers that stay do not see what changes in the dataset."""

    def __init__(self, order: TrainingOrder) -> None:
        self.order = order

    def __len__(self) -> int:
        return len(self.order)

    def __iter__(self) -> Iterator[tuple[Item, int]]:
        return ((item, self.order.epoch) for item in self.order)


def train_in_loop(config: Config, data: Dataset, accelerator: Accelerator) -> float:
    """The best validation mAP of a training on `data`; nothing is kept from one batch to the next."""
    device, loss, damp = accelerator.device, config.method.loss, config.source
    assert isinstance(damp, DampOptions)
    precision = teacher_precision(config.teacher.precision, device)
    teacher = load_teacher(config.teacher.name, device, precision)
    classifier = build_classifier(config.model, data.classes, config.run.seed).to(device)
    optimizer = make_optimizer(classifier, config.train)
    expected = expected_positives(config, data)
    prompts = class_prompts(config.teacher.prompts, config.teacher.prompt, data.classes)
    dimension = text_embeddings(teacher.encode_texts, prompts[:1]).shape[1]
    noise = noise_weights(dimension, torch.Generator().manual_seed(seed_for(config.run.seed, "text noise")))

    settings = ViewSettings(size=teacher.image_size, grid=damp.grid, overlap=damp.overlap, augment=damp.augment, seed=damp.seed)
    images = ImagesWithViews(data.train.paths, data.train.names, config.model.image_size, settings, teacher)
    order = TrainingOrder(len(images), config.run.seed)
    loader = DataLoader(
        images,
        batch_size=config.train.batch_size,
        sampler=OrderWithEpoch(order),
        num_workers=config.train.workers,
        persistent_workers=True,  # else every epoch would begin with new forks
    )
    val_images = ImageFiles(data.val.paths, config.model.image_size, config.train.workers)
    observed = torch.from_numpy(data.train.observed)
    best = 0.0
    for epoch in range(1, config.train.epochs + 1):
        order.epoch = epoch
        classifier.train()
        for index, pixels, views in loader:
            seen = observed[index].to(device)
            classes = class_embeddings(text_embeddings(teacher.encode_texts, prompts), noise, damp.neighbours)
            with autocast(device, precision):
                embeddings = normalize(teacher.encode_images(views.flatten(0, 1)).float(), dim=-1)
            pseudo = pseudo_labels(
                *scores(embeddings.view(*views.shape[:2], -1), classes, damp.temperature),
                seen,
                local_threshold=damp.local_threshold,
                global_threshold=damp.global_threshold,
                top_k=damp.top_k,
                negative_fraction=damp.negative_fraction,
            )
            arguments = config.loss.at(epoch, config.train.epochs, seen.numel())
            value = loss.function(classifier(pixels.to(device)), seen, pseudo, expected_positives=expected, **arguments)
            torch.autograd.backward(value)
            optimizer.step()
            optimizer.zero_grad()
        best = max(best, evaluate_split(classifier, data.val, val_images, data.classes, accelerator).mAP)
    return best
