import math
from pathlib import Path

import pytest
import torch

from aevlp.core.engine import make_accelerator
from aevlp.core.processes import EngineOptions
from aevlp.data import read
from aevlp.data.images import bad_images
from aevlp.experiments.bench.command_cost import CommandCost, cost_of
from aevlp.experiments.bench.figures import FIGURES, commands, million
from aevlp.experiments.bench.measurement import Bench
from aevlp.experiments.bench.models import save_clip, save_resnet
from tests.experiments.bench.tiny import TINY

GOALS = {
    "scoring": [">= 0.95", ">= 0.95", ">= 0.95"],
    "predict": [">= 0.9", ">= 0.9", ">= 0.9"],
    "views": [">= 2.5", ""],
    "step": [">= 0.95"],
    "labels": [">= 20,000", "", ">= 20,000", "", ">= 20,000", ""],
    "store": ["<= 5", "<= 500"],
    "method": [">= 1.5", "", ">= 5", ""],
    "int8": ["", ""],
}


@pytest.fixture(scope="module")
def accelerator():
    return make_accelerator(EngineOptions(device="cpu"))


@pytest.fixture
def bench(tmp_path, accelerator):
    (tmp_path / "bench").mkdir()
    return Bench(tmp_path / "bench", accelerator)


def test_every_figure_is_tried_here():
    long = {"growth", "million", "predict-memory"}
    assert {*TINY, *long} == set(FIGURES)
    assert {figure.name for figure in FIGURES.values() if figure.takes_long} == long


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.soak) if name == "method" else name for name in TINY])
def test_a_figure_gives_rows_of_finite_positive_values(bench, name):
    threads = torch.get_num_threads()
    rows = FIGURES[name].measure(bench, **TINY[name])
    assert [row.goal for row in rows] == GOALS[name]
    for row in rows:
        assert 0 < row.low <= row.value <= row.high < math.inf
        assert all(0 <= value < math.inf for value in row.absolute.values())
        assert row.setting["repeats"] == 2
    assert torch.get_num_threads() == threads


def test_the_two_ways_to_make_views_make_the_same(bench):
    plain, augmented = FIGURES["views"].measure(bench, repeats=1, images=2, side=96)
    for row in (plain, augmented):
        assert row.absolute["mean difference of the two in 1/255"] <= 1


def test_the_in_loop_way_and_the_product_train_on_the_same_labels(bench, monkeypatch):
    """What the baseline is worth: it computes the pseudo-labels that the product reads from its store."""
    from aevlp.config.config import build_config
    from aevlp.damp.labels import pseudo_labels
    from aevlp.data.load import load
    from aevlp.experiments.bench import baselines
    from aevlp.experiments.bench.images import write_images
    from aevlp.experiments.bench.models import save_resnet
    from aevlp.sources.damp import Damp
    from aevlp.training.inputs import TrainingOrder
    from tests.experiments.bench.tiny import RESNET

    write_images(bench.folder / "set", train=24, val=4, width=60, height=40)
    values = {
        "data.observe": "single",
        "teacher.name": "demo",
        "model.backbone": save_resnet(bench.folder / "resnet", side=32, **RESNET),
        "model.image_size": 32,
        "train.epochs": 2,
        "train.workers": 1,
        "damp.temperature": 0.05,
    }
    config = build_config("default", "aevlp", values)
    data = load(bench.folder / "set", config.data, None)
    made = []

    def kept(*arguments, **options):
        made.append(pseudo_labels(*arguments, **options))
        return made[-1]

    monkeypatch.setattr(baselines, "pseudo_labels", kept)
    baselines.train_in_loop(config, data, bench.accelerator)
    source = Damp(config.source_context(data.train, data.classes, None, bench.accelerator), config.source)
    for epoch in (1, 2):
        order = TrainingOrder(24, config.run.seed)
        order.epoch = epoch
        mine = torch.cat(made[2 * epoch - 2 : 2 * epoch])
        theirs = source.labels(epoch)[[index for index, _ in order]]
        assert (theirs == 1).any()
        assert (mine == theirs).float().mean() > 0.97  # two ways to cut a tile differ in the last bit


def test_the_memory_of_prediction_is_that_of_the_command_on_many_names(bench, monkeypatch):
    seen = []

    def cost(words):
        words = list(map(str, words))
        names = sorted(Path(words[2]).iterdir())
        seen.append((words[0], len(names), len({name.stat().st_ino for name in names})))
        return CommandCost(seconds=len(names), peak=300 + len(names), processor=1)

    monkeypatch.setattr(commands, "cost_of", cost)
    (row,) = FIGURES["predict-memory"].measure(bench, images=40, different=12, repeats=2)
    assert seen == [("predict", 10, 10), ("predict", 40, 12), ("predict", 40, 12), ("predict", 10, 10)]
    assert row.value == pytest.approx(340 / 310)
    assert (row.goal, row.is_met) == ("<= 1.05", False)
    assert row.absolute["MB, 40 images"] == 340


def test_growth_compares_the_cost_of_an_image_beyond_the_start(bench, monkeypatch):
    asked = []

    def cost(words):
        words = list(map(str, words))
        asked.append(words[0])
        size = int(Path(words[1]).name.removeprefix("set-"))
        if words[0] == "score":
            shard = Path(words[words.index("--store") + 1]) / "draw-000"
            shard.mkdir(parents=True)
            (shard / "00000.npy").write_bytes(bytes(100 * size))
        return CommandCost(seconds=10 + size * (0.5 if words[0] == "score" else 0.25), peak=300 + size, processor=1)

    monkeypatch.setattr(commands, "cost_of", cost)
    rows = {row.what: row for row in commands.growth(bench, sizes=(30, 60), tiny=20)}
    assert len(rows) == 5
    assert asked == ["score"] + 3 * ["score", "train"]
    scoring, disk, memory = (
        rows[f"{what}, 60 images"]
        for what in (
            "seconds per image of scoring",
            "bytes per image of the store",
            "peak memory of training",
        )
    )
    assert scoring.value == pytest.approx(1.0)
    assert (scoring.goal, scoring.is_met) == ("<= 1.1", True)
    assert scoring.absolute["ms, 30 images"] == pytest.approx(500)
    assert disk.absolute["bytes, 60 images"] == 100
    assert memory.value == pytest.approx(360 / 330)
    assert (memory.goal, memory.is_met) == ("<= 1.1", True)


def test_growth_knows_what_a_command_takes(tmp_path):
    bytearray(300_000_000)  # what this process once needed is not the command's
    cost = cost_of(["--version"])
    assert cost.seconds > 0
    assert 5 < cost.peak < 100  # MB: a Python and little else
    with pytest.raises(RuntimeError, match="nowhere"):
        cost_of(["check", tmp_path / "nowhere"])


def test_a_million_compares_the_cost_of_an_image_in_two_sets(bench, monkeypatch):
    asked = []

    def cost(words):
        name, size = words[0], next(int(word.name[4:]) for word in seen if word.name.startswith("set-"))
        asked.append((name, size))
        more = 2 if (name, size) == ("label", 60) else 1
        (bench.folder / "work").mkdir(exist_ok=True)
        return CommandCost(seconds=size, peak=300 + size * more / 1000, processor=10 + size * 0.5 * more)

    seen: list[Path] = []

    def write(folder, images):
        folder.mkdir()
        seen[:] = [folder]

    monkeypatch.setattr(million, "cost_of", cost)
    monkeypatch.setattr(million, "cost_to_first_page", cost)
    monkeypatch.setattr(million, "write_many", write)
    rows = {row.what: row for row in million.million(bench, sizes=(40, 60), tiny=20)}
    steps = ["check", "score", "train", "predict", "label", "review"]
    assert asked == [("check", 20)] + [(step, size) for size in (20, 40, 60) for step in steps]
    assert len(rows) == 2 * len(steps)
    time, memory = rows["processor time per image of train, 60 images"], rows["peak memory of train for each image beyond 40"]
    assert time.value == pytest.approx(1.0)
    assert (time.goal, time.is_met) == ("<= 1.2", True)
    assert time.absolute["ms, 60 images"] == pytest.approx(500)
    assert memory.value == pytest.approx(1000)
    assert (memory.unit, memory.goal) == ("bytes", "<= 1,000")
    assert rows["processor time per image of label, 60 images"].value == pytest.approx(2.5)
    assert [path.name for path in bench.folder.iterdir() if path.name.startswith(("set-", "work"))] == []


def test_the_set_of_a_million_has_different_files_and_some_copies(tmp_path):
    million.write_many(tmp_path / "set", 60)
    table = read(tmp_path / "set", None)
    assert len(table.names) == 60
    assert len(set(table.digests.tolist())) == 57
    assert not bad_images(table.paths)
    assert ((table.labels == 1).sum(1) == 1).all()


@pytest.mark.soak
def test_the_commands_of_a_million_run(bench):
    save_clip(bench.folder / "clip", **million.TEACHER)
    save_resnet(bench.folder / "resnet", side=million.SIDE, **million.BACKBONE)
    million.write_many(bench.folder / "set", 60)
    costs = million.costs_of_commands(bench.folder, bench.folder / "set", "cpu")
    assert list(costs) == ["check", "score", "train", "predict", "label", "review"]
    assert all(cost.seconds > 0 and cost.peak > 20 and cost.processor > 0 for cost in costs.values())
    assert sorted(path.name for path in bench.folder.iterdir()) == ["clip", "resnet", "set"]
