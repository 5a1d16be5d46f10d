"""An estimate of the work before it begins: what the store has already, what is left to compute, time and disk.

The time is that of a few images, computed by this teacher and this backbone on this machine.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from aevlp.config.config import Config
from aevlp.core.progress import duration
from aevlp.damp.view_embeddings import ViewEmbeddings
from aevlp.data.dataset import Dataset, Split
from aevlp.data.images import pixels_of
from aevlp.models.classifier import Classifier
from aevlp.models.pretrained import is_on_this_machine
from aevlp.models.teacher import is_plugin
from aevlp.store.fill import Job
from aevlp.store.inventory import show_size
from aevlp.training.features import BackboneFeatures
from aevlp.training.setup import RunSetup, TrainingSetup

SAMPLE = 8  # images


@dataclass(frozen=True)
class Work:
    """One part of the work: images to compute, the share that is stored, and the time and disk that the rest takes."""

    name: str
    images: int  # each counted once per draw or epoch
    stored: int
    rate: float | None  # images per second; None: too few are left to be worth a measurement
    size: int = 0  # bytes to write

    @property
    def seconds(self) -> float:
        """The time that the rest takes; 0 if it is too short to measure."""
        return (self.images - self.stored) / self.rate if self.rate else 0.0

    def __str__(self) -> str:
        stored = f", {self.stored:,} of them stored" if self.stored else ""
        took = f"; about {duration(self.seconds)} at {self.rate:.3g} images/s here" if self.rate else ""
        disk = f", {show_size(self.size)} of disk" if self.size else ""
        return f"{self.name}: {self.images:,} image passes{stored}{took}{disk}"


def describe(data: Dataset, work: list[Work], store: Path | None) -> list[str]:
    """Return the estimate as lines: the images, each part of the work, and the sum."""
    splits = [f"{len(split.names):,} {split.name}" for split in (data.train, data.val, data.test) if split is not None]
    lines = [f"images: {', '.join(splits)}; {len(data.classes):,} classes", *map(str, work)]
    size, total = sum(each.size for each in work), sum(each.seconds for each in work)
    took = f"about {duration(total)}" if total else "less than a minute"
    disk = f", {show_size(size)} of disk ({show_size(_free(store))} free at {store})" if size and store is not None else ""
    return [*lines, f"in all: {took}{disk}"]


def missing_models(config: Config, *, backbone: bool = True) -> list[str]:
    """Return the models that have to be downloaded first: their names with their roles."""
    asked = [("teacher", config.teacher.name)] if config.method.source.asks_teacher else []
    if backbone and config.model.features is None and config.method.loss is not None:
        asked.append(("backbone", config.model.backbone))
    return [f"{name} ({role})" for role, name in asked if not is_plugin(name) and not is_on_this_machine(name, role=role)]


def describe_missing(models: list[str]) -> str:
    """Return the line that stands for an estimate where models have to be downloaded."""
    return f"to download first: {', '.join(models)}; size and speed are not known before that"


def run_work(setup: RunSetup) -> list[Work]:
    """Return the parts of a run that take time, in their order; without a training, the teacher's alone."""
    config, data = setup.config, setup.data
    if not isinstance(setup, TrainingSetup):
        splits = {split.name: split for split in (data.val, data.test) if split is not None}
        return teacher_work(setup.source.views, splits, {})
    found = teacher_work(setup.source.views, {"train": data.train, "val": data.val}, {"val": 1})
    classifier = setup.classifier.to(setup.accelerator.device)
    workers = setup.accelerator.num_processes
    if config.train.mode != "full" and setup.features is None:
        features = BackboneFeatures(classifier, setup.origin, config, setup.store_root, setup.accelerator)
        found.append(_features_work(features, data, workers))
    epochs = 0 if config.train.mode == "linear" else config.train.epochs - config.warmup
    if epochs:
        images = epochs * len(data.train.names)
        rate = backbone_rate(classifier, data.train, images, learns=True)
        found.append(Work(f"training, {epochs} epochs", images, 0, rate and rate * workers))
    return found


def teacher_work(views: ViewEmbeddings | None, splits: Mapping[str, Split], draws: Mapping[str, int]) -> list[Work]:
    """Return the teacher's part: all of its draws of each split, or as many as `draws` names for it."""
    if views is None:
        return []
    parts = [views.at(split, draws.get(name, views.draws)) for name, split in splits.items()]
    images, left = sum(part.draws * len(part.split.names) for part in parts), sum(part.missing() for part in parts)
    count, width = views.scorer.settings.count, views.texts.shape[1]
    size = 0 if views.store is None else 2 * left * count * width
    rate = next((rate for part in parts if (rate := _teacher_rate(part, part.missing())) is not None), None)
    workers = views.accelerator.num_processes
    return [Work(f"teacher {views.options.name}, {count} views each", images, images - left, rate and rate * workers, size)]


def _features_work(features: BackboneFeatures, data: Dataset, workers: int) -> Work:
    """Return the backbone's part where it is frozen."""
    splits = [split for split in (data.train, data.val, data.test) if split is not None]
    left = sum(features.missing(split) for split in splits)
    images = sum((2 if split.name == "train" else 1) * len(split.names) for split in splits)
    rate = backbone_rate(features.classifier, data.train, left, learns=False)
    width = 0 if features.root is None or not left else _feature_width(features.classifier)
    return Work("backbone, features", images, images - left, rate and rate * workers, 2 * left * width)


def _teacher_rate(views: ViewEmbeddings, left: int) -> float | None:
    """Return images per second of the teacher; None if few are left. What it computes is stored, so that no pass is wasted."""
    warm, count = views.scorer.images_per_batch, max(SAMPLE, 2 * views.scorer.images_per_batch)
    if left <= 2 * (warm + count):
        return None
    store = views.store if views.accelerator.num_processes == 1 else None  # several would compute the same images
    different, places = np.unique(views.split.digests, return_index=True)
    for draw in range(views.draws):
        rows = places if store is None else places[store.missing(draw, different)]
        if len(rows) >= warm + count:
            break
    else:
        return None
    seconds = 0.0
    for chosen in (rows[:warm], rows[warm : warm + count]):  # the first batch takes longer than the others
        job = Job(views.split.paths.at(chosen), views.split.digests[chosen], draw)
        claims = None if store is None else store.claims()
        try:
            is_free = store is not None and claims is not None and claims.take(store.index(draw), draw, job.digests).all()
            started = time.monotonic()
            ((_, embeddings),) = views.scorer.embed([job])
            seconds = time.monotonic() - started
            if store is not None and claims is not None and is_free:
                store.write(draw, job.digests, embeddings)
                claims.give_back(draw, job.digests)
        finally:
            if claims is not None:
                claims.close()
    return count / seconds


def backbone_rate(classifier: Classifier, split: Split, left: int, *, learns: bool) -> float | None:
    """Return images per second of the backbone, with the backward pass if it learns; None if few are left."""
    if left <= 2 * SAMPLE:
        return None
    device = next(classifier.parameters()).device
    classifier.eval()  # running statistics and random numbers stay as they are

    def pixels(count: int) -> Tensor:
        size = classifier.images.size
        return torch.from_numpy(np.stack([pixels_of(path, size) for path in _first(split, count)])).to(device)

    def compute(count: int) -> None:
        with torch.set_grad_enabled(learns):
            found = classifier(pixels(count)) if learns else classifier.features(pixels(count))
            if learns:
                found.sum().backward()
                classifier.zero_grad(set_to_none=True)
        found.sum().item()  # wait for the device

    compute(1)
    started = time.monotonic()
    compute(SAMPLE)
    return SAMPLE / (time.monotonic() - started)


def _first(split: Split, count: int) -> Iterator[Path]:
    return (split.paths[row % len(split.names)] for row in range(count))


def _feature_width(classifier: Classifier) -> int:
    size = classifier.images.size
    black = torch.zeros(1, size, size, 3, dtype=torch.uint8, device=next(classifier.parameters()).device)
    with torch.inference_mode():
        return int(classifier.eval().features(black).shape[1])


def _free(store: Path) -> int:
    """Return the free bytes of the disk that a folder is on, or will be."""
    above = next(folder for folder in (store.absolute(), *store.absolute().parents) if folder.exists())
    return shutil.disk_usage(above).free
