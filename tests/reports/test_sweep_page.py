import json
import re

import pytest

from aevlp.config.sweep import Failure, Outcome, Sweep, Trial
from aevlp.reports import sweep_page as module
from aevlp.reports.sweep_page import write_compare_report
from aevlp.training.run_folder import RunFolder
from tests.reports.made import evidence, history, picture, result
from tests.reports.pages import parsed, section

CLASSES = ("apple", "<img src=x onerror=alert(1)>", "car")


@pytest.fixture
def swept(tmp_path):
    """A function that makes a sweep's folder from the figures of its runs: label -> mAP per seed, None for a failure."""
    made = evidence(CLASSES, picture(tmp_path / "x.jpg"))

    def make(figures, choices=None, **changes):
        methods = list(dict.fromkeys(re.split(r"-(?=\w+\.)", name)[0] for name in figures))
        sweep = Sweep("default", methods, choices or {})
        outcomes: list[tuple[Trial, Outcome]] = []
        for trial in sweep.trials(max(map(len, figures.values()))):
            value = figures[trial.label][trial.seed]
            if value is None:
                outcomes.append((trial, Failure("the loss is <no> number", True)))
                continue
            run = RunFolder(tmp_path / "sweep" / trial.name)
            run.path.mkdir(parents=True, exist_ok=True)
            lines = [] if trial.method == "zero-shot" else history(3 + trial.seed, pseudo=trial.method == "aevlp")
            (run.path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
            run.report.write_text("a report")
            per_class = {name: value + 10 * c for c, name in enumerate(CLASSES)}
            mine = {"method": trial.method, "mAP": value, "mAP_present": value, "per_class_AP": per_class, **changes}
            outcomes.append((trial, result(made, lines or history(1), **mine)))
        file = write_compare_report(tmp_path / "sweep", sweep, outcomes, data=tmp_path / "photos")
        return parsed(file.read_text()), file

    return make


def rows(page):
    return section(page, "settings").all("tbody")[0].all("tr")


def test_settings_are_ranked_by_the_mean_of_their_seeds(swept):
    page, _ = swept({"an": [50.0, 52.0], "aevlp": [70.0, 71.0], "full": [80.0, 80.0], "gr": [60.0, 64.0]})
    assert [row.all("th")[0].text for row in rows(page)] == ["full", "aevlp", "gr", "an"]
    cells = [cell.text for cell in rows(page)[1].all("td")]
    assert cells[:2] == ["01", "70.50 ± 0.71"]
    value = rows(page)[1].all("data", data_key="mAP")[0].attributes["value"]
    assert float(value) == 70.5
    summary = page.all("p", class_="verdict")[0].text
    assert summary == (
        "aevlp has the highest test mAP, 70.50 ± 0.71, 8.50 above gr; two seeds: no claim; "
        "with complete labels, full reaches 80.00 ± 0.00."
    )
    assert page.all("h1")[0].text == "4 methods on photos"
    assert len(section(page, "charts").all("figure")) == 2
    assert [item.text.strip() for item in page.all("ul", class_="legend")[0].all("li")] == ["full", "aevlp", "gr", "an"]


def test_methods_without_epochs_have_no_curve(swept):
    page, _ = swept({"zero-shot": [50.0], "gr": [60.0]})
    assert [item.text.strip() for item in page.all("ul", class_="legend")[0].all("li")] == ["gr"]
    page, _ = swept({"zero-shot": [50.0]})
    assert len(section(page, "charts").all("figure")) == 1


def test_every_run_has_a_link_to_its_own_report(swept):
    figures = {"an-train.learning_rate=0.1": [50.0], "an-train.learning_rate=0.2": [51.0]}
    page, file = swept(figures, {"train.learning_rate": [0.1, 0.2]})
    links = [link.attributes["href"] for link in section(page, "settings").all("a")]
    assert links == ["an-train.learning_rate%3D0.2-0/report.html", "an-train.learning_rate%3D0.1-0/report.html"]
    assert (file.parent / "an-train.learning_rate=0.2-0" / "report.html").is_file()
    heads = [head.text.strip() for head in section(page, "settings").all("thead")[0].all("th")]
    assert heads[:3] == ["method", "train.learning_rate", "seeds"]
    assert "an train.learning_rate=0.2 has the highest" in page.text
    assert page.all("h1")[0].text == "2 settings on photos"


def test_what_failed_is_said_and_has_no_figure(swept):
    page, _ = swept({"an": [50.0, None], "gr": [None, None]})
    (notes,) = page.all("ul", class_="notes")
    assert [note.text for note in notes.all("li")] == [
        *("gr-0 failed: the loss is <no> number", "an-1 failed: the loss is <no> number", "gr-1 failed: the loss is <no> number")
    ]
    table = {row.all("th")[0].text: [cell.text for cell in row.all("td")] for row in rows(page)}
    assert table["an"][:2] == ["01 failed", "50.00"]
    assert set(table["gr"][1:]) == {"–"}  # noqa: RUF001


def test_a_run_that_lost_its_epochs_still_has_its_figures(swept, tmp_path):
    swept({"an": [50.0]})
    (tmp_path / "sweep" / "an-0" / "metrics.jsonl").unlink()
    sweep = Sweep("default", ["an"], {})
    (trial,) = sweep.trials(1)
    made = evidence(CLASSES, picture(tmp_path / "x.jpg"))
    file = write_compare_report(tmp_path / "sweep", sweep, [(trial, result(made, history()))], data=tmp_path)
    assert "61.23" in rows(parsed(file.read_text()))[0].text


def test_a_sweep_without_any_result_is_said_to_have_none(swept):
    page, _ = swept({"an": [None]})
    assert page.all("p", class_="verdict")[0].text == "No training of this sweep is finished."
    assert not page.all("figure")


def test_classes_are_compared_the_most_different_first(swept, monkeypatch):
    page, _ = swept({"an": [40.0], "aevlp": [60.0]})
    classes = section(page, "classes")
    assert [row.all("th")[0].text for row in classes.all("tbody")[0].all("tr")] == list(CLASSES)
    assert [cell.text for cell in classes.all("tbody")[0].all("tr")[1].all("td")] == ["70.0", "50.0", "20.0"]
    assert not page.all("img")
    monkeypatch.setattr(module, "MOST_CLASSES", 2)
    monkeypatch.setattr(module, "MOST_COLUMNS", 1)
    fewer = section(swept({"an": [40.0], "aevlp": [60.0]})[0], "classes")
    assert len(fewer.all("tbody")[0].all("tr")) == 2
    assert "1 more is not shown" in fewer.text
    assert [head.text.strip() for head in fewer.all("thead")[0].all("th")] == ["class", "aevlp", "difference"]


def test_without_test_images_validation_counts(swept):
    page, _ = swept({"an": [1.0], "gr": [2.0]}, mAP=None, mAP_present=None, per_class_AP=None, labels=None, val_mAP=33.25)
    assert "has the highest validation mAP, 33.25" in page.text
    assert "Left out: classes are compared on test images, and there are none." in section(page, "classes").text


def test_many_settings_stay_readable(swept):
    values = [round(0.01 * n, 2) for n in range(1, 61)]
    figures = {f"an-train.learning_rate={value:g}": [50 + value] for value in values}
    page, file = swept(figures, {"train.learning_rate": values})
    assert file.stat().st_size < 1e6
    assert len(rows(page)) == 60
    assert "The 20 worst settings are left out." in section(page, "charts").text
    assert "faint: 48 others" in section(page, "charts").text
