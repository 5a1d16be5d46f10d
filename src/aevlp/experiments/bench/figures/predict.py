"""Prediction from image files to a table, against the bare model on batches in memory; and whether its memory stays flat."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aevlp.experiments.bench.figures.growth import cost_of
from aevlp.experiments.bench.registry import Bench, Row, register_figure
from aevlp.experiments.bench.timing import Ratio, side_by_side

if TYPE_CHECKING:
    import torch

RESNET_50: Mapping[str, Any] = {}  # what the configuration of transformers is by default
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
) -> list[Row]:
    """A row per way to run the bare model: as it comes, with weights laid out for convolutions, the same with a batch per core.

    Prediction is all that `aevlp predict --out FILE.csv` does once it has started. The model is a ResNet-50.
    """
    import torch

    from aevlp.experiments.bench.images import write_images
    from aevlp.inference.model_location import locate_model
    from aevlp.inference.predict import answers, write_predictions
    from aevlp.inference.prediction_formats import FORMATS
    from aevlp.inference.predictor import TrainedModel

    names = list(map(str, write_images(bench.folder / "set", train=images, width=width, height=height)))
    folder = _save_model(bench.folder, side, backbone)
    model = TrainedModel(locate_model(folder), device=bench.accelerator.device, precision="fp32")
    layout = FORMATS["csv"](model.classes, has_labels=False)

    def from_files() -> None:
        with (bench.folder / "found.csv").open("w", encoding="utf-8") as file:
            write_predictions(answers(model, names, bench.accelerator, workers=workers), layout, file.write, lambda _: None)

    device = bench.accelerator.device
    against = {
        f"bare model, {LARGE} images at once": _bare(folder, images, LARGE, side, device),
        f"bare model, channels last, {LARGE} images at once": _bare(folder, images, LARGE, side, device, is_laid_out=True),
    }
    if device.type == "cpu":
        cores, batch = torch.get_num_threads(), model.usual_batch
        by_core = f"bare model, channels last, {batch} images on each of {cores} cores"
        against[by_core] = _bare(folder, images, batch, side, device, is_laid_out=True, at_once=cores)
    times = side_by_side("predict", {"predict": from_files, **against}, repeats)
    setting = {
        "images": f"{images} JPEG of {width} x {height}",
        "model": f"{f'ResNet {dict(backbone)}' if backbone else 'ResNet-50'}, {side} px",
        "workers": workers,
        "repeats": repeats,
    }
    return [
        Row.of(
            times.ratio(name, "predict"),
            "rate of prediction",
            name,
            at_least=0.9,
            absolute={
                "images/s predicted": times.part(images, "predict").value,
                "images/s of the bare model": times.part(images, name).value,
            },
            setting=setting,
        )
        for name in against
    ]


def _save_model(folder: Path, side: int, backbone: Mapping[str, Any]) -> Path:
    """The folder of a classifier with random weights."""
    from aevlp.experiments.bench.models import save_resnet
    from aevlp.experiments.demo.scenes import CLASSES
    from aevlp.models.classifier import build_classifier
    from aevlp.models.model_folder import save_classifier
    from aevlp.models.options import ModelOptions

    options = ModelOptions(save_resnet(folder / "resnet", side=side, **backbone), side)
    save_classifier(build_classifier(options, list(CLASSES), seed=0), folder / "model")
    return folder / "model"


def _bare(
    folder: Path, images: int, batch: int, side: int, device: torch.device, *, is_laid_out: bool = False, at_once: int = 1
) -> Callable[[], None]:
    """A pass of the plain model of transformers over `images` normalised ones that lie ready, `at_once` batches side by side."""
    import torch
    from transformers import AutoModelForImageClassification

    from aevlp.core.torch_threads import one_thread_per_core
    from aevlp.models.checkpoint import quiet_loading

    layout = torch.channels_last if is_laid_out else torch.contiguous_format
    with quiet_loading():
        model = AutoModelForImageClassification.from_pretrained(folder, use_safetensors=True).eval()
    model.to(device, memory_format=layout)
    ready = torch.randn(min(images, batch), 3, side, side).to(device, memory_format=layout)
    counts = [min(batch, images - first) for first in range(0, images, batch)]

    @torch.inference_mode()
    def look(count: int) -> torch.Tensor:
        logits: torch.Tensor = model(pixel_values=ready[:count]).logits
        return logits

    def over_all() -> None:
        if at_once == 1:
            found = [look(count) for count in counts]
        else:
            with one_thread_per_core(at_once) as pool:
                found = list(pool.map(look, counts))
        found[-1].cpu()  # waits for a device that computes on its own

    return over_all


@register_figure(
    "predict-memory", "peak resident memory of predicting many images / of predicting a quarter of them", takes_long=True
)
def predict_memory(
    bench: Bench, *, repeats: int = 1, images: int = 20_000, different: int = 200, side: int = 64, backbone: str = "demo"
) -> list[Row]:
    """One row: `aevlp predict` in processes of their own on a folder of names, `different` files of 64 x 64 under many names."""
    from aevlp.experiments.bench.images import patchwork, write_images
    from aevlp.experiments.demo.scenes import CLASSES
    from aevlp.models.classifier import build_classifier
    from aevlp.models.model_folder import save_classifier
    from aevlp.models.options import ModelOptions

    files = write_images(bench.folder / "set", train=different, width=64, height=64, picture=patchwork)
    save_classifier(build_classifier(ModelOptions(backbone, side), list(CLASSES), seed=0), bench.folder / "model")
    counts = (images // 4, images)
    for count in counts:
        _link(files, bench.folder / str(count), count)
    peaks: dict[int, list[float]] = {count: [] for count in counts}
    seconds: dict[int, list[float]] = {count: [] for count in counts}
    for turn in range(repeats):
        for count in counts if turn % 2 == 0 else reversed(counts):
            out = bench.folder / f"found-{turn}-{count}.csv"
            words = ["predict", bench.folder / "model", bench.folder / str(count), "--out", out]
            cost = cost_of([*words, "--device", bench.accelerator.device.type])
            peaks[count].append(cost.peak)
            seconds[count].append(cost.seconds)
    quarter, whole = counts
    return [
        Row.of(
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
    """A folder in which `count` names stand for these files, each many times."""
    folder.mkdir()
    for number in range(count):
        os.link(files[number % len(files)], folder / f"{number:07d}.jpg")
