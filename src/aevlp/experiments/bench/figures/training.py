"""A training step against the bare one, and the whole method against the loop that runs the teacher on every batch."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

from aevlp.config.config import Config, build_config
from aevlp.config.recipe import read_recipe, recipe_file
from aevlp.damp.options import DampOptions
from aevlp.data.load import load
from aevlp.experiments.bench.baselines import BareStep, bare_teacher, train_in_loop
from aevlp.experiments.bench.images import write_images
from aevlp.experiments.bench.measurement import Bench, Measurement, Times, rates, register_figure, side_by_side
from aevlp.experiments.bench.models import RESNET_18, RESNET_50, save_clip, save_resnet
from aevlp.models.classifier import build_classifier
from aevlp.models.teacher import load_teacher
from aevlp.training.loop import Learning, phases, train_epoch
from aevlp.training.run_folder import RunFolder
from aevlp.training.setup import prepare
from aevlp.training.state import resume_or_start

GOALS = {"first": 1.5, "later": 5.0}


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


@register_figure("method", "time of the in-loop way / time of a first run and of a later run on the same store, whole trainings")
def method(
    bench: Bench,
    *,
    repeats: int = 1,
    train: int = 144,
    val: int = 16,
    width: int = 500,
    height: int = 375,
    epochs: int = 8,
    draws: int | None = None,
    batch_size: int = 16,
    workers: int = 2,
    side: int = 144,
    layers: int = 12,
    grid: int = 4,
    classifier_side: int = 112,
    backbone: Mapping[str, Any] = RESNET_18,
) -> list[Measurement]:
    """Measure a first and a later run, each against the in-loop way and against the least they must compute.

    `draws`: of a first run; None: those of the recipe `default`. The models are small, in the proportion of the paper's: the
    teacher's views of an image cost about six times a training step on it.
    """
    write_images(bench.folder / "set", train=train, val=val, width=width, height=height)
    write_images(bench.folder / "few", train=20, val=4, width=width, height=height)
    recipe = read_recipe(recipe_file("default"))
    values = recipe | {
        "data.observe": "single",
        "teacher.name": save_clip(bench.folder / "clip", side=side, layers=layers),
        "model.backbone": save_resnet(bench.folder / "resnet", side=classifier_side, **backbone),
        "model.image_size": classifier_side,
        "train.epochs": epochs,
        "train.batch_size": batch_size,
        "train.workers": workers,
        "train.patience": epochs,  # never stops early
        "train.max_drop": 100.0,
        "damp.grid": grid,
        "damp.draws": recipe.get("damp.draws") if draws is None else draws,
    }
    config = build_config("default", "aevlp", values)
    assert isinstance(config.source, DampOptions)
    times, bare = _time_trainings(bench, config, repeats), _time_parts(bench, config, repeats)
    setting = {
        "images": f"{train} + {val} JPEG of {width} x {height}",
        "epochs": epochs,
        "draws": config.source.draws_in(epochs),
        "teacher": f"ViT, width 192, {layers} layers, patch 16, {side} px, {1 + grid**2} views",
        "backbone": f"ResNet {dict(backbone)}, {classifier_side} px",
        "batch": batch_size,
        "workers": workers,
        "repeats": repeats,
    }
    scored = config.source.draws_in(epochs) * bare.median("teacher") * train / batch_size
    trained = epochs * bare.median("step") * train / batch_size
    return _rows(times, bare, {"first": scored + trained, "later": trained}, setting)


def _time_trainings(bench: Bench, config: Config, repeats: int) -> Times:
    """Time whole trainings: in the loop, as a first run, and as a later run on the store of the first."""
    from aevlp.experiments.train import train_run  # at the top, the chain of imports would be too long

    images, few, number = bench.folder / "set", bench.folder / "few", count()
    stores: list[Path] = []

    def run(config: Config, images: Path, store: Path) -> None:
        own = replace(config, run=replace(config.run, store=str(store)))
        train_run(own, images, RunFolder(bench.folder / f"run-{next(number)}"), accelerator=bench.accelerator)

    def first() -> None:
        stores.append(bench.folder / f"views-{len(stores)}")
        run(config, images, stores[-1])

    def later() -> None:
        run(replace(config, run=replace(config.run, seed=1)), images, stores[-1])

    def in_loop() -> None:
        train_in_loop(config, load(images, config.data, None), bench.accelerator)

    # Whole trainings take minutes: a brief one of each kind loads what is loaded on first use.
    brief = replace(config, train=replace(config.train, epochs=1))
    run(brief, few, bench.folder / "views-few")
    train_in_loop(brief, load(few, brief.data, None), bench.accelerator)
    return side_by_side("method", {"in-loop": in_loop, "first": first, "later": later}, repeats, warm_up=False)


def _time_parts(bench: Bench, config: Config, repeats: int) -> Times:
    """Time the teacher and the training step alone, on one batch each."""
    assert isinstance(config.source, DampOptions)
    classes, batch_size = load(bench.folder / "set", config.data, None).classes, config.train.batch_size
    views = batch_size * (1 + config.source.grid**2)
    device = bench.accelerator.device
    teacher = bare_teacher(load_teacher(config.teacher.name, device), views, views, device)
    step = BareStep(build_classifier(config.model, classes, 0), config, bench.accelerator)
    return side_by_side("method, its parts", {"teacher": teacher, "step": lambda: step([batch_size])}, max(5, repeats))


def _rows(times: Times, bare: Times, least: Mapping[str, float], setting: Mapping[str, Any]) -> list[Measurement]:
    """Return two rows per run: against the in-loop way, and the share of the `least` seconds that it must take."""
    cost = {"training steps on an image that its views cost": bare.ratio("teacher", "step").value}
    rows = []
    for name, goal in GOALS.items():
        seconds = {f"s, {name} run": times.median(name)}
        rows += [
            Measurement.of(
                times.ratio("in-loop", name),
                f"whole method, {name} run",
                "in-loop way",
                at_least=goal,
                absolute={**seconds, "s, in-loop way": times.median("in-loop"), **cost},
                setting=setting,
            ),
            Measurement.of(
                times.part(least[name], name),
                f"share of the limit, {name} run",
                "bare teacher and steps" if name == "first" else "bare steps",
                absolute={**seconds, "s at least": least[name]},
                setting=setting,
            ),
        ]
    return rows
