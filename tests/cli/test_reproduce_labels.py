"""Table 3: the labels of DAMP, evaluated without a training."""

import statistics
from pathlib import Path

import pytest

from aevlp.core.engine import make_accelerator
from aevlp.store.location import store_root
from tests.cli.reproduced import check_picture, rows_of, table_of, write_benchmark
from tests.cli.run import aevlp, refused


@pytest.fixture(scope="module")
def benchmark(tmp_path_factory) -> Path:
    return write_benchmark(tmp_path_factory.mktemp("voc") / "set")


def test_the_labels_are_evaluated_without_a_training(capsys, benchmark, tmp_path):
    """Table 3 against loops over every cell; on a set with the classes of a benchmark, beside the paper's figures."""
    out = tmp_path / "tables"
    words = ["reproduce", "table3", "--data", benchmark, "--recipe", "voc", "--out", out, "--seeds", "2", "--epochs", "3"]
    words += ["--teacher", "tests.colours:teacher", "--damp.global_threshold", "0.05", "--device", "cpu"]
    answer = aevlp(capsys, *words)
    assert answer.code == 0, answer.err
    assert not (out / "runs").exists()

    expected = {seed: naive_quality(benchmark, words, seed) for seed in (0, 1)}
    rows = rows_of(out / "table3.csv")
    assert [(row["seed"], row["epoch"]) for row in rows] == [(str(seed), str(epoch)) for seed in (0, 1) for epoch in (1, 2, 3)]
    for row in rows:
        for name, value in expected[int(row["seed"])][int(row["epoch"]) - 1].items():
            assert float(row[name]) == pytest.approx(value), (row, name)
    shown = table_of(out / "table3.md")
    last = {seed: lines[-1] for seed, lines in expected.items()}
    for row, name in zip(shown, ("precision", "accumulated_precision", "recall", "accumulated_recall"), strict=True):
        values = [100 * last[seed][name] for seed in (0, 1)]
        assert row["here"] == f"{statistics.mean(values):.2f} ± {statistics.stdev(values):.2f}"
    assert [row["paper, VOC"] for row in shown] == ["65.13", "60.33", "48.29", "51.10"]
    text = (out / "table3.md").read_text()
    assert "VOC has 5,717 images for training and validation and 5,823 for test; here there are 70 and 10." in text
    assert "`teacher.name` is tests.colours:teacher; in the recipe openai/clip-vit-base-patch16" in text
    check_picture(out / "table3.png")

    again = aevlp(capsys, *words)
    assert again.err.count("these labels are evaluated") == 2
    assert rows_of(out / "table3.csv") == rows
    assert "damp.global_threshold was 0.05 and is now 0.2" in refused(capsys, *words[:-3], "0.2", "--device", "cpu")


def naive_quality(path, words, seed) -> list[dict[str, float]]:
    """The figures of each epoch, cell by cell."""
    from aevlp.config.config import build_config
    from aevlp.config.recipe import read_recipe, recipe_file
    from aevlp.data.load import load
    from aevlp.sources.damp import Damp

    said = {"data.observe": "single", "train.epochs": 3, "teacher.name": "tests.colours:teacher", "damp.global_threshold": 0.05}
    config = build_config("voc", "aevlp", {**read_recipe(recipe_file("voc")), **said, "seed": seed, "device": "cpu"})
    data = load(path, config.data, None)
    source = Damp(
        config.source_context(data.train, data.classes, store_root(None), make_accelerator(config.engine)), config.source
    )
    lines, precisions, recalls = [], [], []
    union: set[tuple[int, int]] = set()
    assert data.train.truth is not None
    cells = [(n, c) for n in range(len(data.train.names)) for c in range(20) if data.train.observed[n, c] == 0]
    true = {cell for cell in cells if data.train.truth[cell] == 1}
    for epoch in (1, 2, 3):
        labels = source.labels(epoch).numpy()
        found = {cell for cell in cells if labels[cell] == 1}
        union |= found
        precisions.append(len(found & true) / len(found))
        recalls.append(len(found & true) / len(true))
        lines.append(
            {
                "epoch_precision": precisions[-1],
                "epoch_recall": recalls[-1],
                "precision": sum(precisions) / epoch,
                "recall": sum(recalls) / epoch,
                "accumulated_precision": len(union & true) / len(union),
                "accumulated_recall": len(union & true) / len(true),
            }
        )
    return lines
