"""Baselines to measure against.

The least that must be computed: the bare teacher, model and training step, on batches that lie ready in memory.
Views in the straightforward way: whole decodes; crop, resize and change by PIL; a float tensor per view.
The method as a plain loop, the way the paper's released code runs it: the teacher sees every batch of every epoch.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from accelerate import Accelerator
from PIL import Image, ImageEnhance, ImageOps
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, normalize
from torch.utils.data import DataLoader, Sampler
from torch.utils.data import Dataset as Items
from transformers import AutoModelForImageClassification

from aevlp.config.config import Config
from aevlp.core.engine import autocast, teacher_precision
from aevlp.core.seeds import seed_for
from aevlp.core.torch_threads import one_thread_per_core
from aevlp.damp.augment import JITTER, ROTATION, SHARPNESS
from aevlp.damp.labels import pseudo_labels, scores
from aevlp.damp.options import DampOptions
from aevlp.damp.text import class_embeddings, noise_weights, text_embeddings
from aevlp.damp.views import Plan, ViewSettings, plan_views
from aevlp.data.dataset import Dataset
from aevlp.data.fingerprint import Digests
from aevlp.models.classifier import Classifier, build_classifier
from aevlp.models.pretrained import quiet_loading
from aevlp.models.prompts import class_prompts
from aevlp.models.safe_loading import SETTINGS
from aevlp.models.teacher import Teacher, load_teacher
from aevlp.training.evaluate import evaluate_split
from aevlp.training.inputs import ImageFiles, Item, TrainingOrder
from aevlp.training.setup import expected_positives, make_optimizer


def bare_teacher(teacher: Teacher, views: int, batch_size: int, device: torch.device, *, at_once: int = 1) -> Callable[[], None]:
    """Return a pass of the teacher over `views` ready-made views, `at_once` batches side by side."""
    precision = teacher_precision("auto", device)

    def forward(pixels: Tensor) -> Tensor:
        with autocast(device, precision):
            return teacher.encode_images(pixels)

    ready = torch.randn(min(views, batch_size), 3, teacher.image_size, teacher.image_size).to(device)
    return _pass(forward, ready, views, at_once)


def bare_model(
    folder: Path, images: int, batch_size: int, side: int, device: torch.device, *, channels_last: bool = False, at_once: int = 1
) -> Callable[[], None]:
    """Return a pass of the plain model of transformers over ready-made, normalised images, `at_once` batches side by side."""
    layout = torch.channels_last if channels_last else torch.contiguous_format
    with quiet_loading():
        model = AutoModelForImageClassification.from_pretrained(folder, use_safetensors=True, **SETTINGS).eval()
    model.to(device, memory_format=layout)

    def forward(pixels: Tensor) -> Tensor:
        logits: Tensor = model(pixel_values=pixels).logits
        return logits

    ready = torch.randn(min(images, batch_size), 3, side, side).to(device, memory_format=layout)
    return _pass(forward, ready, images, at_once)


def _pass(forward: Callable[[Tensor], Tensor], ready: Tensor, total: int, at_once: int) -> Callable[[], None]:
    """Return a function that calls `forward` on `total` images, in batches of at most those in `ready`."""
    counts = [min(len(ready), total - first) for first in range(0, total, len(ready))]

    @torch.inference_mode()
    def run_batch(count: int) -> Tensor:
        return forward(ready[:count])

    def run_all() -> None:
        if at_once == 1:
            outputs = [run_batch(count) for count in counts]
        else:
            with one_thread_per_core(at_once) as pool:
                outputs = list(pool.map(run_batch, counts))
        outputs[-1].cpu()  # waits for a device that computes asynchronously

    return run_all


class BareStep:
    """Training steps on one ready-made batch: forward, binary cross-entropy, backward, Adam."""

    def __init__(self, classifier: Classifier, config: Config, accelerator: Accelerator) -> None:
        self.classifier = classifier.to(accelerator.device).train()
        self.optimizer = make_optimizer(self.classifier, config.train)
        shape = (config.train.batch_size, config.model.image_size, config.model.image_size, 3)
        self.pixels = torch.randint(256, shape, dtype=torch.uint8).to(accelerator.device)
        self.targets = torch.randint(2, (len(self.pixels), len(classifier.classes))).float().to(accelerator.device)

    def __call__(self, images: Sequence[int]) -> None:
        """Make a step per entry of `images`: the number of images in it."""
        self.classifier.train()
        for count in images:
            loss = binary_cross_entropy_with_logits(self.classifier(self.pixels[:count]), self.targets[:count])
            torch.autograd.backward(loss)
            self.optimizer.step()
            self.optimizer.zero_grad()
        loss.detach().cpu()


def decode_twice(path: Path) -> tuple[Image.Image, Image.Image]:
    """Return the image for the global view, and the same decoded once more for the tiles."""
    return Image.open(path).convert("RGB"), Image.open(path).convert("RGB")


def straightforward_views(
    path: Path, digest: bytes, draw: int, settings: ViewSettings, mean: Sequence[float], std: Sequence[float]
) -> Tensor:
    """Return the normalised views of an image file in one draw, float [V, 3, size, size]."""
    whole, parts = decode_twice(path)
    return cut_views(whole, parts, plan_views(settings, draw, digest, *whole.size), settings.size, mean, std)


def cut_views(
    whole: Image.Image, parts: Image.Image, plan: Plan, size: int, mean: Sequence[float], std: Sequence[float]
) -> Tensor:
    """Return the first view cut from `whole`, the others from `parts`, float [V, 3, size, size]."""
    views = []
    for number, (left, top, right, bottom) in enumerate(plan.boxes.tolist()):
        crop = (parts if number else whole).crop((round(left), round(top), round(right), round(bottom)))
        view = crop.resize((size, size), Image.Resampling.BICUBIC)
        if plan.flipped[number]:
            view = view.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        if plan.augmentation[number]:
            view = _changed(view, int(plan.augmentation[number]), plan.amounts[number].tolist())
        pixels = torch.from_numpy(np.array(view)).permute(2, 0, 1).contiguous().float().div(255)
        views.append((pixels - torch.tensor(mean).view(3, 1, 1)) / torch.tensor(std).view(3, 1, 1))
    return torch.stack(views)


def _changed(view: Image.Image, change: int, amounts: Sequence[float]) -> Image.Image:
    """Return the view after one weak change: 1 rotation, 2 colour jitter, 3 sharpness, 4 autocontrast."""
    if change == 1:
        return view.rotate(ROTATION * amounts[0], Image.Resampling.BILINEAR)
    if change == 2:
        brightness, contrast, saturation, hue = amounts
        view = ImageEnhance.Brightness(view).enhance(1 + JITTER * brightness)
        view = ImageEnhance.Contrast(view).enhance(1 + JITTER * contrast)
        view = ImageEnhance.Color(view).enhance(1 + JITTER * saturation)
        colour, rest, value = view.convert("HSV").split()
        shift = round(256 * JITTER * hue)
        return Image.merge("HSV", (colour.point([(h + shift) % 256 for h in range(256)]), rest, value)).convert("RGB")
    if change == 3:
        return ImageEnhance.Sharpness(view).enhance(SHARPNESS)
    return ImageOps.autocontrast(view)


class ImagesWithViews(Items[tuple[int, Tensor, Tensor]]):
    """Image files as (index, the classifier's pixels, the teacher's views), made anew in every epoch."""

    def __init__(self, paths: Sequence[Path], digests: Digests, size: int, settings: ViewSettings, teacher: Teacher) -> None:
        self.paths, self.digests, self.size, self.settings = paths, digests, size, settings
        self.mean, self.std = teacher.mean, teacher.std

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, item: tuple[Item, int]) -> tuple[int, Tensor, Tensor]:
        (index, flipped), epoch = item
        whole, parts = decode_twice(self.paths[index])
        plan = plan_views(self.settings, epoch - 1, self.digests[index], *whole.size)
        views = cut_views(whole, parts, plan, self.settings.size, self.mean, self.std)
        image = whole.resize((self.size, self.size), Image.Resampling.BICUBIC)
        if flipped:
            image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        return index, torch.from_numpy(np.array(image)), views


class OrderWithEpoch(Sampler[tuple[Item, int]]):
    """The training order, each item with its epoch: persistent workers do not see changes of the dataset."""

    def __init__(self, order: TrainingOrder) -> None:
        self.order = order

    def __len__(self) -> int:
        return len(self.order)

    def __iter__(self) -> Iterator[tuple[Item, int]]:
        return ((item, self.order.epoch) for item in self.order)


def train_in_loop(config: Config, data: Dataset, accelerator: Accelerator) -> float:
    """Train on `data` and return the best validation mAP; nothing is cached from one batch to the next."""
    device, damp = accelerator.device, config.source
    assert isinstance(damp, DampOptions)
    assert config.method.loss is not None
    precision = teacher_precision(config.teacher.precision, device)
    teacher = load_teacher(config.teacher.name, device, precision)
    classifier = build_classifier(config.model, data.classes, config.run.seed).to(device)
    optimizer = make_optimizer(classifier, config.train)
    expected = expected_positives(config, data)
    prompts = class_prompts(config.teacher.prompts, config.teacher.prompt, data.classes)
    dimension = text_embeddings(teacher.encode_texts, prompts[:1]).shape[1]
    noise = noise_weights(dimension, torch.Generator().manual_seed(seed_for(config.run.seed, "text noise")))

    settings = ViewSettings(size=teacher.image_size, grid=damp.grid, overlap=damp.overlap, augment=damp.augment, seed=damp.seed)
    images = ImagesWithViews(data.train.paths, data.train.digests, config.model.image_size, settings, teacher)
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
            batch_observed = observed[index].to(device)
            classes = class_embeddings(text_embeddings(teacher.encode_texts, prompts), noise, damp.neighbours)
            with autocast(device, precision):
                embeddings = normalize(teacher.encode_images(views.flatten(0, 1)).float(), dim=-1)
            pseudo = _labels(embeddings.view(*views.shape[:2], -1), classes, batch_observed, damp)
            arguments = config.loss.at(epoch, config.train.epochs, batch_observed.numel())
            logits = classifier(pixels.to(device))
            loss = config.method.loss.function(logits, batch_observed, pseudo, expected_positives=expected, **arguments)
            torch.autograd.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        best = max(best, evaluate_split(classifier, data.val, val_images, data.classes, accelerator).mAP)
    return best


def _labels(embeddings: Tensor, classes: Tensor, observed: Tensor, damp: DampOptions) -> Tensor:
    """Return the pseudo-labels of a batch, int8 [N, C]."""
    return pseudo_labels(
        *scores(embeddings, classes, damp.temperature),
        observed,
        local_threshold=damp.local_threshold,
        global_threshold=damp.global_threshold,
        top_k=damp.top_k,
        negative_fraction=damp.negative_fraction,
    )
