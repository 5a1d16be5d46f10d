"""The teacher in 8 bits on a CPU: how much faster, and what it does to the labels."""

from __future__ import annotations

import logging

from aevlp.experiments.bench.registry import Bench, Row, register_figure
from aevlp.experiments.bench.timing import side_by_side

log = logging.getLogger("aevlp.experiments.bench")


@register_figure("int8", "rate of the teacher in 8 bits / in full precision, and the share of pseudo-labels that this changes")
def int8(bench: Bench, *, repeats: int = 3, images: int = 16, side: int = 224, layers: int = 12, scenes: int = 300) -> list[Row]:
    """Two rows: the rate of a bare ViT-Ti/16, and the labels that the demo's teacher gives to scenes of the demo's world."""
    if bench.accelerator.device.type != "cpu":
        log.info("int8: left out, only a CPU computes in it")
        return []

    from aevlp.experiments.bench.bare import BareTeacher
    from aevlp.experiments.bench.models import save_clip
    from aevlp.models.teacher import load_teacher

    device, views = bench.accelerator.device, 17 * images
    folder = save_clip(bench.folder / "clip", side=side, layers=layers)
    ways = {precision: BareTeacher(load_teacher(folder, device, precision), views, 34, device) for precision in ("int8", "fp32")}
    times = side_by_side("int8", ways, repeats)
    faster = Row.of(
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
    return [faster, _labels(bench, scenes, repeats)]


def _labels(bench: Bench, scenes: int, repeats: int) -> Row:
    """The share of (image, class) cells whose pseudo-label is another in 8 bits."""
    import numpy as np

    from aevlp.config.config import build_config
    from aevlp.config.recipe import read_recipe, recipe_file
    from aevlp.data.load import load
    from aevlp.experiments.demo.scenes import write_world
    from aevlp.sources.damp import Damp

    write_world(bench.folder / "world", train=scenes, test=1)
    labels, seen = [], []
    for precision in ("int8", "fp32"):
        values = read_recipe(recipe_file("demo")) | {"teacher.precision": precision, "damp.draws": 1}
        config = build_config("demo", "aevlp", values)
        data = load(bench.folder / "world", config.data, bench.folder / "views")
        source = Damp(config.source_context(data.train, data.classes, bench.folder / "views", bench.accelerator), config.source)
        source.fill()
        store = source.views.store
        assert store is not None
        labels.append(source.labels(1).numpy())
        seen.append(np.concatenate([store.read(0, shard) for shard in range(len(source.views.shards))]).astype(np.float32))
    changed = float((labels[0] != labels[1]).mean())
    either = (labels[0] == 1) | (labels[1] == 1)
    return Row(
        "pseudo-labels in int8",
        "in fp32",
        changed,
        changed,
        changed,
        unit="of all cells differ",
        absolute={
            "of the positive ones differ": float((labels[0] != labels[1])[either].mean()) if either.any() else 0.0,
            "mean cosine of the embeddings": float((seen[0] * seen[1]).sum(-1).mean()),
        },
        setting={"images": f"{len(labels[0])} of the demo's world", "teacher": "the demo's", "repeats": repeats},
    )
