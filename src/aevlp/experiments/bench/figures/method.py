"""The whole method, scoring included, against the loop that runs the teacher on every batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aevlp.experiments.bench.registry import Bench, Row, register_figure
from aevlp.experiments.bench.timing import side_by_side

if TYPE_CHECKING:
    from aevlp.config.config import Config

RESNET_18: dict[str, Any] = {
    "embedding_size": 64,
    "hidden_sizes": [64, 128, 256, 512],
    "depths": [2, 2, 2, 2],
    "layer_type": "basic",
}


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
) -> list[Row]:
    """Four rows: first and later run, each against the in-loop way and against the least they must compute.

    `draws`: of a first run; None: as the recipe `default` says. The models are small, in the proportion of the paper's: the
    teacher's views of an image cost about six times a training step on it.
    """
    from aevlp.config.config import build_config
    from aevlp.config.recipe import read_recipe, recipe_file
    from aevlp.damp.options import DampOptions
    from aevlp.data.load import load
    from aevlp.experiments.bench.bare import BareStep, BareTeacher
    from aevlp.experiments.bench.images import write_images
    from aevlp.experiments.bench.in_loop import train_in_loop
    from aevlp.experiments.bench.models import save_clip, save_resnet
    from aevlp.experiments.train import train_run
    from aevlp.models.classifier import build_classifier
    from aevlp.models.teacher import load_teacher
    from aevlp.training.run_folder import RunFolder

    write_images(bench.folder / "set", train=train, val=val, width=width, height=height)
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
    stores: list[Path] = []

    def run(config: Config, images: Path, store: Path) -> None:
        out = bench.folder / f"run-{len(list(bench.folder.glob('run-*')))}"
        own = replace(config, run=replace(config.run, store=str(store)))
        train_run(own, images, RunFolder(out), accelerator=bench.accelerator)

    def first() -> None:
        stores.append(bench.folder / f"views-{len(stores)}")
        run(config, bench.folder / "set", stores[-1])

    def later() -> None:
        run(replace(config, run=replace(config.run, seed=1)), bench.folder / "set", stores[-1])

    def in_loop() -> None:
        train_in_loop(config, load(bench.folder / "set", config.data, None), bench.accelerator)

    # What is loaded on first use is loaded by a little training of each kind: the whole ones are minutes long.
    write_images(bench.folder / "few", train=20, val=4, width=width, height=height)
    brief = replace(config, train=replace(config.train, epochs=1))
    run(brief, bench.folder / "few", bench.folder / "views-few")
    train_in_loop(brief, load(bench.folder / "few", brief.data, None), bench.accelerator)
    times = side_by_side("method", {"in-loop": in_loop, "first": first, "later": later}, repeats, warm_up=False)

    data = load(bench.folder / "set", config.data, None)
    views = 1 + grid**2
    teacher = load_teacher(config.teacher.name, bench.accelerator.device)
    look = BareTeacher(teacher, batch_size * views, batch_size * views, bench.accelerator.device)
    step = BareStep(build_classifier(config.model, data.classes, 0), config, bench.accelerator)
    bare = side_by_side("method, its parts", {"teacher": look, "step": lambda: step([batch_size])}, max(5, repeats))
    assert isinstance(config.source, DampOptions)
    looks = config.source.draws_in(epochs)
    scored = looks * bare.median("teacher") * train / batch_size
    trained = epochs * bare.median("step") * train / batch_size

    setting = {
        "images": f"{train} + {val} JPEG of {width} x {height}",
        "epochs": epochs,
        "draws": looks,
        "teacher": f"ViT, width 192, {layers} layers, patch 16, {side} px, {views} views",
        "backbone": f"ResNet {dict(backbone)}, {classifier_side} px",
        "batch": batch_size,
        "workers": workers,
        "repeats": repeats,
    }
    least = {"first": scored + trained, "later": trained}
    cost = {"training steps on an image that its views cost": bare.ratio("teacher", "step").value}
    rows = []
    for name, goal in (("first", 1.5), ("later", 5.0)):
        seconds = {f"s, {name} run": times.median(name)}
        rows += [
            Row.of(
                times.ratio("in-loop", name),
                f"whole method, {name} run",
                "in-loop way",
                at_least=goal,
                absolute={**seconds, "s, in-loop way": times.median("in-loop"), **cost},
                setting=setting,
            ),
            Row.of(
                times.part(least[name], name),
                f"share of the limit, {name} run",
                "bare teacher and steps" if name == "first" else "bare steps",
                absolute={**seconds, "s at least": least[name]},
                setting=setting,
            ),
        ]
    return rows
