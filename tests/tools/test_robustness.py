"""Sets with fewer, more and wrong tags."""

import csv

from PIL import Image
from tools.robustness import KINDS, main

from aevlp.data.readers import read
from tests.colours import write_world


def test_sets_differ_in_their_tags_alone(tmp_path):
    world = write_world(tmp_path / "world", train=60)
    main(["draw", str(world), "--out", str(tmp_path / "sets")])
    whole, tables = read(world, None), {kind: read(tmp_path / "sets" / kind, None) for kind in KINDS}
    truth = {(whole.root / name).resolve(): labels for name, labels in zip(whole.names, whole.labels, strict=True)}
    counts, wrong = {}, 0
    for kind, table in tables.items():
        assert (table.splits, [path.resolve() for path in table.paths]) == (
            tables["1"].splits,
            [path.resolve() for path in tables["1"].paths],
        )
        rows = [row for row, split in enumerate(table.splits) if split == "train"]
        counts[kind] = [(table.labels[row] == 1).sum() for row in rows]
        for row in range(len(table.names)):
            extra = (table.labels[row] == 1) & (truth[table.paths[row].resolve()] != 1)
            assert not extra.any() or (kind == "wrong" and row in rows)
            wrong += extra.any()
    own = counts["all"]
    assert counts["0"] == [0] * len(own)
    assert counts["1"] == counts["wrong"] == [1] * len(own)
    assert counts["2"] == [min(2, number) for number in own]
    assert 0.15 < wrong / len(own) < 0.45


def test_the_picture_has_a_point_for_each_set(tmp_path):
    for kind in KINDS:
        (tmp_path / f"{kind}-lit").mkdir()
        with (tmp_path / f"{kind}-lit" / "results.csv").open("w", newline="") as file:
            csv.writer(file).writerows([["method", "seed", "mAP"], ["consensus", 0, 70], ["consensus", 1, 72], ["gr", 0, 60]])
    main(["plot", *(str(tmp_path / f"{kind}-lit") for kind in KINDS), "--out", str(tmp_path / "curves.png")])
    assert Image.open(tmp_path / "curves.png").size == (880, 462)
