"""Features of a frozen backbone, computed once and kept in the store."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from accelerate import Accelerator

from aevlp.config.config import Config
from aevlp.core.errors import UserError
from aevlp.data.dataset import Split
from aevlp.data.fingerprint import Digests
from aevlp.data.images import pixels_of
from aevlp.models.classifier import Classifier
from aevlp.store.embedding_store import EmbeddingStore, Key
from aevlp.store.fill import Job, fill, missing
from aevlp.store.packs import Embeddings
from aevlp.training.evaluate import over_images
from aevlp.training.inputs import FeatureRows, ImageFiles, read_ahead

BATCH = 64  # images


@dataclass(frozen=True)
class FeatureKey(Key):
    """Everything that features depend on, except the image. The first draw shows it as it is, the second flipped."""

    backbone: str  # fingerprint of its weights
    mean: tuple[float, ...]
    std: tuple[float, ...]
    size: int
    precision: str

    @property
    def vectors(self) -> int:
        """One in each draw."""
        return 1


@dataclass
class BackboneFeatures:
    """Features of a classifier's frozen backbone, as inputs of its head."""

    classifier: Classifier
    fingerprint: str  # of the backbone's weights
    config: Config
    root: Path | None  # of the store; None: nothing is kept on disk
    accelerator: Accelerator
    _held: list[tuple[Digests, torch.Tensor]] = field(default_factory=list)

    def __call__(self, split: Split) -> FeatureRows:
        """Return the features of a split's images. Those in memory are not computed or read again."""
        for digests, table in self._held:
            if table.shape[1] >= draws_of(split) and np.isin(split.digests, digests).all():
                order = np.argsort(digests)
                return FeatureRows(table[order[np.searchsorted(digests, split.digests, sorter=order)]])
        found = self._computed(split) if self.root is None else self._stored(split)
        self._held.append((split.digests, found))
        return FeatureRows(found)

    def missing(self, split: Split) -> int:
        """Return how many images the backbone has still to see, flipped ones included; without a store, all."""
        if self.root is None:
            return draws_of(split) * len(split.names)
        return missing(self._store, split.digests, draws_of(split))

    def _computed(self, split: Split) -> torch.Tensor:
        """Return the features without a store, float16 [N, 1 or 2, D]."""
        files = ImageFiles(split.paths, self.classifier.images.size, self.config.train.workers)
        tables = [
            _halved(over_images(self.classifier.features, self.classifier, files, self.accelerator, flipped=flipped))
            for flipped in (False, True)[: draws_of(split)]
        ]
        return torch.stack(tables, dim=1)

    def _stored(self, split: Split) -> torch.Tensor:
        """Return the features from the store, after it is filled, float16 [N, 1 or 2, D]."""
        embedder = _Embedder(self.classifier, self.config.train.workers, self.accelerator)
        fill(self._store, split, draws_of(split), embedder, self.accelerator)
        draws = [self._store.read(draw, split.digests) for draw in range(draws_of(split))]
        return torch.from_numpy(np.concatenate(draws, axis=1))

    @cached_property
    def _store(self) -> EmbeddingStore:
        assert self.root is not None
        images = self.classifier.images
        key = FeatureKey(self.fingerprint, images.mean, images.std, images.size, self.config.engine.precision)
        black = torch.zeros(1, images.size, images.size, 3, dtype=torch.uint8, device=self.accelerator.device)
        with torch.inference_mode():
            width = self.classifier.eval().features(black).shape[1]
        return EmbeddingStore(self.root, key, dimension=width, about={"model": self.config.model.backbone})


def draws_of(split: Split) -> int:
    """Return 2 for training images, which are seen as they are and flipped, and 1 for others."""
    return 2 if split.name == "train" else 1


class _Embedder:
    """A backbone that fills a store with features."""

    model = "backbone"
    work = "computing features"

    def __init__(self, classifier: Classifier, workers: int, accelerator: Accelerator) -> None:
        self.classifier, self.workers, self.accelerator = classifier, workers, accelerator
        self.forward_batches = 0
        self._last: tuple[bytes, list[torch.Tensor]] = b"", []  # the images read last, which often come again flipped

    def embed(self, jobs: Iterable[Job], advance: Callable[[int], None]) -> Iterator[tuple[Job, Embeddings]]:
        """Yield each job with its float16 [images, 1, D]."""
        self.classifier.eval()
        for job in jobs:
            found: list[Embeddings] = []
            for pixels in self._read(job):
                found.append(self._features(pixels, flipped=job.draw == 1))
                advance(len(pixels))
            yield job, np.concatenate(found)

    def _read(self, job: Job) -> Iterator[torch.Tensor]:
        """Yield the pixels of the job's images, uint8 [B, S, S, 3]."""
        name, size = job.digests.tobytes(), self.classifier.images.size
        if self._last[0] == name:
            yield from self._last[1]
            return
        read: list[torch.Tensor] = []
        batches = (range(first, min(first + BATCH, len(job.paths))) for first in range(0, len(job.paths), BATCH))

        def pixels(row: int) -> npt.NDArray[np.uint8]:
            return pixels_of(job.paths[row], size, digest=job.digests[row])

        for batch in read_ahead(batches, pixels, size, self.workers):
            for _, error in batch.bad:
                raise error
            read.append(batch.pixels)
            yield batch.pixels
        self._last = name, read

    @torch.inference_mode()
    def _features(self, pixels: torch.Tensor, *, flipped: bool) -> Embeddings:
        """Return float16 [B, 1, D]."""
        shown = pixels.to(self.accelerator.device)
        with self.accelerator.autocast():
            found = _halved(self.classifier.features(shown.flip(2) if flipped else shown))
        self.forward_batches += 1
        features: Embeddings = found[:, None].cpu().numpy()
        return features


def _halved(features: torch.Tensor) -> torch.Tensor:
    """Float16; refused if that cannot hold them."""
    found = features.half()
    if not found.isfinite().all():
        raise UserError("--train.mode: the backbone's features are too large to be kept in 16 bits; use another --backbone")
    return found
