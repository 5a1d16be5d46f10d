"""The model at work for many requests: images are read by a few threads, and one thread asks the model."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from math import ceil

from PIL import Image

from aevlp.data.images import BadImage
from aevlp.inference.predictor import TrainedModel, in_batches
from aevlp.inference.serve.answers import Answer, Labelled, Unreadable
from aevlp.inference.serve.pictures import picture
from aevlp.inference.serve.uploads import Upload


class Service:
    """Labels uploaded images. `workers` threads read them; `cores` is how many batches the model's device does side by side."""

    def __init__(self, model: TrainedModel, *, workers: int, cores: int) -> None:
        self._model, self._cores, self._size = model, cores, model.image_size
        self._readers = ThreadPoolExecutor(workers, "reader")
        self._asker = ThreadPoolExecutor(1, "asker")  # one at a time: a pass takes all cores, and sets torch's threads

    async def answer(self, uploads: Sequence[Upload], *, calibrated: bool = False) -> Answer:
        """What the model says of the images, without holding up the event loop. Labels do not depend on `calibrated`."""
        loop = asyncio.get_running_loop()
        read = await asyncio.gather(*(loop.run_in_executor(self._readers, self._read, upload) for upload in uploads))
        errors = [
            Unreadable(upload.name, one.reason) for upload, one in zip(uploads, read, strict=True) if isinstance(one, BadImage)
        ]
        good = [(upload.name, one) for upload, one in zip(uploads, read, strict=True) if isinstance(one, Image.Image)]
        return Answer(await loop.run_in_executor(self._asker, self._labelled, good, calibrated), errors)

    def close(self) -> None:
        """Ends the threads, after what they have in hand."""
        for pool in (self._readers, self._asker):
            pool.shutdown(cancel_futures=True)

    def _read(self, upload: Upload) -> Image.Image | BadImage:
        try:
            return picture(upload.content, self._size)
        except BadImage as error:
            return error

    def _labelled(self, pictures: Sequence[tuple[str, Image.Image]], calibrated: bool) -> list[Labelled]:
        model, names = self._model, iter([name for name, _ in pictures])
        batch = max(1, min(model.usual_batch, ceil(len(pictures) / self._cores)))
        said = []
        for found in model.stream(in_batches([image for _, image in pictures], batch), workers=1):
            labels = model.labels_of(found.probabilities) if model.thresholds is not None else [None] * len(found.images)
            shown = model.calibrated(found.probabilities) if calibrated else found.probabilities
            for given, row in zip(labels, shown.tolist(), strict=True):
                # Seven digits, as in what `aevlp predict` writes: more would be noise in a float32.
                rounded = {name: float(f"{p:.7g}") for name, p in zip(model.classes, row, strict=True)}
                said.append(Labelled(next(names), given, rounded))
        return said
