"""The teacher in 8 bits on a CPU: how much faster it is, and how many labels change."""

import logging

import numpy as np

from aevlp.config.config import build_config
from aevlp.config.recipe import read_recipe, recipe_file
from aevlp.data.load import load
from aevlp.experiments.bench.baselines import bare_teacher
from aevlp.experiments.bench.models import save_clip
from aevlp.experiments.bench.registry import Bench, Measurement, register_figure
from aevlp.experiments.bench.timing import side_by_side
from aevlp.experiments.demo.scenes import write_world
from aevlp.models.teacher import load_teacher
from aevlp.sources.damp import Damp

PRECISIONS = ("int8", "fp32")
log = logging.getLogger("aevlp.experiments.bench")


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
        store = source.views.store
        assert store is not None
        labels.append(source.labels(1).numpy())
        shards = [store.read(0, shard) for shard in range(len(source.views.shards))]
        embeddings.append(np.concatenate(shards).astype(np.float32))
    differ = labels[0] != labels[1]
    positive = (labels[0] == 1) | (labels[1] == 1)
    share = float(differ.mean())
    return Measurement(
        "pseudo-labels in int8",
        "in fp32",
        share,
        share,
        share,
        unit="of all cells differ",
        absolute={
            "of the positive ones differ": float(differ[positive].mean()) if positive.any() else 0.0,
            "mean cosine of the embeddings": float((embeddings[0] * embeddings[1]).sum(-1).mean()),
        },
        setting={"images": f"{len(labels[0])} of the demo's world", "teacher": "the demo's", "repeats": repeats},
    )
