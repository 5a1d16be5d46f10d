"""Views -> teacher -> embeddings, for many images, at the speed of the teacher.

On a CPU every core computes its own batch, from the files to the embeddings, so that no core waits; batches that fit into the
cache are fastest. On other devices threads decode ahead, and the device computes the rest from bytes.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from threading import local
from typing import TypeVar

import numpy as np
import torch
from accelerate import Accelerator
from torch import Tensor
from torch.nn.functional import normalize

from aevlp.core.engine import autocast, can_resize
from aevlp.core.torch_threads import one_thread_per_core
from aevlp.damp.views import ViewSettings, decode, plan_views, render
from aevlp.models.teacher import Teacher
from aevlp.store.fill import Job
from aevlp.store.packs import Embeddings

ON_A_CPU = 40  # views per forward pass
ELSEWHERE = 256
READERS = 8  # threads that decode for a device, at most


J = TypeVar("J", bound=Job)
Batch = list[tuple[J, int]]  # (job, index of the image in it)


class Scorer:
    """A teacher that embeds the views of image files."""

    def __init__(
        self,
        teacher: Teacher,
        settings: ViewSettings,
        *,
        mean: Sequence[float],
        std: Sequence[float],
        accelerator: Accelerator,
        batch_size: int | None = None,
        precision: str = "fp32",
    ) -> None:
        self.teacher = teacher
        self.settings = settings
        self.mean, self.std = tuple(mean), tuple(std)
        self.precision = precision
        self.device = accelerator.device
        is_on_cpu = self.device.type == "cpu"
        # A user's teacher may keep state between calls: it is called from one thread unless it declares itself thread-safe.
        self.encodes_in_threads = is_on_cpu and getattr(teacher, "is_thread_safe", False)
        self.cuts_on = self.device if can_resize(self.device) else torch.device("cpu")
        self.images_per_batch = max(1, (batch_size or (ON_A_CPU if is_on_cpu else ELSEWHERE)) // settings.count)
        if precision == "int8":  # the scale is computed per batch, and an image must not depend on its neighbours
            self.images_per_batch = 1
        # For a row of pixels at a time: three channels alone are too short to vectorise.
        centre, spread = torch.tensor(mean), torch.tensor(std)
        self._scale, self._shift = (x.repeat(settings.size).to(self.device) for x in (1 / (255 * spread), -centre / spread))
        self._memory = local()
        self.forward_batches = 0
        self.model = "teacher"
        self.work = f"scoring {settings.count} views each"

    def embed(self, jobs: Iterable[J], advance: Callable[[int], None] = lambda _: None) -> Iterator[tuple[J, Embeddings]]:
        """Yield each job with the unit embeddings of its views, float16 [images, V, K]; report finished images to `advance`.

        Jobs are consumed slightly ahead; a batch may span two jobs.
        """
        rows: list[Embeddings] = []
        for batch, embeddings in self._in_order(_batches(jobs, self.images_per_batch)):
            for (job, row), found in zip(batch, embeddings, strict=True):
                rows.append(found)
                if row == len(job.digests) - 1:
                    yield job, np.stack(rows)
                    rows = []
            advance(len(batch))

    def _in_order(self, batches: Iterator[Batch[J]]) -> Iterator[tuple[Batch[J], Embeddings]]:
        """Yield the batches with their embeddings [images, V, K]; a bounded number of batches is computed at a time."""
        workers = torch.get_num_threads() if self.encodes_in_threads else min(READERS, os.cpu_count() or 1)
        ahead = 2 * workers if self.encodes_in_threads else 2
        waiting: deque[tuple[Batch[J], list[Future[Tensor]]]] = deque()
        unread: tuple[Batch[J], Tensor] | None = None
        with one_thread_per_core(workers) as pool:
            while True:
                for batch in islice(batches, ahead - len(waiting)):
                    waiting.append((batch, self._submit(pool, batch)))
                if not waiting:
                    break
                batch, begun = waiting.popleft()
                found = [each.result() for each in begun]
                embeddings = found[0] if self.encodes_in_threads else self._encode(batch, found)
                self.forward_batches += 1
                if unread is not None:  # the previous batch, so that the device computes the next while this one is copied
                    yield unread[0], unread[1].cpu().numpy()
                unread = batch, embeddings
        if unread is not None:
            yield unread[0], unread[1].cpu().numpy()

    def _submit(self, pool: ThreadPoolExecutor, batch: Batch[J]) -> list[Future[Tensor]]:
        """Submit a batch to the threads: the whole computation, or only the decoding of each image."""
        if self.encodes_in_threads:
            return [pool.submit(lambda: self._encode(batch, [self._decoded(job, row) for job, row in batch]))]
        return [pool.submit(self._decoded, job, row) for job, row in batch]

    def _decoded(self, job: J, row: int) -> Tensor:
        return decode(job.paths[row], self.settings, job.digests[row])

    @torch.inference_mode()
    def _encode(self, batch: Batch[J], images: Sequence[Tensor]) -> Tensor:
        """Return embeddings of the views of decoded images, uint8 [height, width, 3]: float16 [images, V, K] on the device."""
        count = self.settings.count
        views = self._buffer("views", torch.uint8, self.cuts_on)[: len(batch) * count]
        for i, ((job, row), image) in enumerate(zip(batch, images, strict=True)):
            plan = plan_views(self.settings, job.draw, job.digests[row], image.shape[1], image.shape[0])
            render(image.to(self.cuts_on), plan, self.settings, views[i * count : (i + 1) * count])
        with autocast(self.device, self.precision):
            embeddings = self.teacher.encode_images(self.normalised(views))
        return normalize(embeddings.float(), dim=-1).view(len(batch), count, -1).half()

    def normalised(self, views: Tensor) -> Tensor:
        """Return views uint8 [n, S, S, 3] as the teacher's input, float [n, 3, S, S], valid until this thread's next call."""
        pixels = self._buffer("pixels", torch.float32, self.device)[: len(views)].copy_(views)
        rows = pixels.view(-1, len(self._scale))
        torch.addcmul(self._shift, rows, self._scale, out=rows)
        return pixels.permute(0, 3, 1, 2)

    def _buffer(self, name: str, dtype: torch.dtype, device: torch.device) -> Tensor:
        """Return this thread's buffer [views of a batch, S, S, 3], made once: allocation would cost more than the computation."""
        if not hasattr(self._memory, name):
            shape = (self.images_per_batch * self.settings.count, self.settings.size, self.settings.size, 3)
            setattr(self._memory, name, torch.empty(shape, dtype=dtype, device=device))
        buffer: Tensor = getattr(self._memory, name)
        return buffer


def _batches(jobs: Iterable[J], size: int) -> Iterator[Batch[J]]:
    """Yield the images of all jobs, `size` at a time."""
    images = ((job, row) for job in jobs for row in range(len(job.digests)))
    while batch := list(islice(images, size)):
        yield batch
