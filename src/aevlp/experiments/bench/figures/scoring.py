"""Scoring image files against the teacher alone: the cost of reading and cutting."""

import torch

from aevlp.core.engine import teacher_precision
from aevlp.damp.options import DampOptions
from aevlp.damp.scoring import Scorer
from aevlp.damp.views import ViewSettings
from aevlp.experiments.bench.baselines import bare_teacher
from aevlp.experiments.bench.images import write_images
from aevlp.experiments.bench.models import save_clip
from aevlp.experiments.bench.registry import Bench, Measurement, rates, register_figure
from aevlp.experiments.bench.timing import side_by_side
from aevlp.models.teacher import load_teacher
from aevlp.store.fill import Job

LARGE = 256  # views


@register_figure("scoring", "rate of scoring image files / rate of the bare teacher on as many ready-made views")
def scoring(
    bench: Bench,
    *,
    repeats: int = 3,
    images: int = 32,
    width: int = 500,
    height: int = 375,
    side: int = 224,
    layers: int = 12,
    grid: int = 4,
) -> list[Measurement]:
    """Measure against the teacher in batches of the same size, in large ones, and in the same with a batch per core.

    The teacher is a ViT-Ti/16; views and batches are the default ones, with augmentation.
    """
    paths = write_images(bench.folder / "set", train=images, width=width, height=height)
    device = bench.accelerator.device
    teacher = load_teacher(save_clip(bench.folder / "clip", side=side, layers=layers), device)
    damp = DampOptions()
    settings = ViewSettings(size=side, grid=grid, overlap=damp.overlap, augment=damp.augment, seed=damp.seed)
    scorer = Scorer(
        teacher,
        settings,
        mean=teacher.mean,
        std=teacher.std,
        accelerator=bench.accelerator,
        precision=teacher_precision("auto", device),
    )
    job = Job(paths, [path.name for path in paths], 0)
    count, batch = images * settings.count, scorer.images_per_batch * settings.count
    against = {
        f"bare teacher, {size} views at once": bare_teacher(teacher, count, size, device)
        for size in dict.fromkeys((batch, LARGE))
    }
    if device.type == "cpu":
        cores = torch.get_num_threads()
        by_core = f"bare teacher, {batch} views on each of {cores} cores"
        against[by_core] = bare_teacher(teacher, count, batch, device, at_once=cores)
    times = side_by_side("scoring", {"scoring": lambda: list(scorer.embed([job])), **against}, repeats)
    setting = {
        "images": f"{images} JPEG of {width} x {height}",
        "teacher": f"ViT, width 192, {layers} layers, patch 16, {side} px",
        "views": settings.count,
        "repeats": repeats,
    }
    labels = ("rate of scoring", "scored", "of the bare teacher")
    return rates(times, "scoring", against, images=images, labels=labels, at_least=0.95, setting=setting)
