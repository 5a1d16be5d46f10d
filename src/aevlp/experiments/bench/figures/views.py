"""Making the teacher's views from a file, against the straightforward way, on one thread."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

from aevlp.experiments.bench.registry import Bench, Row, register_figure
from aevlp.experiments.bench.timing import side_by_side

log = logging.getLogger("aevlp.experiments.bench")


@register_figure("views", "time of the straightforward way to make an image's views / time taken, on one thread")
def views(
    bench: Bench, *, repeats: int = 5, images: int = 16, width: int = 500, height: int = 375, side: int = 224, grid: int = 4
) -> list[Row]:
    """Two rows, without and with augmentation: from an image file to normalised floats."""
    import torch

    if bench.accelerator.device.type != "cpu":
        log.info("views: left out, it compares ways that use one thread of a CPU")
        return []
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return [_compared(bench, augment, repeats, images, width, height, side, grid) for augment in (False, True)]
    finally:
        torch.set_num_threads(threads)


def _compared(bench: Bench, augment: bool, repeats: int, images: int, width: int, height: int, side: int, grid: int) -> Row:
    import torch

    from aevlp.damp.scoring import Scorer
    from aevlp.damp.views import ViewSettings
    from aevlp.experiments.bench import straightforward
    from aevlp.experiments.bench.images import write_images
    from aevlp.experiments.bench.models import Onlooker
    from aevlp.store.fill import Job

    kind = "with augmentation" if augment else "without augmentation"
    paths = write_images(bench.folder / kind, train=images, width=width, height=height)
    settings = ViewSettings(size=side, grid=grid, overlap=0.2, augment=augment, seed=0)
    teacher = Onlooker(side)
    mean, std = teacher.mean, teacher.std
    # One image per pass, so that what the teacher is shown is what is compared.
    scorer = Scorer(teacher, settings, mean=mean, std=std, batch_size=settings.count, accelerator=bench.accelerator)

    def by_product(paths: Sequence[Path]) -> None:
        for _ in scorer.embed([Job(paths, [path.name for path in paths], 0)]):
            pass

    def by_baseline() -> None:
        for path in paths:
            straightforward.views(path, path.name, 0, settings, mean, std)

    apart = []
    for path in paths:
        by_product([path])
        other = straightforward.views(path, path.name, 0, settings, mean, std)
        apart.append(((teacher.shown.cpu() - other).abs() * 255 * torch.tensor(std).view(3, 1, 1)).mean())
    times = side_by_side(f"views {kind}", {"product": lambda: by_product(paths), "straightforward": by_baseline}, repeats)
    return Row.of(
        times.ratio("straightforward", "product"),
        f"making views, {kind}",
        "the straightforward way",
        at_least=None if augment else 2.5,
        absolute={
            "ms per image": 1000 * times.median("product") / images,
            "ms per image of the straightforward way": 1000 * times.median("straightforward") / images,
            "mean difference of the two in 1/255": float(torch.stack(apart).mean()),
        },
        setting={
            "images": f"{images} JPEG of {width} x {height}",
            "views": f"{settings.count} of {side} px",
            "threads": 1,
            "repeats": repeats,
        },
    )
