"""Features of a frozen backbone, computed once and kept in the store."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from accelerate import Accelerator

from aevlp.config.config import Config
from aevlp.core.errors import UserError
from aevlp.data.dataset import Split
from aevlp.data.fingerprint import set_fingerprint
from aevlp.data.images import pixels_of
from aevlp.models.classifier import Classifier
from aevlp.store.embedding_store import Embeddings, EmbeddingStore, Key, shards_of
from aevlp.store.fill import ShardJob, fill
from aevlp.training.evaluate import over_images
from aevlp.training.inputs import FeatureRows, ImageFiles, read_ahead

BATCH = 64  # images


@dataclass(frozen=True)
class FeatureKey(Key):
    """Everything that the features of an image set depend on."""

    backbone: str  # fingerprint of its weights
    mean: tuple[float, ...]
    std: tuple[float, ...]
    size: int
    precision: str
    flipped: bool  # whether those of the flipped images are kept too
    images: str  # fingerprint of the image set

    @property
    def vectors(self) -> int:
        """Of the image as it is and, for training, flipped."""
        return 2 if self.flipped else 1


@dataclass
class BackboneFeatures:
    """Features of a classifier's frozen backbone, as inputs of its head."""

    classifier: Classifier
    fingerprint: str  # of the backbone's weights
    config: Config
    root: Path | None  # of the store; None: nothing is kept on disk
    accelerator: Accelerator
    _held: dict[int, tuple[Split, FeatureRows]] = field(default_factory=dict)

    def __call__(self, split: Split) -> FeatureRows:
        """The features of a split's images: of a part of a split where they are kept, those of all of it are computed."""
        whole = split.whole or split
        if self.root is None and id(whole) not in self._held:
            whole = split
        if id(whole) not in self._held:
            self._held[id(whole)] = whole, FeatureRows(self._of(whole))
        found = self._held[id(whole)][1]
        if whole is split:
            return found
        place = {name: row for row, name in enumerate(whole.names)}
        return FeatureRows(found.features[[place[name] for name in split.names]])

    def _of(self, split: Split) -> torch.Tensor:
        """Float16 [N, V, D]."""
        flips = (False, True) if split.name == "train" else (False,)
        if self.root is None:
            files = ImageFiles(split.paths, self.classifier.images.size, self.config.train.workers)
            tables = [
                _halved(over_images(self.classifier.features, self.classifier, files, self.accelerator, flipped=flipped))
                for flipped in flips
            ]
            return torch.stack(tables, dim=1)
        images = self.classifier.images
        key = FeatureKey(
            backbone=self.fingerprint,
            mean=images.mean,
            std=images.std,
            size=images.size,
            precision=self.config.engine.precision,
            flipped=len(flips) == 2,
            images=set_fingerprint(split.names, split.digests),
        )
        black = torch.zeros(1, images.size, images.size, 3, dtype=torch.uint8, device=self.accelerator.device)
        with torch.inference_mode():
            width = self.classifier.eval().features(black).shape[1]
        about = {"model": self.config.model.backbone, "data": str(split.root.resolve())}
        store = EmbeddingStore(self.root, key, count=len(split.names), dimension=width, about=about)
        embedder = _Embedder(self.classifier, flips, self.config.train.workers, self.accelerator)
        fill(store, split, 1, embedder, self.accelerator)
        return torch.from_numpy(np.concatenate([store.read(0, shard) for shard in range(len(shards_of(store.count)))]))


class _Embedder:
    """A backbone that fills a store with features."""

    model = "backbone"

    def __init__(self, classifier: Classifier, flips: tuple[bool, ...], workers: int, accelerator: Accelerator) -> None:
        self.classifier, self.flips, self.workers, self.accelerator = classifier, flips, workers, accelerator
        self.forward_batches = 0
        self.work = "computing features" + (" of images as they are and flipped" if len(flips) == 2 else "")

    def embed(self, jobs: Iterable[ShardJob], advance: Callable[[int], None]) -> Iterator[tuple[ShardJob, Embeddings]]:
        """Each job with its float16 [images, V, D]."""
        self.classifier.eval()
        size = self.classifier.images.size
        for job in jobs:
            found: list[Embeddings] = []
            batches = (job.paths[first : first + BATCH] for first in range(0, len(job.paths), BATCH))
            for batch in read_ahead(batches, lambda path: pixels_of(path, size), size, self.workers):
                for _, error in batch.bad:
                    raise error
                found.append(self._features(batch.pixels))
                advance(len(batch.items))
            yield job, np.concatenate(found)

    @torch.inference_mode()
    def _features(self, pixels: torch.Tensor) -> Embeddings:
        """Float16 [B, V, D]."""
        shown = pixels.to(self.accelerator.device)
        tables = []
        for flipped in self.flips:
            with self.accelerator.autocast():
                tables.append(_halved(self.classifier.features(shown.flip(2) if flipped else shown)))
            self.forward_batches += 1
        features: Embeddings = torch.stack(tables, dim=1).cpu().numpy()
        return features


def _halved(features: torch.Tensor) -> torch.Tensor:
    """Float16; refused if that cannot hold them."""
    found = features.half()
    if not found.isfinite().all():
        raise UserError("--train.mode: the backbone's features are too large to be kept in 16 bits; use another --backbone")
    return found
