"""Making the teacher's views from a file, against the straightforward way, on one thread."""

import logging
from collections.abc import Sequence
from pathlib import Path

import torch

from aevlp.damp.scoring import Scorer
from aevlp.damp.views import ViewSettings
from aevlp.experiments.bench.baselines import straightforward_views
from aevlp.experiments.bench.images import write_images
from aevlp.experiments.bench.models import DummyTeacher
from aevlp.experiments.bench.registry import Bench, Measurement, register_figure
from aevlp.experiments.bench.timing import side_by_side
from aevlp.store.fill import Job

log = logging.getLogger("aevlp.experiments.bench")


@register_figure("views", "time of the straightforward way to make an image's views / time taken, on one thread")
def views(
    bench: Bench, *, repeats: int = 5, images: int = 16, width: int = 500, height: int = 375, side: int = 224, grid: int = 4
) -> list[Measurement]:
    """Measure without and with augmentation, from an image file to normalised floats."""
    if bench.accelerator.device.type != "cpu":
        log.info("views: left out, because it compares two ways on one thread of a CPU")
        return []
    paths = write_images(bench.folder / "set", train=images, width=width, height=height)
    settings = [ViewSettings(size=side, grid=grid, overlap=0.2, augment=augment, seed=0) for augment in (False, True)]
    setting = {
        "images": f"{images} JPEG of {width} x {height}",
        "views": f"{settings[0].count} of {side} px",
        "threads": 1,
        "repeats": repeats,
    }
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return [_measured(bench, paths, each, repeats, setting) for each in settings]
    finally:
        torch.set_num_threads(threads)


def _measured(
    bench: Bench, paths: Sequence[Path], settings: ViewSettings, repeats: int, setting: dict[str, object]
) -> Measurement:
    kind = "with augmentation" if settings.augment else "without augmentation"
    teacher = DummyTeacher(settings.size)
    mean, std = teacher.mean, teacher.std
    # One image per pass, so that the teacher gets exactly the views that are compared.
    scorer = Scorer(teacher, settings, mean=mean, std=std, batch_size=settings.count, accelerator=bench.accelerator)

    def by_package(paths: Sequence[Path]) -> None:
        for _ in scorer.embed([Job(paths, [path.name for path in paths], 0)]):
            pass

    def by_baseline() -> None:
        for path in paths:
            straightforward_views(path, path.name, 0, settings, mean, std)

    differences = []
    for path in paths:
        by_package([path])
        other = straightforward_views(path, path.name, 0, settings, mean, std)
        differences.append(((teacher.last_pixels.cpu() - other).abs() * 255 * torch.tensor(std).view(3, 1, 1)).mean())
    times = side_by_side(f"views {kind}", {"package": lambda: by_package(paths), "straightforward": by_baseline}, repeats)
    return Measurement.of(
        times.ratio("straightforward", "package"),
        f"making views, {kind}",
        "the straightforward way",
        at_least=None if settings.augment else 2.5,
        absolute={
            "ms per image": 1000 * times.median("package") / len(paths),
            "ms per image of the straightforward way": 1000 * times.median("straightforward") / len(paths),
            "mean difference of the two in 1/255": float(torch.stack(differences).mean()),
        },
        setting=setting,
    )
