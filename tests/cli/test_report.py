import json
import shutil
import subprocess
import sys

import pytest

from aevlp.cli.main import main
from tests.cli.run import aevlp, refused
from tests.reports.pages import figures, parsed, section


@pytest.fixture(scope="module")
def trained(world, small, tmp_path_factory):
    """A finished run; tests that change it take a copy."""
    folder = tmp_path_factory.mktemp("report")
    words = [*small, "--method", "aevlp", "--store", str(folder / "views"), "--report", "true"]
    main(["train", str(world), "--out", str(folder / "run"), *words])
    return folder / "run"


@pytest.fixture
def run(trained, tmp_path):
    return shutil.copytree(trained, tmp_path / "run")


def test_a_training_leaves_a_report_with_every_section(trained):
    page = parsed((trained / "report.html").read_text())
    result = json.loads((trained / "result.json").read_text())
    assert "Left out" not in page.text
    assert figures(page)["mAP"] == {result["mAP"]}
    assert figures(page)["labels.macro_F1"] == {result["labels"]["macro_F1"]}
    assert figures(page)["pseudo_labels.accumulated_recall"] == {result["pseudo_labels"]["accumulated_recall"]}
    ids = [part.attributes["id"] for part in page.all("section")]
    assert ids == [link.attributes["href"][1:] for link in page.all("nav")[0].all("a")]
    assert len(page.all("figure")) == 10
    assert not page.all("span", class_="gone")
    assert len(page.all("img")) > 3
    assert section(page, "teacher").all("svg", class_="tiles")
    assert len(section(page, "teacher").all("svg", class_="tiles")[0].all("rect", class_="seen")) == 16
    limits = json.loads((trained / "thresholds.json").read_text())["classes"]
    rows = section(page, "classes").all("tbody")[0].all("tr")
    assert {row.all("th")[0].text: float(row.all("data")[1].attributes["value"]) for row in rows} == limits


def test_a_run_on_a_table_names_the_table(capsys, world, plain, tmp_path):
    words = [*plain, "--method", "gr", "--epochs", "1", "--report", "true"]
    assert aevlp(capsys, "train", world / "labels.csv", "--out", tmp_path / "run", *words).code == 0
    assert json.loads((tmp_path / "run" / "result.json").read_text())["data"] == str(world.resolve() / "labels.csv")
    assert parsed((tmp_path / "run" / "report.html").read_text()).all("h1")[0].text == f"gr on {world.resolve().name}/labels.csv"


def test_the_report_can_be_made_again_from_the_run_alone(capsys, run, trained):
    def page():  # its commands name the folder, which is a copy
        return (run / "report.html").read_text().replace(str(trained.resolve()), "RUN").replace(str(run.resolve()), "RUN")

    before = page()
    (run / "report.html").unlink()
    answer = aevlp(capsys, "report", run)
    assert answer.code == 0
    assert answer.out == f"written: {run / 'report.html'} (open it in a browser)\nnext: aevlp predict {run} PATH\n"
    assert page() == before


def test_new_thresholds_show_in_a_new_report(capsys, run, world):
    assert aevlp(capsys, "thresholds", run, world, "--thresholds.aim", "precision", "--device", "cpu").code == 0
    assert aevlp(capsys, "report", run).code == 0
    page = parsed((run / "report.html").read_text())
    assert "The thresholds were refitted after training" in page.text
    assert "for precision 90 %, on 8 validation images" in section(page, "settings").text


def test_a_run_that_cannot_have_one_is_refused_in_one_line(capsys, run, tmp_path):
    assert "not a run folder (no config.yaml); train one with" in refused(capsys, "report", tmp_path)
    before = (run / "report.html").read_bytes()
    (run / "evidence.npz").unlink()
    message = refused(capsys, "report", run)
    assert message.endswith(f"train it again: aevlp train DATA --out OTHER --recipe {run / 'config.yaml'}")
    (run / "result.json").unlink()
    assert f"continue with aevlp train DATA --out {run} --resume" in refused(capsys, "report", run)
    assert (run / "report.html").read_bytes() == before
    assert "unknown option --runs" in refused(capsys, "report", run, "--runs", "x")


def changed(file, change):
    content = json.loads(file.read_text())
    change(content)
    file.write_text(json.dumps(content))


DAMAGE = {
    "metrics.jsonl": [b"\xff", b"{", b"[]\n", b"null\n", b"{}\n", b"[" * 100_000, b'{"epoch": 1, "loss": NaN}\n'],
    "result.json": [b"\xff", b"{", b"[]", b"null", b"{}", b"[" * 100_000, b'{"a":' * 100_000],
    "thresholds.json": [b"\xff", b"{", b"[]", b"{}", b"[" * 100_000],
    "evidence.npz": [b"", b"PK", b"[" * 100_000],
    "rounds.json": [b"\xff", b"[]", b"[" * 100_000],
}


@pytest.mark.parametrize(("name", "content"), [(name, content) for name, contents in DAMAGE.items() for content in contents])
def test_a_damaged_file_is_named_and_the_report_stays(capsys, run, name, content):
    before = (run / "report.html").read_bytes()
    (run / name).write_bytes(content)
    assert name in refused(capsys, "report", run)
    assert (run / "report.html").read_bytes() == before


@pytest.mark.parametrize(
    "change",
    [
        {"method": 5},
        {"best_epoch": 99},
        {"epochs": "many"},
        {"mAP": "high"},
        {"mAP_present": None},
        {"per_class_AP": {"other": 1.0}},
        {"per_class_AP": [1]},
        {"images": {}},
        {"images": 5},
        {"labels": {"macro_F1": "x"}},
        {"labels": [1]},
        {"labels": {"precision": 1.0}},
        {"baselines": {"chance": "x"}},
        {"versions": "new"},
        {"versions": {"aevlp": 5}},
        {"warnings": 5},
        {"chosen": 5},
    ],
    ids=str,
)
def test_figures_that_cannot_be_are_refused_in_one_line(capsys, run, world, change):
    changed(run / "result.json", lambda content: content.update(change))
    assert "result.json" in refused(capsys, "report", run)


@pytest.mark.parametrize(
    "change", [{"mAP_present": None}, {"labels": {"precision": 1.0}}, {"baselines": {"chance": "x"}}], ids=str
)
def test_a_finished_run_with_figures_that_cannot_be_is_refused_in_one_line(capsys, run, world, change):
    changed(run / "result.json", lambda content: content.update(change))
    assert "result.json: damaged (" in refused(capsys, "train", world, "--out", run, "--resume")


@pytest.mark.parametrize("key", ["method", "epochs", "best_epoch", "mAP", "mAP_present", "val_labels", "val_mAP", "labels"])
def test_a_finished_run_that_lacks_a_figure_is_refused_in_one_line(capsys, run, world, key):
    changed(run / "result.json", lambda content: content.pop(key))
    assert f"result.json: damaged ({key} is missing); remove it" in refused(capsys, "train", world, "--out", run, "--resume")


def test_a_report_needs_no_torch(trained, tmp_path):
    copy = shutil.copytree(trained, tmp_path / "run")
    code = (
        f"import sys; from aevlp.cli.main import main\nmain(['report', {str(copy)!r}])\n"
        "print(sorted({'torch', 'transformers', 'sklearn'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_sweep_without_reports_has_none_of_its_own(capsys, world, plain, tmp_path):
    answer = aevlp(
        capsys, "compare", world, "--out", tmp_path / "sweep", *plain, "--methods", "an", "--epochs", "1"
    )  # `plain`: none
    assert answer.code == 0, answer.err
    assert "report.html" not in answer.out
    assert not list((tmp_path / "sweep").rglob("report.html"))


def test_a_sweep_leaves_a_report_that_leads_to_those_of_its_runs(capsys, world, plain, tmp_path):
    out = tmp_path / "sweep"
    words = ["compare", world, "--out", out, *plain, "--methods", "an,gr", "--seeds", "2", "--epochs", "1", "--report", "true"]
    answer = aevlp(capsys, *words)
    assert answer.code == 0, answer.err
    assert "report.html" in answer.out
    page = parsed((out / "report.html").read_text())
    links = [link.attributes["href"] for link in section(page, "settings").all("a")]
    assert sorted(links) == [f"{method}-{seed}/report.html" for method in ("an", "gr") for seed in (0, 1)]
    assert all((out / link).is_file() for link in links)
    for row in section(page, "settings").all("tbody")[0].all("tr"):
        method, mean = row.all("th")[0].text, float(row.all("data", data_key="mAP")[0].attributes["value"])
        maps = [json.loads((out / f"{method}-{seed}" / "result.json").read_text())["mAP"] for seed in (0, 1)]
        assert mean == pytest.approx(sum(maps) / 2)
    run = parsed((out / "an-0" / "report.html").read_text())
    assert "Left out: an uses no pseudo-labels." in section(run, "pseudo-labels").text
    assert "Left out: Only methods with DAMP have tiles to show." in section(run, "teacher").text
