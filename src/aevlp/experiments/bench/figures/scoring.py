"""From image files to pseudo-labels: making views, scoring them, the teacher in 8 bits, and labelling from the store."""

import logging
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from aevlp.config.config import build_config
from aevlp.config.recipe import read_recipe, recipe_file
from aevlp.core.engine import teacher_precision
from aevlp.damp.options import DampOptions
from aevlp.damp.scoring import Scorer
from aevlp.damp.views import ViewSettings
from aevlp.data.dataset import Split
from aevlp.data.fingerprint import DIGEST
from aevlp.data.image_files import digests
from aevlp.data.load import load
from aevlp.experiments.bench.baselines import bare_teacher, straightforward_views
from aevlp.experiments.bench.images import write_images
from aevlp.experiments.bench.measurement import Bench, Measurement, Ratio, rates, register_figure, side_by_side
from aevlp.experiments.bench.models import DummyTeacher, save_clip
from aevlp.experiments.demo.scenes import write_world
from aevlp.models.teacher import load_teacher
from aevlp.sources.damp import Damp
from aevlp.store.fill import Job
from aevlp.store.packs import chunks_of

LARGE = 256  # views of a batch of the bare teacher
PRECISIONS = ("int8", "fp32")
VOC = 5717  # training images
DRAWS = 2  # in the store of the figure `labels`
log = logging.getLogger("aevlp.experiments.bench")


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
    precision = teacher_precision("auto", device)
    scorer = Scorer(teacher, settings, mean=teacher.mean, std=teacher.std, accelerator=bench.accelerator, precision=precision)
    job = Job(paths, digests(paths), 0)
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

    known = digests(paths)

    def by_package(rows: slice) -> None:
        list(scorer.embed([Job(paths[rows], known[rows], 0)]))

    def by_baseline() -> None:
        for path, digest in zip(paths, known, strict=True):
            straightforward_views(path, digest, 0, settings, mean, std)

    differences = []
    for row, path in enumerate(paths):
        by_package(slice(row, row + 1))
        other = straightforward_views(path, known[row], 0, settings, mean, std)
        differences.append(((teacher.last_pixels.cpu() - other).abs() * 255 * torch.tensor(std).view(3, 1, 1)).mean())
    times = side_by_side(f"views {kind}", {"package": lambda: by_package(slice(None)), "straightforward": by_baseline}, repeats)
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


@register_figure("int8", "rate of the teacher in 8 bits / in full precision, and the share of pseudo-labels that this changes")
def int8(
    bench: Bench, *, repeats: int = 3, images: int = 16, side: int = 224, layers: int = 12, scenes: int = 300
) -> list[Measurement]:
    """Measure the rate of a bare ViT-Ti/16, and the labels that the demo's teacher gives to scenes of the demo's world."""
    if bench.accelerator.device.type != "cpu":
        log.info("int8: left out, because only a CPU computes in it")
        return []
    device, views = bench.accelerator.device, 17 * images
    folder = save_clip(bench.folder / "clip", side=side, layers=layers)
    ways = {precision: bare_teacher(load_teacher(folder, device, precision), views, 34, device) for precision in PRECISIONS}
    times = side_by_side("int8", ways, repeats)
    faster = Measurement.of(
        times.ratio("fp32", "int8"),
        "rate of the bare teacher in int8",
        "in fp32",
        absolute={f"images/s in {precision}": times.part(images, precision).value for precision in ways},
        setting={
            "images": images,
            "teacher": f"ViT, width 192, {layers} layers, patch 16, {side} px, 34 views at once",
            "repeats": repeats,
        },
    )
    return [faster, _changed_labels(bench, scenes, repeats)]


def _changed_labels(bench: Bench, scenes: int, repeats: int) -> Measurement:
    """Measure the share of (image, class) cells whose pseudo-label differs in 8 bits."""
    write_world(bench.folder / "world", train=scenes, test=1)
    labels, embeddings = [], []
    for precision in PRECISIONS:
        values = read_recipe(recipe_file("demo")) | {"teacher.precision": precision, "damp.draws": 1}
        config = build_config("demo", "aevlp", values)
        data = load(bench.folder / "world", config.data, bench.folder / "views")
        source = Damp(config.source_context(data.train, data.classes, bench.folder / "views", bench.accelerator), config.source)
        source.fill()
        labels.append(source.labels(1).numpy())
        embeddings.append(source.views.seen(1, np.arange(len(data.train.names))).astype(np.float32))
    differ = labels[0] != labels[1]
    positive = (labels[0] == 1) | (labels[1] == 1)
    return Measurement.of(
        Ratio.of([float(differ.mean())]),
        "pseudo-labels in int8",
        "in fp32",
        unit="of all cells differ",
        absolute={
            "of the positive ones differ": float(differ[positive].mean()) if positive.any() else 0.0,
            "mean cosine of the embeddings": float((embeddings[0] * embeddings[1]).sum(-1).mean()),
        },
        setting={"images": f"{len(labels[0])} of the demo's world", "teacher": "the demo's", "repeats": repeats},
    )


@register_figure("labels", "images labelled from the store per second, and the same / reading and multiplying alone")
def labels(bench: Bench, *, repeats: int = 5, images: int = 6000, classes: int = 80) -> list[Measurement]:
    """Measure the rate, and its ratio to that of the bare read and product.

    For a draw, for recombined draws, and for a draw of the same images in another order, in which each comes from another pack.
    """
    source, shuffled = _filled_sources(bench, images, classes)
    store = source.views.store
    assert store is not None

    def read_and_multiply() -> None:
        for pack in store.index(0).packs:
            read = torch.from_numpy(np.load(pack.path)).to(bench.accelerator.device)
            (read.float() @ source.classes.to(read.device).T).cpu()

    ways = {
        "a draw": lambda: source.labels(1),
        "recombined draws": lambda: source.labels(DRAWS + 1),
        "a draw in another order": lambda: shuffled.labels(1),
        "bare": read_and_multiply,
    }
    times = side_by_side("labels", ways, repeats)
    setting = {"images": images, "classes": classes, "views": store.shape[0], "dimension": store.shape[1], "repeats": repeats}
    rows = []
    for way in (way for way in ways if way != "bare"):
        rate, what = times.part(images, way), f"labels of {way}"
        seconds = {f"s for {VOC:,} images": VOC / rate.value}
        rows.append(Measurement.of(rate, what, "", unit="images/s", at_least=20_000, absolute=seconds, setting=setting))
        both = {"images/s": rate.value, "images/s of the bare read and product": times.part(images, "bare").value}
        against = "bare read and product of one draw"
        rows.append(Measurement.of(times.ratio("bare", way), what, against, absolute=both, setting=setting))
    return rows


def _filled_sources(bench: Bench, images: int, classes: int) -> tuple[Damp, Damp]:
    """Return sources of labels of images in order and shuffled, whose store has random embeddings; no files are needed."""
    rng = np.random.default_rng(0)
    observed = np.zeros((images, classes), np.int8)
    observed[np.arange(images), rng.integers(classes, size=images)] = 1
    files = tuple(f"{number}.jpg" for number in range(images))
    split = Split("train", bench.folder, files, np.frombuffer(rng.bytes(DIGEST * images), f"S{DIGEST}"), observed, None)
    teacher = "aevlp.experiments.bench.models:DummyTeacher"
    config = build_config("default", "aevlp", {"teacher.name": teacher, "damp.draws": DRAWS})
    names = [f"class {number}" for number in range(classes)]
    source, shuffled = (
        Damp(config.source_context(part, names, bench.folder / "views", bench.accelerator), config.source)
        for part in (split, split.part(rng.permutation(images)))
    )
    store = source.views.store
    assert store is not None
    for draw in range(DRAWS):
        for rows in chunks_of(images):
            views = rng.standard_normal((len(rows), *store.shape), dtype=np.float32)
            views /= np.linalg.norm(views, axis=-1, keepdims=True)
            store.write(draw, split.digests[rows.start : rows.stop], views.astype(np.float16))
    return source, shuffled
