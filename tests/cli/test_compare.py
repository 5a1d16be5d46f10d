import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from aevlp.core.errors import UserError
from aevlp.training.run_folder import RunFolder
from tests.cli.run import aevlp, refused, start
from tests.colours import ColourTeacher, write_backbone, write_world


@pytest.fixture(scope="module")
def bare(backbone) -> list[str]:
    """Options that make a training take a moment."""
    setting = ["--observe", "single", "--backbone", str(backbone), "--device", "cpu"]
    return [*setting, "--model.image_size", "32", "--train.workers", "1"]


@pytest.fixture(scope="module")
def quick(bare) -> list[str]:
    """The same where one of the methods asks a teacher."""
    return [*bare, "--teacher", "tests.colours:teacher", "--damp.temperature", "0.1", "--damp.draws", "1"]


def rows_of(folder: Path) -> list[dict[str, str]]:
    with (folder / "results.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def runs_in(folder: Path) -> set[str]:
    return {path.parent.name for path in folder.glob("*/result.json")}


def cells_of(out: str) -> list[list[str]]:
    """The rows of the printed table."""
    return [[cell.strip() for cell in line.strip("│").split("│")] for line in out.splitlines() if line.startswith("│")]


def losses_of(run: Path) -> list[float]:
    return [json.loads(line)["loss"] for line in (run / "metrics.jsonl").read_text().splitlines()]


def test_a_sweep_trains_every_combination_once_and_can_grow(capsys, world, quick, tmp_path, monkeypatch):
    views = []
    encode = ColourTeacher.encode_images

    def counted(self, pixels):
        views.append(len(pixels))
        return encode(self, pixels)

    monkeypatch.setattr(ColourTeacher, "encode_images", counted)
    out = tmp_path / "sweep"
    words = ["compare", world, "--out", out, *quick, "--epochs", "1", "--seeds", "2"]
    answer = aevlp(capsys, *words, "--methods", "an,aevlp", "--damp.top_k", "1,3")
    assert answer.code == 0, answer.err
    assert runs_in(out) == {f"{label}-{s}" for label in ("an", "aevlp-damp.top_k=1", "aevlp-damp.top_k=3") for s in (0, 1)}
    assert sum(views) == (32 + 8) * 17  # one draw of the training and validation images, for all of them

    rows = rows_of(out)
    assert [(row["method"], row["damp.top_k"], row["seed"]) for row in rows] == [
        *(("an", "", "0"), ("aevlp", "1", "0"), ("aevlp", "3", "0")),
        *(("an", "", "1"), ("aevlp", "1", "1"), ("aevlp", "3", "1")),
    ]
    for row in rows:
        result = json.loads((Path(row["run"]) / "result.json").read_text())
        assert (result["method"], str(result["seed"])) == (row["method"], row["seed"])
        for key in ("mAP", "mAP_present", "val_mAP", "best_epoch", "epochs", "images_per_second"):
            assert float(row[key]) == result[key]
        for key, value in result["pseudo_labels"].items():
            assert row[f"pseudo_{key}"] == ("" if value is None else str(value))
    maps = [float(row["mAP"]) for row in rows if row["damp.top_k"] == "3"]
    assert [cells[:2] for cells in cells_of(answer.out)] == [["an", "-"], ["aevlp", "1"], ["aevlp", "3"]]
    assert cells_of(answer.out)[2][2].startswith(f"{sum(maps) / 2:.2f} ± ")
    assert "2 of 6 done: aevlp-damp.top_k=1-0, test mAP" in answer.err
    assert " left" in answer.err
    best = max(rows, key=lambda row: float(row["val_mAP"]))["run"]
    assert answer.out.endswith(f"next: aevlp predict {best} PATH\n")
    top_k = [(out / f"aevlp-damp.top_k={k}-0" / "config.yaml").read_text().count(f"top_k: {k}\n") for k in (1, 3)]
    assert top_k == [1, 1]

    again = aevlp(capsys, *words, "--damp.top_k", "1,3", "--methods", "an,aevlp")
    assert again.out == answer.out
    assert again.err.count("this run is finished") == 6
    assert "started" not in again.err

    card = out / "an-0" / "model" / "README.md"
    card.unlink()  # as if it had been killed after its last figure
    assert aevlp(capsys, *words, "--damp.top_k", "1,3", "--methods", "an,aevlp").out == answer.out
    assert card.is_file()

    grown = aevlp(capsys, *words, "--methods", "gr,aevlp,an", "--damp.top_k", "2,3,1")
    assert grown.code == 0, grown.err
    started = [line.removeprefix("started ") for line in grown.err.splitlines() if line.startswith("started ")]
    assert started == ["gr-0", "aevlp-damp.top_k=2-0", "gr-1", "aevlp-damp.top_k=2-1"]
    assert len(rows_of(out)) == 10
    assert sum(views) == (32 + 8) * 17
    assert not list(out.rglob("*.part"))


def test_jobs_train_what_a_user_would_by_hand(capsys, world, quick, tmp_path):
    """Values that begin with a dash, a comma within a text, a recipe of one's own: all of it reaches the trainings."""
    recipe = tmp_path / "own.yaml"
    recipe.write_text("method: gpr+damp\nloss:\n  w1: 5\ntrain:\n  epochs: 2\n")
    out, prompt = tmp_path / "sweep", "a {}, alone"
    words = [world, *quick, "--recipe", recipe]
    lists = ["--loss.b1", "-2,-8e0", "--teacher.prompt", prompt.replace(",", "\\,"), "--train.head_learning_rate", "0.0123456789"]
    answer = aevlp(capsys, "compare", *words, "--out", out, "--jobs", "2", *lists)
    assert answer.code == 0, answer.err
    assert runs_in(out) == {"gpr+damp-loss.b1=-2-0", "gpr+damp-loss.b1=-8-0"}
    assert "2 of 2 done: gpr+damp-loss.b1=" in answer.err
    by_hand = ["--loss.b1", "-8", "--teacher.prompt", prompt, "--train.head_learning_rate", "0.0123456789"]
    assert aevlp(capsys, "train", *words, "--out", tmp_path / "run", *by_hand).code == 0
    ours, theirs = tmp_path / "run", out / "gpr+damp-loss.b1=-8-0"
    assert yaml.safe_load((ours / "config.yaml").read_text()) == yaml.safe_load((theirs / "config.yaml").read_text())
    # Not to the last bit: jobs have fewer threads.
    assert losses_of(theirs) == pytest.approx(losses_of(ours), rel=1e-4)
    assert losses_of(out / "gpr+damp-loss.b1=-2-0") != pytest.approx(losses_of(ours), rel=1e-4)
    # One process goes on where several were, and takes the runs for its own.
    again = aevlp(capsys, "compare", *words, "--out", out, *lists)
    assert again.out == answer.out
    assert "started" not in again.err


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_training_that_fails_does_not_stop_the_others(capsys, world, bare, tmp_path, jobs):
    out = tmp_path / "sweep"
    words = ["compare", world, "--out", out, *bare, "--observe", "given", "--epochs", "1", "--jobs", jobs]
    answer = aevlp(capsys, *words, "--methods", "full,an")
    assert answer.code == 2
    assert "failed: full-0: --method full trains on complete labels" in answer.err
    assert answer.err.splitlines()[-1].startswith("aevlp: 1 of 2 trainings failed (full-0)")
    assert "Traceback" not in answer.err
    assert cells_of(answer.out)[0][:2] == ["full", "failed"]
    assert [row["method"] for row in rows_of(out)] == ["an"]
    assert not (out / "full-0").exists()


BROKEN = """
from tests.colours import ColourTeacher

class Broken(ColourTeacher):
    fingerprint = "broken"

    def encode_images(self, pixels):
        raise RuntimeError("a bug in the teacher")
"""


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_bug_in_a_training_is_told_with_its_traceback(capsys, world, quick, tmp_path, monkeypatch, jobs):
    (tmp_path / "broken.py").write_text(BROKEN)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", f"{os.environ['PYTHONPATH']}:{tmp_path}")
    words = ["compare", world, "--out", tmp_path / "sweep", *quick, "--epochs", "1", "--jobs", jobs]
    answer = aevlp(capsys, *words, "--methods", "aevlp,an", "--teacher", "broken:Broken")
    assert answer.code == 1
    assert "failed: aevlp-0: RuntimeError: a bug in the teacher" in answer.err
    assert "Traceback" in answer.err
    assert [row["method"] for row in rows_of(tmp_path / "sweep")] == ["an"]


def test_without_test_images_validation_is_shown(capsys, bare, tmp_path):
    world = write_world(tmp_path / "world", train=60, test=0)
    answer = aevlp(capsys, "compare", world, "--out", tmp_path / "sweep", *bare, "--epochs", "1", "--methods", "an")
    assert answer.code == 0, answer.err
    (row,) = rows_of(tmp_path / "sweep")
    assert (row["mAP"], row["mAP_present"]) == ("", "")
    assert cells_of(answer.out)[0][:3] == ["an", "-", f"{float(row['val_mAP']):.2f}"]
    assert f"1 of 1 done: an-0, val mAP {float(row['val_mAP']):.2f}" in answer.err


@pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=pytest.mark.soak)])
def test_a_killed_sweep_goes_on(capsys, world, bare, tmp_path, jobs):
    out = tmp_path / "sweep"
    words = ["compare", str(world), "--out", str(out), *bare, "--methods", "an", "--epochs", "1,3"]
    words += ["--train.patience", "9", "--train.max_drop", "100"]
    killed = [sys.executable, "-m", "tests.cli.killed", "before_checkpoint", *words]  # the third: in the second run
    assert subprocess.run(killed, capture_output=True, check=False).returncode == -signal.SIGKILL
    assert [row["train.epochs"] for row in rows_of(out)] == ["1"]
    (out / ".results.csv.0.part").write_text("half of it")
    answer = aevlp(capsys, *words, "--jobs", jobs)
    assert answer.code == 0, answer.err
    assert "resumed after epoch 1" in (out / "an-train.epochs=3-0" / "log.txt").read_text()
    assert [row["train.epochs"] for row in rows_of(out)] == ["1", "3"]
    assert not list(tmp_path.rglob("*.part"))


def processes_with(text: str) -> list[int]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes()
        except OSError:  # it has ended meanwhile
            continue
        if text.encode() in command:
            found.append(int(folder.name))
    return found


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="looks for processes in /proc")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.soak)])
def test_a_signal_stops_all_jobs(world, bare, tmp_path, number, code):
    out = tmp_path / "sweep"
    endless = ["--epochs", "100000", "--train.patience", "100000", "--train.max_drop", "100"]
    words = ["compare", world, "--out", out, *bare, "--methods", "an,gr", "--jobs", "2", *endless]
    # Where the tests run in the background, processes inherit that an interrupt is ignored.
    sweep = start(*words, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    try:
        while not all((out / name / "metrics.jsonl").exists() for name in ("an-0", "gr-0")):
            assert sweep.poll() is None, sweep.communicate()
            time.sleep(0.1)
        assert len(processes_with(str(out))) == 3
        sweep.send_signal(number)
        _, err = sweep.communicate()
        assert sweep.returncode == code, err
        assert "Traceback" not in err
        assert processes_with(str(out)) == []
        assert not list(out.rglob("*.part"))
    finally:
        for process in processes_with(str(out)):
            os.kill(process, signal.SIGKILL)


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="looks for processes in /proc")
def test_no_job_outlives_a_sweep_that_is_killed(world, bare, tmp_path):
    out = tmp_path / "sweep"
    endless = ["--epochs", "100000", "--train.patience", "100000", "--train.max_drop", "100"]
    sweep = start("compare", world, "--out", out, *bare, "--methods", "an,gr", "--jobs", "2", *endless)
    try:
        while not all((out / name / "metrics.jsonl").exists() for name in ("an-0", "gr-0")):
            assert sweep.poll() is None, sweep.communicate()
            time.sleep(0.1)
        sweep.kill()
        sweep.communicate()
        deadline = time.monotonic() + 60
        while processes_with(str(out)) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert processes_with(str(out)) == []
        while True:  # a process that ends gives up its locks after its name
            try:
                RunFolder(out / "an-0").claim().release()  # the same command again can go on
                break
            except UserError:
                assert time.monotonic() < deadline
                time.sleep(0.1)
    finally:
        for process in processes_with(str(out)):
            os.kill(process, signal.SIGKILL)


@pytest.mark.soak
def test_processes_that_work_together_train_one_run_after_another(world, quick, tmp_path):
    out = tmp_path / "sweep"
    words = ["compare", world, "--out", out, *quick, "--epochs", "1", "--methods", "an,aevlp"]
    sweep = start(*words, processes=2)
    printed, err = sweep.communicate()
    assert sweep.returncode == 0, err
    assert [cells[0] for cells in cells_of(printed)] == ["an", "aevlp"]
    assert err.count("started an-0") == 1
    assert "process 2 of 2" in (out / "aevlp-0" / "log.txt").read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--seed", "3"], "--seed 3: compare trains with seeds 0, 1, ...; say how many with --seeds N"),
        (["--seeds", "0"], "--seeds must be at least 1, not 0"),
        (["--jobs", "0"], "--jobs must be at least 1, not 0"),
        (["--method", "an"], "unknown option --method (did you mean '--methods'?)"),
        (["--methods", "an,aevpl"], "--method aevpl: no such method (did you mean 'aevlp'?)"),
        (["--epoch", "3"], "unknown option --epoch (did you mean '--epochs'?)"),
        (["--epochs", "3,many"], "must be a whole number, not 'many'"),
        (["--damp.draws", "1,2,"], "has an empty value in its list '1,2,'"),
        (["--damp.temperature", "0.1,0"], "--damp.temperature must be at least 1e-06, not 0.0"),
        (["--methods", "gr,an", "--loss.q3", "0.5,0.9"], "--teacher is not an option of any of --methods gr,an; their own"),
        (["--recipe", "defalt"], "--recipe defalt: no such recipe or file (did you mean 'default'?)"),
        (["--precision", "fp32,bf16"], "give one, or use --jobs 2"),
        (["--precision", "fp16"], "--precision fp16: a CPU cannot compute in it"),
        (["--precision", "fp16", "--jobs", "2"], "--precision fp16: a CPU cannot compute in it"),
    ],
)
def test_wrong_words_are_refused_before_any_work(capsys, world, quick, tmp_path, words, message):
    assert message in refused(capsys, "compare", world, "--out", tmp_path / "sweep", *quick, *words)
    assert not (tmp_path / "sweep").exists()


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_image_set_that_cannot_be_read_is_said_once(capsys, quick, tmp_path, jobs):
    words = ["compare", tmp_path / "nowhere", "--out", tmp_path / "sweep", *quick, "--seeds", "3", "--jobs", jobs]
    assert "nowhere" in refused(capsys, *words)
    assert not (tmp_path / "sweep").exists()


def test_jobs_are_refused_where_processes_work_together(capsys, world, quick, tmp_path, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert "leave --jobs out" in refused(capsys, "compare", world, "--out", tmp_path / "sweep", *quick, "--jobs", "2")


def test_a_place_that_is_something_else_is_left_alone(capsys, world, bare, tmp_path):
    place = tmp_path / "thesis"
    place.mkdir()
    (place / "draft.txt").write_text("years of work")
    words = ["compare", world, "--out", place, *bare, "--epochs", "1", "--methods", "an"]
    assert "has no run of a sweep in it; choose another place" in refused(capsys, *words)
    (place / "draft.txt").rename(place / "results.csv")
    assert "results.csv in it is not one of a sweep" in refused(capsys, *words)
    assert (place / "results.csv").read_text() == "years of work"
    assert "is not a folder" in refused(capsys, "compare", world, "--out", place / "results.csv", *bare)
    (place / "results.csv").unlink()
    assert aevlp(capsys, *words, "--store", place / "views").code == 0


def test_a_store_in_the_folder_does_not_stand_in_the_way(capsys, quick, tmp_path):
    """An image set that is refused leaves a note in the store; put right, the same command works."""
    world = write_world(tmp_path / "world")
    image = world / "images" / "000.png"
    content = image.read_bytes()
    image.write_bytes(b"")
    words = ["compare", world, "--out", tmp_path / "sweep", *quick, "--epochs", "1", "--store", tmp_path / "sweep" / "views"]
    assert "1 of 56 images cannot be read" in refused(capsys, *words)
    image.write_bytes(content)
    answer = aevlp(capsys, *words)
    assert answer.code == 0, answer.err


def test_a_run_that_was_started_otherwise_is_refused(capsys, world, bare, tmp_path):
    words = ["compare", world, "--out", tmp_path / "sweep", *bare]
    assert aevlp(capsys, *words, "--methods", "an", "--epochs", "1").code == 0
    before = (tmp_path / "sweep" / "results.csv").read_bytes()
    message = refused(capsys, *words, "--methods", "gr,an", "--epochs", "2")
    assert "an-0 was started with another configuration: train.epochs was 1 and is now 2" in message
    assert runs_in(tmp_path / "sweep") == {"an-0"}
    assert (tmp_path / "sweep" / "results.csv").read_bytes() == before
    # What does not concern the method does not make it another run.
    more = ["--damp.top_k", "1,2", "--teacher", "tests.colours:teacher", "--damp.draws", "1"]
    assert aevlp(capsys, *words, "--methods", "an,aevlp", "--epochs", "1", *more).code == 0


def test_results_of_other_images_or_weights_are_not_mixed(capsys, world, bare, tmp_path):
    own = write_backbone(tmp_path / "backbone")
    words = ["--out", tmp_path / "sweep", *bare, "--backbone", own, "--seeds", "1", "--epochs", "1"]
    assert aevlp(capsys, "compare", world, *words, "--methods", "an").code == 0
    other = write_world(tmp_path / "other", seed=5)
    message = refused(capsys, "compare", other, *words, "--methods", "an,gr")
    assert message == f"{tmp_path / 'sweep' / 'an-0'}: made of other images, labels or classes ({world}); choose another --out"
    write_backbone(own, seed=5)
    message = refused(capsys, "compare", world, *words, "--methods", "an,gr")
    assert "an-0: made of other features, or of a backbone with other weights, than are there now" in message
    assert runs_in(tmp_path / "sweep") == {"an-0"}


def test_help_and_wrong_words_load_nothing_heavy():
    for words in (["compare", "--help"], ["compare", "x", "--out", "y", "--damp.draws", "1,x"]):
        code = (
            f"import sys, aevlp.cli.main\ntry: aevlp.cli.main.main({words})\nexcept SystemExit: pass\n"
            "print(sorted({'torch', 'transformers'} & set(sys.modules)))"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout.splitlines()[-1] == "[]"
