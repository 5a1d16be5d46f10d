"""Labelling an epoch from the store, for a draw as it is and for draws that are recombined."""

from __future__ import annotations

from aevlp.experiments.bench.registry import Bench, Row, register_figure
from aevlp.experiments.bench.timing import side_by_side

VOC = 5717  # training images
DRAWS = 2


@register_figure("labels", "images labelled from the store per second, and the same / reading and multiplying alone")
def labels(bench: Bench, *, repeats: int = 5, images: int = 6000, classes: int = 80) -> list[Row]:
    """Four rows: the rate, and its ratio to that of the bare read and product, for a draw and for recombined draws."""
    import numpy as np
    import torch

    from aevlp.config.config import build_config
    from aevlp.data.dataset import Split
    from aevlp.sources.damp import Damp

    rng = np.random.default_rng(0)
    observed = np.zeros((images, classes), np.int8)
    observed[np.arange(images), rng.integers(classes, size=images)] = 1
    # The store is filled here and the images are never looked at: there need not be any.
    files = tuple(f"{number}.jpg" for number in range(images))
    split = Split("train", bench.folder, files, digests=files, observed=observed, truth=None)
    config = build_config("default", "aevlp", {"teacher.name": "aevlp.experiments.bench.models:Onlooker", "damp.draws": DRAWS})
    names = [f"class {number}" for number in range(classes)]
    source = Damp(config.source_context(split, names, bench.folder / "views", bench.accelerator), config.source)
    store = source.views.store
    assert store is not None
    shards = [shard for draw, shard in store.missing(DRAWS) if draw == 0]
    for draw, shard in store.missing(DRAWS):
        views = rng.standard_normal((len(store.rows(shard)), *store.shape), dtype=np.float32)
        store.write(draw, shard, (views / np.linalg.norm(views, axis=-1, keepdims=True)).astype(np.float16))

    def read_and_multiply() -> None:
        for shard in shards:
            read = torch.from_numpy(np.load(store.path(0, shard))).to(bench.accelerator.device)
            (read.float() @ source.classes.to(read.device).T).cpu()

    ways = {
        "a draw": lambda: source.labels(1),
        "recombined draws": lambda: source.labels(DRAWS + 1),
        "bare": read_and_multiply,
    }
    times = side_by_side("labels", ways, repeats)
    setting = {"images": images, "classes": classes, "views": store.shape[0], "dimension": store.shape[1], "repeats": repeats}
    rows = []
    for way in ("a draw", "recombined draws"):
        rate = times.part(images, way)
        seconds = {f"s for {VOC:,} images": VOC / rate.value}
        rows.append(Row.of(rate, f"labels of {way}", "", unit="images/s", at_least=20_000, absolute=seconds, setting=setting))
        rates = {"images/s": rate.value, "images/s of the bare read and product": times.part(images, "bare").value}
        rows.append(
            Row.of(
                times.ratio("bare", way), f"labels of {way}", "bare read and product of one draw", absolute=rates, setting=setting
            )
        )
    return rows
