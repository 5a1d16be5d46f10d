"""A training step from image files and the store, against the bare step on a batch in memory."""

from collections.abc import Mapping
from typing import Any

from aevlp.config.config import build_config
from aevlp.data.load import load
from aevlp.experiments.bench.baselines import BareStep
from aevlp.experiments.bench.images import write_images
from aevlp.experiments.bench.models import RESNET_50, save_resnet
from aevlp.experiments.bench.registry import Bench, Measurement, rates, register_figure
from aevlp.experiments.bench.timing import side_by_side
from aevlp.models.classifier import build_classifier
from aevlp.training.loop import Learning, phases, train_epoch
from aevlp.training.run_folder import RunFolder
from aevlp.training.setup import prepare
from aevlp.training.state import resume_or_start


@register_figure("step", "rate of training from image files / rate of the bare training step on a batch in memory")
def step(
    bench: Bench,
    *,
    repeats: int = 5,
    images: int = 48,
    width: int = 500,
    height: int = 375,
    side: int = 224,
    batch_size: int = 16,
    workers: int = 2,
    backbone: Mapping[str, Any] = RESNET_50,
) -> list[Measurement]:
    """Measure an epoch of the method `aevlp` with labels from a filled store. The backbone is a ResNet-50."""
    write_images(bench.folder / "set", train=images, val=4, width=width, height=height)
    values = {
        "data.observe": "single",
        "teacher.name": "demo",
        "model.backbone": save_resnet(bench.folder / "resnet", side=side, **backbone),
        "model.image_size": side,
        "train.batch_size": batch_size,
        "train.workers": workers,
        "damp.draws": 1,
    }
    config = build_config("default", "aevlp", values)
    store = bench.folder / "views"
    data = load(bench.folder / "set", config.data, store)
    setup = prepare(config, data, store, bench.accelerator)
    learning = Learning.of(resume_or_start(setup, RunFolder(bench.folder / "run")), phases(setup)[0])

    def epoch() -> None:
        setup.source.begin_epoch(learning.context(1))
        train_epoch(learning, 1)

    bare = BareStep(build_classifier(config.model, data.classes, config.run.seed), config, bench.accelerator)
    counts = [min(batch_size, images - first) for first in range(0, images, batch_size)]
    times = side_by_side("step", {"training": epoch, "bare step": lambda: bare(counts)}, repeats)
    bench.accelerator.free_memory()
    setting = {
        "images": f"{images} JPEG of {width} x {height}",
        "backbone": f"ResNet {dict(backbone)}" if backbone else "ResNet-50",
        "image size": side,
        "classes": len(data.classes),
        "batch": batch_size,
        "workers": workers,
        "repeats": repeats,
    }
    labels = ("rate of training", "trained", "of the bare step")
    return rates(times, "training", ["bare step"], images=images, labels=labels, at_least=0.95, setting=setting)
