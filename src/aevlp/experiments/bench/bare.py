"""The least that scoring and training must compute: the teacher and the classifier on batches that lie ready in memory."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from accelerate import Accelerator
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from aevlp.config.config import Config
from aevlp.core.engine import autocast, teacher_precision
from aevlp.core.torch_threads import one_thread_per_core
from aevlp.models.classifier import Classifier
from aevlp.models.teacher import Teacher
from aevlp.training.setup import make_optimizer


class BareTeacher:
    """A teacher that looks at `views` ready-made views in batches of at most `batch_size`, `at_once` batches side by side."""

    def __init__(self, teacher: Teacher, views: int, batch_size: int, device: torch.device, *, at_once: int = 1) -> None:
        self.teacher, self.device, self.at_once = teacher, device, at_once
        side = teacher.image_size
        self.ready = torch.randn(min(views, batch_size), 3, side, side).to(device)
        self.counts = [min(batch_size, views - first) for first in range(0, views, batch_size)]

    def __call__(self) -> None:
        """One pass over all."""
        if self.at_once == 1:
            found = [self._look(count) for count in self.counts]
        else:
            with one_thread_per_core(self.at_once) as pool:
                found = list(pool.map(self._look, self.counts))
        found[-1].cpu()  # waits for a device that computes on its own

    @torch.inference_mode()
    def _look(self, count: int) -> Tensor:
        with autocast(self.device, teacher_precision("auto", self.device)):
            return self.teacher.encode_images(self.ready[:count])


class BareStep:
    """Training steps on one ready-made batch: forward, binary cross-entropy, backward, Adam."""

    def __init__(self, classifier: Classifier, config: Config, accelerator: Accelerator) -> None:
        self.classifier = classifier.to(accelerator.device).train()
        self.optimizer = make_optimizer(self.classifier, config.train)
        shape = (config.train.batch_size, config.model.image_size, config.model.image_size, 3)
        self.pixels = torch.randint(256, shape, dtype=torch.uint8).to(accelerator.device)
        self.targets = torch.randint(2, (len(self.pixels), len(classifier.classes))).float().to(accelerator.device)

    def __call__(self, images: Sequence[int]) -> None:
        """A step per entry of `images`: the number of images in it."""
        self.classifier.train()
        for count in images:
            loss = binary_cross_entropy_with_logits(self.classifier(self.pixels[:count]), self.targets[:count])
            torch.autograd.backward(loss)
            self.optimizer.step()
            self.optimizer.zero_grad()
        loss.detach().cpu()
