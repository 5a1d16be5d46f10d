"""A miniature of every table and figure: the world of colours, one epoch, few rows."""

import csv
import json
import shutil
import statistics
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from aevlp.core.errors import UserError
from aevlp.experiments.demo import run as demo_run
from aevlp.experiments.reproduce import targets
from aevlp.experiments.reproduce.run import MARK
from aevlp.store.location import store_root
from aevlp.training.run_folder import RunFolder
from tests.cli.reproduced import check_picture, rows_of, started, table_of, write_benchmark
from tests.cli.run import aevlp, refused
from tests.colours import COLOURS, write_world


@pytest.fixture
def quick(small) -> list[str]:
    """Options that make a training take a moment."""
    return [*small, "--epochs", "1"]


@pytest.fixture
def fewer(monkeypatch):
    """A function that leaves some rows of a target."""

    def leave(name, *kept):
        target = targets.TARGETS[name]
        rows = [row for row in target.rows if row.name in kept]
        assert len(rows) == len(kept)
        monkeypatch.setitem(targets.TARGETS, name, replace(target, rows=rows))

    return leave


def check_values(out: Path, name: str) -> list[dict[str, str]]:
    """The CSV has every figure of the runs, to the last digit."""
    found = rows_of(out / f"{name}.csv")
    for row in found:
        result = json.loads((Path(row["run"]) / "result.json").read_text())
        assert (result["method"], str(result["seed"]), row["outcome"]) == (row["method"], row["seed"], "done")
        for key in ("mAP", "mAP_present", "val_mAP", "best_epoch", "epochs", "images_per_second"):
            assert row[key] == ("" if result[key] is None else str(result[key]))
        for key, value in result["pseudo_labels"].items():
            assert row[f"pseudo_{key}"] == ("" if value is None else str(value))
    return found


@pytest.mark.soak
def test_tables_of_methods_with_ranks_and_the_distributions(capsys, world, quick, tmp_path):
    """The main table, the table of losses and labels, and figure 2, which share their trainings."""
    out = tmp_path / "tables"
    words = ["--data", world, "--out", out, "--seeds", "1", *quick]
    answer = aevlp(capsys, "reproduce", "table1", *words)
    assert answer.code == 0, answer.err
    assert len(started(answer.err)) == 13
    rows = check_values(out, "table1")
    maps = {row["row"]: float(row["mAP"]) for row in rows}
    assert "paper" not in rows[0]

    shown = table_of(out / "table1.md")
    paper, others = list(maps)[:11], [f"{name} (not in the paper)" for name in ("zero-shot", "zero-shot-views")]
    assert [row["method"] for row in shown] == [*paper, *others]
    assert [row["test mAP"] for row in shown] == [f"{value:.2f}" for value in maps.values()]
    ranked = sorted((maps[name] for name in paper if name != "full"), reverse=True)
    places = [str(1 + ranked.index(maps[name])) for name in paper[1:]]
    assert [row["rank"] for row in shown] == ["-", *places, "-", "-"]
    assert [row["rank in the paper, VOC"] for row in shown[:11]] == ["-", "10", "8", "7", "5", "3", "9", "4", "2", "6", "1"]
    assert [row["rank in the paper, CUB"] for row in shown][-4:] == ["2", "1", "-", "-"]
    text = (out / "table1.md").read_text()
    assert "paper, VOC |" not in text.replace("rank in the paper, VOC |", "")
    assert "The data set is none of the paper's" in text
    assert "`model.image_size` is 32; in the recipe 448" in text
    assert f"aevlp reproduce table1 --data {world} --out {out} --seeds 1" in text
    assert "The same with every seed: `em` and `em-apl`;" in text  # one epoch is too few for it to label
    assert "torch 2" in text
    assert "Rank correlation (Spearman)" in text
    assert ", over 10 rows" in text
    assert text in answer.out
    check_picture(out / "table1.png")
    assert not list(out.rglob("report.html"))

    answer = aevlp(capsys, "reproduce", "table2", *words)
    assert answer.code == 0, answer.err
    assert set(started(answer.err)) == {"bce+random-0", "gpr+random-0", "gpr+vlpl-0", "ll-ct-0", "gpr+ll-ct-0", "bce+damp-0"}
    both = {row["row"]: float(row["mAP"]) for row in check_values(out, "table2")}
    assert (both["vlpl"], both["gpr+damp"]) == (maps["vlpl"], maps["aevlp"])
    assert f"`gpr+damp` {both['gpr+damp'] - both['bce+damp']:+.2f} against `bce+damp`;" not in answer.out  # the last of them
    assert f"`gpr+damp` {both['gpr+damp'] - both['bce+damp']:+.2f} against `bce+damp`." in answer.out
    check_picture(out / "table2.png")

    answer = aevlp(capsys, "reproduce", "fig2", *words)
    assert answer.code == 0, answer.err
    assert started(answer.err) == []
    bins = rows_of(out / "fig2.csv")
    assert len(bins) == 3 * 2 * 50
    check_probabilities(capsys, [row for row in bins if row["method"] == "gr"], out / "runs" / "gr-0", world, tmp_path)
    assert [row["method"] for row in table_of(out / "fig2.md")] == ["an", "gr", "aevlp"]
    check_picture(out / "fig2.png")

    # Another call takes what is there; a run that is gone is made again, to the same figures.
    before = (out / "table2.csv").read_text().replace(_speed(out / "table2.csv", "ll-ct"), "")
    shutil.rmtree(out / "runs" / "ll-ct-0")
    answer = aevlp(capsys, "reproduce", "table2", *words)
    assert started(answer.err) == ["ll-ct-0"]
    assert (out / "table2.csv").read_text().replace(_speed(out / "table2.csv", "ll-ct"), "") == before
    assert not list(out.rglob("*.part"))

    line = refused(capsys, "reproduce", "table1", *words[:-1], "2")  # other epochs
    assert "was started with another configuration: train.epochs was 1 and is now 2" in line
    other = write_world(tmp_path / "other", seed=5)
    line = refused(capsys, "reproduce", "table1", "--data", other, *words[2:])
    assert f"made of other images, labels or classes ({world}); choose another --out" in line


def _speed(file: Path, row: str) -> str:
    return next(each["images_per_second"] for each in rows_of(file) if each["row"] == row)


def check_probabilities(capsys, bins, run, world, folder) -> None:
    """The bins count the cells of the file that aevlp eval writes."""
    file = folder / "probabilities.csv"
    assert aevlp(capsys, "eval", run, world, "--probabilities", file, "--device", "cpu").code == 0
    with (world / "labels.csv").open(newline="") as stream:
        truth = {row["image"]: row["labels"].split(";") for row in csv.DictReader(stream)}
    counts = {"positive": [0] * 50, "negative": [0] * 50}
    for row in rows_of(file):
        for name in COLOURS:
            kind = "positive" if name in truth[row["image"]] else "negative"
            counts[kind][min(int(float(row[name]) * 50), 49)] += 1
    for kind, expected in counts.items():
        ours = [row for row in bins if row["kind"] == kind]
        assert [int(row["count"]) for row in ours] == expected
        assert sum(float(row["density"]) for row in ours) / 50 == pytest.approx(1)
        assert float(ours[0]["to"]) == float(ours[1]["from"]) == 0.02


@pytest.mark.soak
def test_ablation_grid_backbones_and_share_of_negatives(capsys, world, quick, backbone, fewer, tmp_path):
    """Two rows each, two seeds; the whole method is trained once for all of them."""
    out = tmp_path / "tables"
    words = ["--data", world, "--out", out, "--seeds", "2", *quick]
    fewer("table4", "G T r v4 R", "G T r v4 R L3")
    fewer("table5", "3", "4")
    fewer("fig3", "0", "20")

    answer = aevlp(capsys, "reproduce", "table4", *words)
    assert answer.code == 0, answer.err
    assert started(answer.err) == [f"aevlp{what}-{seed}" for seed in (0, 1) for what in ("-damp.negative_fraction=0", "")]
    rows = check_values(out, "table4")
    assert [(row["options"], row["seed"]) for row in rows[:2]] == [
        ("damp.negative_fraction=0", "0"),
        ("damp.negative_fraction=0", "1"),
    ]
    whole = [float(row["mAP"]) for row in rows if row["row"] == "G T r v4 R L3"]
    mean = f"{statistics.mean(whole):.2f} ± {statistics.stdev(whole):.2f}"
    shown = table_of(out / "table4.md")
    assert shown[1] == {**dict.fromkeys(("G", "T", "r", "v4", "R", "L3"), "yes"), "test mAP": mean}
    assert shown[0]["L3"] == "-"

    answer = aevlp(capsys, "reproduce", "fig3", *words)
    assert (answer.code, started(answer.err)) == (0, [])
    assert [next(iter(row.values())) for row in table_of(out / "fig3.md")] == ["0", "20"]
    assert table_of(out / "fig3.md")[1]["test mAP"] == mean

    answer = aevlp(capsys, "reproduce", "table5", *words)
    assert started(answer.err) == ["aevlp-damp.grid=3-0", "aevlp-damp.grid=3-1"]
    assert table_of(out / "table5.md")[1]["test mAP"] == mean
    check_values(out, "table5")

    both = shutil.copytree(backbone, tmp_path / "another")
    words[words.index("--backbone") + 1] = f"{backbone},{both}"
    answer = aevlp(capsys, "reproduce", "table6", *words[:5], "1", *words[6:])
    assert answer.code == 0, answer.err
    first, second = table_of(out / "table6.md")
    assert (first["backbone"], second["backbone"]) == (str(backbone), str(both))
    assert first["test mAP"] == second["test mAP"] == f"{whole[0]:.2f}"  # the same weights
    for name in ("table4", "table5", "table6", "fig3"):
        check_picture(out / f"{name}.png")


@pytest.fixture(scope="module")
def benchmark(tmp_path_factory) -> Path:
    return write_benchmark(tmp_path_factory.mktemp("voc") / "set")


@pytest.fixture
def pretended(monkeypatch):
    """A function that has trainings end at once: method -> test mAP, or what they raise."""

    def pretend(maps):
        def train(config, data, run, *, resume, accelerator):
            from aevlp.data.dataset import data_fingerprint
            from aevlp.data.load import load

            value = maps.get(config.method.name, 50.0)
            if isinstance(value, Exception):
                raise value
            made_of = load(data, config.data, store_root(config.run.store))
            run.create(config, "")
            result = {
                **{"method": config.method.name, "seed": config.run.seed, "mAP": value, "mAP_present": value, "val_mAP": 1.0},
                **{"best_epoch": 1, "epochs": 1, "images_per_second": 2.0, "teacher": None, "versions": {"aevlp": "0"}},
                "pseudo_labels": dict.fromkeys(("precision", "recall", "accumulated_precision", "accumulated_recall")),
                **{"data": str(data), "fingerprint": data_fingerprint(made_of), "images": {"train": 1}},
            }
            run.write_result(result)
            return result

        monkeypatch.setattr("aevlp.experiments.train.train_run", train)

    return pretend


def test_on_a_benchmark_the_figures_of_the_paper_stand_beside_ours(capsys, benchmark, pretended, tmp_path):
    pretended({"aevlp": 91.0, "gr": 90.0, "vlpl": 80.0, "full": 89.0})
    out = tmp_path / "tables"
    words = ["--data", benchmark, "--recipe", "voc", "--out", out, "--device", "cpu"]
    answer = aevlp(capsys, "reproduce", "table1", *words, "--seeds", "2")
    assert answer.code == 0, answer.err
    text = (out / "table1.md").read_text()
    assert text.startswith("# Table 1: every method, on VOC\n")
    rows = {row["method"]: row for row in table_of(out / "table1.md")}
    assert [rows[name]["test mAP"] for name in ("full", "aevlp", "an")] == ["89.00 ± 0.00", "91.00 ± 0.00", "50.00 ± 0.00"]
    assert [rows[name]["rank"] for name in ("full", "aevlp", "gr", "vlpl", "an")] == ["-", "1", "2", "3", "4"]
    assert (rows["aevlp"]["paper, VOC"], rows["role"]["paper, VOC"], rows["full"]["paper, VOC"]) == ("90.46", "87.77", "89.42")
    assert {heading for row in rows.values() for heading in row if "COCO" in heading} == set()
    assert "Every option is as in the recipe." in text
    assert "The recipe has the paper's constants, but prompts of its own" in text
    assert "(`--protocol common`)" in text
    assert {row["paper"] for row in rows_of(out / "table1.csv") if row["row"] == "gr"} == {"89.83"}
    # With other classes, as many of them or not, or another recipe, it is another set.
    other = shutil.copytree(benchmark, tmp_path / "other")
    for file in ("labels.csv", "classes.txt"):
        (other / file).write_text((other / file).read_text().replace("sofa", "settee"))
    words = ["--data", other, "--recipe", "voc", "--prompts", "none", "--device", "cpu", "--seeds", "1", "--out", tmp_path / "c"]
    aevlp(capsys, "reproduce", "table5", *words)
    assert list(table_of(tmp_path / "c" / "table5.md")[0]) == ["tiles along each side", "test mAP"]
    aevlp(capsys, "reproduce", "table5", "--data", benchmark, "--out", tmp_path / "a", "--seeds", "1", "--device", "cpu")
    assert list(table_of(tmp_path / "a" / "table5.md")[0]) == ["tiles along each side", "test mAP"]
    words = ["--data", write_world(tmp_path / "world", test=0), "--recipe", "voc", "--prompts", "none", "--device", "cpu"]
    aevlp(capsys, "reproduce", "table5", *words, "--out", tmp_path / "b", "--seeds", "1")
    # Without test images the validation mAP is shown, and is said to be.
    assert table_of(tmp_path / "b" / "table5.md")[2] == {"tiles along each side": "4", "validation mAP": "1.00"}
    assert "has no test split, of which fig2 shows" in refused(capsys, "reproduce", "fig2", *words, "--out", tmp_path / "b")


def test_a_row_that_fails_does_not_stop_the_others(capsys, world, pretended, tmp_path):
    words = ["reproduce", "table2", "--data", world, "--seeds", "1", "--device", "cpu"]
    pretended({"gpr+vlpl": UserError("--teacher x: there is\nno such folder"), "ll-ct": 60.0})
    answer = aevlp(capsys, *words, "--out", tmp_path / "a")
    assert answer.code == 2
    assert answer.err.splitlines()[-1].startswith("aevlp: 1 of 8 trainings failed (gpr+vlpl-0)")
    rows = {row["loss + labels"]: row for row in table_of(tmp_path / "a" / "table2.md")}
    assert (rows["gpr+vlpl"]["test mAP"], rows["gpr+vlpl"]["rank"]) == ("failed", "-")
    assert (rows["ll-ct"]["test mAP"], rows["ll-ct"]["rank"]) == ("60.00", "1")
    assert "gpr+vlpl-0 failed: --teacher x: there is no such folder\n" in (tmp_path / "a" / "table2.md").read_text()
    outcomes = {(row["row"], row["outcome"], row["mAP"]) for row in rows_of(tmp_path / "a" / "table2.csv")}
    assert ("gpr+vlpl", "failed", "") in outcomes
    assert "over 7 rows" in answer.out
    check_picture(tmp_path / "a" / "table2.png")

    pretended({"gpr+vlpl": 61.0})  # put right: it goes on
    answer = aevlp(capsys, *words, "--out", tmp_path / "a")
    assert (answer.code, started(answer.err)) == (0, ["gpr+vlpl-0"])

    pretended(dict.fromkeys(targets.TARGETS["table2"].methods, RuntimeError("a bug")))
    answer = aevlp(capsys, *words, "--out", tmp_path / "b")
    assert answer.code == 1
    assert "Traceback" in answer.err
    assert {row["test mAP"] for row in table_of(tmp_path / "b" / "table2.md")} == {"failed"}


def test_what_a_mode_cannot_train_is_no_failure(capsys, world, pretended, tmp_path):
    pretended({})
    words = ["reproduce", "table1", "--data", world, "--out", tmp_path / "a", "--seeds", "1", "--device", "cpu"]
    answer = aevlp(capsys, *words, "--train.mode", "linear")
    assert answer.code == 0, answer.err
    rows = {row["method"]: row for row in table_of(tmp_path / "a" / "table1.md")}
    assert rows["boostlu+ll-r"]["test mAP"] == "not in the mode linear: its head sees a map of features"
    assert (rows["boostlu+ll-r"]["rank"], rows["an"]["rank"], rows["aevlp"]["rank in the paper, VOC"]) == ("-", "1", "1")
    assert [row["outcome"] for row in rows_of(tmp_path / "a" / "table1.csv")].count("skipped") == 1


def test_the_demo_world_is_drawn_and_quick_says_so(capsys, quick, tmp_path, monkeypatch):
    drawn = []

    def draw(folder, **counts):
        drawn.append(counts)
        write_world(folder)

    monkeypatch.setattr(demo_run, "write_world", draw)
    out = tmp_path / "tables"
    words = ["reproduce", "table3", "--out", out, "--seeds", "1", *quick[:-2]]
    answer = aevlp(capsys, *words, "--quick")
    assert answer.code == 0, answer.err
    assert drawn == [{"train": 400, "test": 200}]
    text = (out / "table3.md").read_text()
    assert text.startswith("# Table 3: how good DAMP's labels are, on the demo world\n\n**Quick: ")
    assert "The figures mean nothing." in text
    assert "\n- epochs: 3\n" in text  # what the user says wins
    assert (out / "views").is_dir()
    assert "what is in it was made with --quick, and cannot go on without" in refused(capsys, *words)
    again = aevlp(capsys, *words, "--quick")
    assert (again.code, len(drawn)) == (0, 1)


def test_one_folder_is_of_one_image_set(capsys, world, quick, tmp_path):
    """Also where nothing in it is finished, and where only labels are in it."""
    words = ["--seeds", "1", *quick, "--out", tmp_path / "tables"]
    assert aevlp(capsys, "reproduce", "table3", "--data", world, *words).code == 0
    other = write_world(tmp_path / "other", seed=5)
    message = refused(capsys, "reproduce", "fig2", "--data", other, *words)
    assert message.startswith(f"{tmp_path / 'tables'}: made of other images, labels or classes ({world})")
    assert not (tmp_path / "tables" / "runs").exists()


def test_rows_of_other_features_are_not_mixed(capsys, world, tmp_path):
    file = tmp_path / "own.npz"
    names = np.array([f"images/{path.name}" for path in sorted((world / "images").iterdir())])
    rng = np.random.default_rng(0)
    np.savez(file, features=rng.random((len(names), 8), np.float32), images=names)
    words = ["reproduce", "fig2", "--data", world, "--seeds", "1", "--features", file, "--epochs", "1", "--device", "cpu"]
    words += ["--out", tmp_path / "tables", "--teacher", "tests.colours:teacher"]
    assert aevlp(capsys, *words).code == 0
    assert aevlp(capsys, *words).code == 0
    np.savez(file, features=rng.random((len(names), 8), np.float32), images=names)
    assert "an-0: made of other features, or of a backbone with other weights, than are there now" in refused(capsys, *words)


def test_damaged_files_of_a_run_are_named_or_done_without(capsys, world, pretended, tmp_path):
    pretended({})
    out = tmp_path / "tables"
    words = ["reproduce", "fig3", "--data", world, "--seeds", "1", "--out", out, "--device", "cpu"]
    assert aevlp(capsys, *words).code == 0
    run = next((out / "runs").iterdir())
    (run / "metrics.jsonl").write_text('{"epoch": 1, "images_per')
    assert aevlp(capsys, *words).code == 0
    (run / "result.json").write_text("[]")
    assert (
        refused(capsys, *words)
        == f"{run / 'result.json'}: damaged (is not a JSON object); remove it, and --resume makes it again"
    )


def test_what_is_wrong_is_refused_before_anything_is_computed(capsys, world, tmp_path):
    out = tmp_path / "tables"
    words = ["--data", world, "--out", out]
    assert "did you mean 'table1'?" in refused(capsys, "reproduce", "tabel1", *words)
    assert "--seeds must be at least 1, not 0" in refused(capsys, "reproduce", "table1", *words, "--seeds", "0")
    missing = refused(capsys, "reproduce", "table1", "--data", tmp_path / "no", "--out", out)
    assert "no: no such file or folder" in missing
    assert "--out" in refused(capsys, "reproduce", "table1", "--data", world)
    (tmp_path / "own.yaml").write_text("model:\n  features: own.npz\n")
    own = refused(capsys, "reproduce", "table6", *words, "--recipe", tmp_path / "own.yaml", "--backbone", "a,b")
    assert own.endswith("own.yaml: table6 compares backbones, and the recipe has features in place of one")
    assert not out.exists()
    (tmp_path / "file").write_text("")
    taken = refused(capsys, "reproduce", "table1", "--data", world, "--out", tmp_path / "file")
    assert "exists and is not a folder" in taken
    other = refused(capsys, "reproduce", "table1", "--data", world, "--out", world)
    assert "exists and was not made by aevlp reproduce" in other
    assert not (world / MARK).exists()
    observed = refused(capsys, "reproduce", "table3", *words, "--observe", "given", "--device", "cpu")
    assert "say --observe single for a set that is fully labelled" in observed
    assert not RunFolder(out / "runs" / "aevlp-0").path.exists()
