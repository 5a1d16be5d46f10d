"""Labelling an epoch from the store, for a draw as it is and for draws that are recombined."""

import numpy as np
import torch

from aevlp.config.config import build_config
from aevlp.data.dataset import Split
from aevlp.experiments.bench.registry import Bench, Measurement, register_figure
from aevlp.experiments.bench.timing import side_by_side
from aevlp.sources.damp import Damp

VOC = 5717  # training images
DRAWS = 2


@register_figure("labels", "images labelled from the store per second, and the same / reading and multiplying alone")
def labels(bench: Bench, *, repeats: int = 5, images: int = 6000, classes: int = 80) -> list[Measurement]:
    """Measure the rate, and its ratio to that of the bare read and product, for a draw and for recombined draws."""
    source = _filled_source(bench, images, classes)
    store = source.views.store
    assert store is not None

    def read_and_multiply() -> None:
        for shard in range(len(source.views.shards)):
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
        rate, what = times.part(images, way), f"labels of {way}"
        seconds = {f"s for {VOC:,} images": VOC / rate.value}
        rows.append(Measurement.of(rate, what, "", unit="images/s", at_least=20_000, absolute=seconds, setting=setting))
        both = {"images/s": rate.value, "images/s of the bare read and product": times.part(images, "bare").value}
        against = "bare read and product of one draw"
        rows.append(Measurement.of(times.ratio("bare", way), what, against, absolute=both, setting=setting))
    return rows


def _filled_source(bench: Bench, images: int, classes: int) -> Damp:
    """Return a source of labels whose store is filled with random embeddings; no image files are needed."""
    rng = np.random.default_rng(0)
    observed = np.zeros((images, classes), np.int8)
    observed[np.arange(images), rng.integers(classes, size=images)] = 1
    files = tuple(f"{number}.jpg" for number in range(images))
    split = Split("train", bench.folder, files, digests=files, observed=observed, truth=None)
    teacher = "aevlp.experiments.bench.models:DummyTeacher"
    config = build_config("default", "aevlp", {"teacher.name": teacher, "damp.draws": DRAWS})
    names = [f"class {number}" for number in range(classes)]
    source = Damp(config.source_context(split, names, bench.folder / "views", bench.accelerator), config.source)
    store = source.views.store
    assert store is not None
    for draw, shard in store.missing(DRAWS):
        views = rng.standard_normal((len(store.rows(shard)), *store.shape), dtype=np.float32)
        store.write(draw, shard, (views / np.linalg.norm(views, axis=-1, keepdims=True)).astype(np.float16))
    return source
