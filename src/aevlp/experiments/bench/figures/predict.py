"""Prediction from image files to a table, against the bare model on batches in memory; and the growth of its memory."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from aevlp.experiments.bench.baselines import bare_model
from aevlp.experiments.bench.figures.growth import cost_of
from aevlp.experiments.bench.images import patchwork, write_images
from aevlp.experiments.bench.models import RESNET_50, save_resnet
from aevlp.experiments.bench.registry import Bench, Measurement, rates, register_figure
from aevlp.experiments.bench.timing import Ratio, side_by_side
from aevlp.experiments.demo.scenes import CLASSES
from aevlp.inference.model_location import locate_model
from aevlp.inference.predict import predict_batches, write_predictions
from aevlp.inference.prediction_formats import PREDICTION_FORMATS
from aevlp.inference.predictor import TrainedModel
from aevlp.models.classifier import build_classifier
from aevlp.models.model_folder import save_classifier
from aevlp.models.options import ModelOptions

LARGE = 64  # images of a batch


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
        _link(files, bench.folder / str(count), count)
    peaks: dict[int, list[float]] = {count: [] for count in counts}
    seconds: dict[int, list[float]] = {count: [] for count in counts}
    for turn in range(repeats):
        for count in counts if turn % 2 == 0 else reversed(counts):
            out = bench.folder / f"found-{turn}-{count}.csv"
            words = ["predict", model, bench.folder / str(count), "--out", out]
            cost = cost_of([*words, "--device", bench.accelerator.device.type])
            peaks[count].append(cost.peak)
            seconds[count].append(cost.seconds)
    quarter, whole = counts
    return [
        Measurement.of(
            Ratio.of([many / few for many, few in zip(peaks[whole], peaks[quarter], strict=True)]),
            f"peak memory of prediction, {whole:,} images",
            f"{quarter:,} images",
            at_most=1.05,
            absolute={
                **{f"MB, {count:,} images": max(peaks[count]) for count in counts},
                **{f"s, {count:,} images": max(seconds[count]) for count in counts},
            },
            setting={
                "images": f"{different} JPEG of 64 x 64 under {quarter:,} and {whole:,} names",
                "model": f"the demo's, {side} px",
                "repeats": repeats,
            },
        )
    ]


def _link(files: Sequence[Path], folder: Path, count: int) -> None:
    """Make a folder with `count` names for these files, each under many names."""
    folder.mkdir()
    for number in range(count):
        os.link(files[number % len(files)], folder / f"{number:07d}.jpg")
