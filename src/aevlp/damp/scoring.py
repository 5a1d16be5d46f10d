"""Views -> teacher -> embeddings, for the images of a shard."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import normalize

from aevlp.damp.store import Embeddings
from aevlp.damp.views import ViewSettings, views

if TYPE_CHECKING:
    from accelerate import Accelerator

    from aevlp.teacher import Teacher

READERS = 2  # threads that cut views while the teacher computes


class Scorer:
    """A teacher that embeds the views of image files."""

    def __init__(
        self,
        teacher: Teacher,
        settings: ViewSettings,
        *,
        mean: Sequence[float],
        std: Sequence[float],
        batch_size: int,
        accelerator: Accelerator,
    ) -> None:
        self.teacher = teacher
        self.settings = settings
        self.accelerator = accelerator
        self.images_per_batch = max(1, batch_size // settings.count)
        self.mean = torch.tensor(mean, device=accelerator.device).view(3, 1, 1)
        self.std = torch.tensor(std, device=accelerator.device).view(3, 1, 1)
        self.passes = 0  # forward passes of the image encoder

    def embed(
        self, paths: Sequence[Path], names: Sequence[str], draw: int, advance: Callable[[int], None] = lambda _: None
    ) -> Embeddings:
        """Float16 [images, V, K]: unit embeddings of the views of each image in one draw; `advance` hears of finished images."""
        done = []
        for batch in self._batches(paths, names, draw):
            done.append(self._encode(batch))
            advance(len(batch))
        return np.concatenate(done)

    def _batches(self, paths: Sequence[Path], names: Sequence[str], draw: int) -> Iterator[list[npt.NDArray[np.uint8]]]:
        """Lists of views of a few images, cut in threads a batch ahead of the teacher."""
        with ThreadPoolExecutor(READERS) as pool:
            tasks = zip(paths, names, strict=True)
            waiting: deque[Future[npt.NDArray[np.uint8]]] = deque()
            while True:
                for path, name in islice(tasks, 2 * self.images_per_batch - len(waiting)):
                    waiting.append(pool.submit(views, path, name, draw, self.settings))
                if not waiting:
                    return
                yield [waiting.popleft().result() for _ in range(min(self.images_per_batch, len(waiting)))]

    @torch.inference_mode()
    def _encode(self, batch: list[npt.NDArray[np.uint8]]) -> Embeddings:
        pixels: Tensor = torch.from_numpy(np.concatenate(batch)).to(self.accelerator.device)
        pixels = (pixels.permute(0, 3, 1, 2).float() / 255 - self.mean) / self.std
        with self.accelerator.autocast():
            embeddings = self.teacher.encode_images(pixels)
        self.passes += 1
        unit = normalize(embeddings.float(), dim=-1)
        return unit.view(len(batch), self.settings.count, -1).half().cpu().numpy()
