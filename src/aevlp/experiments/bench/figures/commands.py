"""Commands on many images: prediction against the bare model, and time, disk and memory in sets of growing size."""

import logging
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

from aevlp.damp.view_embeddings import ViewKey
from aevlp.damp.views import ViewSettings
from aevlp.data.fingerprint import DIGEST
from aevlp.experiments.bench.baselines import bare_model
from aevlp.experiments.bench.command_cost import CommandCost, cost_of
from aevlp.experiments.bench.images import patchwork, write_images
from aevlp.experiments.bench.measurement import Bench, Measurement, Ratio, rates, register_figure, side_by_side
from aevlp.experiments.bench.models import RESNET_50, save_resnet
from aevlp.experiments.demo.scenes import CLASSES
from aevlp.inference.model_location import locate_model
from aevlp.inference.predict import predict_batches, write_predictions
from aevlp.inference.prediction_formats import PREDICTION_FORMATS
from aevlp.inference.predictor import TrainedModel
from aevlp.models.classifier import build_classifier
from aevlp.models.model_folder import save_classifier
from aevlp.models.options import ModelOptions
from aevlp.store.embedding_store import EmbeddingStore
from aevlp.store.packs import chunks_of

MOST = 1.1  # goal of growth
LARGE = 64  # images of a batch of the bare model
log = logging.getLogger("aevlp.experiments.bench")


@register_figure("growth", "cost per image in the largest set / in the smallest: seconds, disk, memory", takes_long=True)
def growth(
    bench: Bench, *, repeats: int = 1, sizes: Sequence[int] = (1_000, 10_000, 50_000), tiny: int = 60, image_size: int = 48
) -> list[Measurement]:
    """Measure `score` and `train` (one draw, one epoch) with the demo's models on images of 64 x 48 pixels.

    The seconds are those beyond a set of `tiny` images, which takes as long to start and to check.
    """
    scored: dict[int, list[CommandCost]] = {size: [] for size in (tiny, *sizes)}
    trained: dict[int, list[CommandCost]] = {size: [] for size in scored}
    disk: dict[int, int] = {}
    for size in scored:
        write_images(bench.folder / f"set-{size}", train=size, val=40, width=64, height=48, picture=patchwork)
    common = ["--recipe", "demo", "--model.image_size", image_size, "--epochs", 1, "--damp.draws", 1]
    common += ["--device", bench.accelerator.device.type]
    # The first command of all reads from a cold file cache: it is not timed.
    cost_of(["score", bench.folder / f"set-{tiny}", *common, "--store", bench.folder / "views-warm"])
    for turn in range(repeats):
        log.info("growth: round %d of %d", turn + 1, repeats)
        for size in scored if turn % 2 == 0 else reversed(scored):
            folder, store = bench.folder / f"set-{size}", bench.folder / f"views-{turn}-{size}"
            log.info("growth: %d images", size)
            scored[size].append(cost_of(["score", folder, *common, "--store", store]))
            disk[size] = sum(file.stat().st_size for file in store.rglob("*.npy"))
            run = bench.folder / f"run-{turn}-{size}"
            trained[size].append(cost_of(["train", folder, "--out", run, *common, "--store", store]))

    def per_image(costs: dict[int, list[CommandCost]], size: int) -> list[float]:
        return [(cost.seconds - less.seconds) / (size - tiny) for cost, less in zip(costs[size], costs[tiny], strict=True)]

    setting = {
        "images": " / ".join(f"{size:,}" for size in sizes) + " JPEG of 64 x 48",
        "models": f"the demo's, {image_size} px",
        "repeats": repeats,
    }

    def row(what: str, values: dict[int, list[float]], unit: str) -> Measurement:
        ratio = Ratio.of([large / small for large, small in zip(values[sizes[-1]], values[sizes[0]], strict=True)])
        return Measurement.of(
            ratio,
            f"{what}, {sizes[-1]:,} images",
            f"{sizes[0]:,} images",
            at_most=MOST,
            absolute={f"{unit}, {size:,} images": median(values[size]) for size in sizes},
            setting=setting,
        )

    return [
        row("seconds per image of scoring", {s: [1000 * t for t in per_image(scored, s)] for s in sizes}, "ms"),
        row("bytes per image of the store", {s: [disk[s] / s] for s in sizes}, "bytes"),
        row("seconds per image of training", {s: [1000 * t for t in per_image(trained, s)] for s in sizes}, "ms"),
        row("peak memory of scoring", {s: [cost.peak for cost in scored[s]] for s in sizes}, "MB"),
        row("peak memory of training", {s: [cost.peak for cost in trained[s]] for s in sizes}, "MB"),
    ]


@register_figure("store", "seconds and peak memory of opening a store of a million images")
def store(bench: Bench, *, repeats: int = 3, images: int = 1_000_000, dimension: int = 8) -> list[Measurement]:
    """Measure the time to find every image of a large set in a store, and `aevlp store list`. Each image has one small vector."""
    settings = ViewSettings(size=224, grid=0, overlap=0, augment=False, seed=0)
    key = ViewKey(teacher="none", mean=(), std=(), precision="fp32", views=settings)
    rng, root = np.random.default_rng(0), bench.folder / "views"
    digests = np.frombuffer(rng.bytes(DIGEST * images), f"S{DIGEST}")
    filled = EmbeddingStore(root, key, dimension=dimension)
    for rows in chunks_of(images):
        filled.write(0, digests[rows.start : rows.stop], np.zeros((len(rows), 1, dimension), np.float16))
    shuffled = rng.permutation(digests)

    def open_and_find() -> None:
        if EmbeddingStore(root, key, dimension=dimension).missing(0, shuffled).any():
            raise RuntimeError("an image is missing")

    times = side_by_side("store", {"wall": open_and_find}, repeats)
    processor = side_by_side("store", {"processor": open_and_find}, repeats, clock=time.process_time)
    listing = [cost_of(["store", "list", "--store", root]) for _ in range(repeats)]
    setting = {"images": images, "vectors": f"1 x {dimension}", "packs": len(chunks_of(images)), "repeats": repeats}
    seconds, peaks = times.seconds["wall"], [cost.peak for cost in listing]
    return [
        Measurement.of(
            Ratio.of(seconds),
            f"opening a store and finding {images:,} images in it",
            "",
            unit="s",
            at_most=5,
            absolute={"s of processor time": processor.median("processor")},
            setting=setting,
        ),
        Measurement.of(
            Ratio.of(peaks),
            f"peak memory of aevlp store list, {images:,} images",
            "",
            unit="MB",
            at_most=500,
            absolute={"s": median(cost.seconds for cost in listing)},
            setting=setting,
        ),
    ]


@register_figure("predict", "rate of predicting image files / rate of the bare model on as many images in memory")
def predict(
    bench: Bench,
    *,
    repeats: int = 3,
    images: int = 192,
    width: int = 500,
    height: int = 375,
    side: int = 224,
    workers: int = 2,
    backbone: Mapping[str, Any] = RESNET_50,
) -> list[Measurement]:
    """Measure against the bare model as it is, with weights laid out for convolutions, and the same with a batch per core.

    Prediction is all that `aevlp predict --out FILE.csv` does once it has started. The model is a ResNet-50.
    """
    names = list(map(str, write_images(bench.folder / "set", train=images, width=width, height=height)))
    folder = _save_model(bench.folder / "model", save_resnet(bench.folder / "resnet", side=side, **backbone), side)
    device = bench.accelerator.device
    model = TrainedModel(locate_model(folder), device=device, precision="fp32")
    layout = PREDICTION_FORMATS["csv"](model.classes, has_labels=False)

    def from_files() -> None:
        with (bench.folder / "found.csv").open("w", encoding="utf-8") as file:
            write_predictions(
                predict_batches(model, names, bench.accelerator, workers=workers), layout, file.write, lambda _: None
            )

    against = {
        f"bare model, {LARGE} images at once": bare_model(folder, images, LARGE, side, device),
        f"bare model, channels last, {LARGE} images at once": bare_model(folder, images, LARGE, side, device, channels_last=True),
    }
    if device.type == "cpu":
        cores, batch = torch.get_num_threads(), model.usual_batch
        by_core = f"bare model, channels last, {batch} images on each of {cores} cores"
        against[by_core] = bare_model(folder, images, batch, side, device, channels_last=True, at_once=cores)
    times = side_by_side("predict", {"predict": from_files, **against}, repeats)
    setting = {
        "images": f"{images} JPEG of {width} x {height}",
        "model": f"{f'ResNet {dict(backbone)}' if backbone else 'ResNet-50'}, {side} px",
        "workers": workers,
        "repeats": repeats,
    }
    labels = ("rate of prediction", "predicted", "of the bare model")
    return rates(times, "predict", against, images=images, labels=labels, at_least=0.9, setting=setting)


def _save_model(folder: Path, backbone: str, side: int) -> Path:
    """Save a classifier of the demo's classes on a backbone and return its folder."""
    save_classifier(build_classifier(ModelOptions(backbone, side), list(CLASSES), seed=0), folder)
    return folder


@register_figure(
    "predict-memory", "peak resident memory of predicting many images / of predicting a quarter of them", takes_long=True
)
def predict_memory(
    bench: Bench, *, repeats: int = 1, images: int = 20_000, different: int = 200, side: int = 64, backbone: str = "demo"
) -> list[Measurement]:
    """Measure `aevlp predict` in processes of their own on `different` files of 64 x 64 pixels, each under many names."""
    files = write_images(bench.folder / "set", train=different, width=64, height=64, picture=patchwork)
    model = _save_model(bench.folder / "model", backbone, side)
    counts = (images // 4, images)
    for count in counts:
        (bench.folder / str(count)).mkdir()
        for number in range(count):
            os.link(files[number % different], bench.folder / str(count) / f"{number:07d}.jpg")
    costs: dict[int, list[CommandCost]] = {count: [] for count in counts}
    for turn in range(repeats):
        for count in counts if turn % 2 == 0 else reversed(counts):
            out = bench.folder / f"found-{turn}-{count}.csv"
            words = ["predict", model, bench.folder / str(count), "--out", out]
            costs[count].append(cost_of([*words, "--device", bench.accelerator.device.type]))
    quarter, whole = counts
    return [
        Measurement.of(
            Ratio.of([many.peak / few.peak for many, few in zip(costs[whole], costs[quarter], strict=True)]),
            f"peak memory of prediction, {whole:,} images",
            f"{quarter:,} images",
            at_most=1.05,
            absolute={
                **{f"MB, {count:,} images": max(cost.peak for cost in costs[count]) for count in counts},
                **{f"s, {count:,} images": max(cost.seconds for cost in costs[count]) for count in counts},
            },
            setting={
                "images": f"{different} JPEG of 64 x 64 under {quarter:,} and {whole:,} names",
                "model": f"the demo's, {side} px",
                "repeats": repeats,
            },
        )
    ]
