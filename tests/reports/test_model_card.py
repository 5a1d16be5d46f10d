"""The card of a model: the hub can read it, its content is right, its code runs."""

import html
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from huggingface_hub import ModelCard
from markdown_it import MarkdownIt
from PIL import Image

from aevlp.core.citations import AEVLP, LARGE_LOSS
from aevlp.data.images import pixels_of
from aevlp.models.heads import HEADS
from aevlp.models.model_folder import load_classifier
from aevlp.reports.model_card import escape, write_card
from aevlp.training.run_folder import RunFolder
from tests.cli.run import aevlp
from tests.inference.test_export import CLASSES, pictures, write_run
from tests.models.heads.checkpoints import IMAGE_SIZE

RESULT = {
    "method": "aevlp",
    "epochs": 8,
    "best_epoch": 7,
    "mAP": 72.283,
    "mAP_present": 74.5,
    "per_class_AP": {**dict.fromkeys(CLASSES, 61.234), CLASSES[1]: None},
    "val_mAP": 71.125,
    "val_labels": "complete",
    "labels": {"macro_F1": 66.6, "micro_F1": 68.8, "precision": 70.1, "recall": 65.4, "macro_F1_at_half": 12.3},
    "pseudo_labels": {"precision": 0.764, "recall": 0.464, "accumulated_precision": None, "accumulated_recall": None},
    "expected_positives": 2.34,
    "images": {"train": 1600, "val": 400, "test": 1000},
    "data": "/home/somebody/My photos",
    "backbone": "microsoft/resnet-50",
    "teacher": "/home/somebody/clip",
    "versions": {"aevlp": "0.4.0", "torch": "2.13.0"},
}


@pytest.fixture
def carded(tmp_path):
    """A run whose card is written with these changes of the usual result."""

    def make(method="aevlp", thresholds=True, **changes):
        run = write_run(tmp_path / "first run", method=method, thresholds=thresholds)
        run.write_result({**RESULT, "method": method, **changes})
        write_card(run)
        return run

    return make


def card_of(run):
    return ModelCard.load(run.model / "README.md")


def shown(text):
    """The card as a reader sees it: HTML."""
    return MarkdownIt("commonmark").enable("table").render(text)


def cells(text):
    """The texts in the rows of all tables, as a reader sees them."""
    rows = re.findall(r"<tr>(.*?)</tr>", shown(text), re.DOTALL)
    return [[html.unescape(re.sub(r"<[^>]*>", "", cell)) for cell in re.findall(r"<td>(.*?)</td>", row)] for row in rows]


def code_of(text):
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


def test_the_hub_reads_the_card(carded):
    card = card_of(carded())
    assert card.data.library_name == "transformers"
    assert card.data.pipeline_tag == "image-classification"
    assert card.data.tags == ["multi-label", "single-positive", "aevlp"]
    assert card.data.base_model == "microsoft/resnet-50"
    assert card.data.model_name == "first run"
    found = {result.metric_name: (result.metric_type, result.metric_value) for result in card.data.eval_results}
    assert found["mAP (percent)"] == ("mean_average_precision", 72.28)
    assert found["macro F1 (percent)"] == ("f1", 66.6)
    assert {(r.dataset_name, r.dataset_split, r.task_type) for r in card.data.eval_results} == {
        ("My photos", "test", "image-classification")
    }
    again: Any = ModelCard(str(card)).data
    assert again.to_dict() == card.data.to_dict()
    assert again.eval_results == card.data.eval_results


def test_the_method_is_a_tag(carded):
    card = card_of(carded("ll-ct"))
    assert card.data.tags == ["multi-label", "single-positive", "aevlp", "ll-ct"]
    assert LARGE_LOSS in card.text
    assert AEVLP not in card.text


def test_figures_are_those_of_the_result(carded):
    text = card_of(carded()).text
    rows = cells(text)
    for row in (
        ["test", "mAP", "measured", "72.28"],
        ["test", "mAP over the classes that have a positive", "measured", "74.50"],
        ["test", "macro F1, with the thresholds fitted in training", "measured", "66.60"],
        ["test", "macro F1 with 0.5 as the threshold", "measured", "12.30"],
        ["validation", "mAP", "measured", "71.12"],
        ["epochs", "8; the model is that of epoch 7"],
        ["backbone", "microsoft/resnet-50"],
        ["teacher", "clip (not on the hub)"],
    ):
        assert row in rows
    assert "Images: training 1,600, validation 400, test 1,000." in text
    assert "precision 76.4 %, recall 46.4 %" in text
    assert "2.34 labels" in text
    assert AEVLP in text


def test_thresholds_are_those_of_the_run(carded):
    run = carded()
    fitted = json.loads(run.thresholds.read_text())
    rows = [row for row in cells(card_of(run).text) if len(row) == 3 and row[0] in CLASSES]
    assert rows == [[name, f"{fitted['classes'][name]:.4f}", "-" if name == "bee" else "61.23"] for name in CLASSES]
    assert f"A single threshold for all classes would be {fitted['overall']:.4f}." in card_of(run).text
    assert "20 validation images with complete labels" in card_of(run).text


def test_what_is_not_sure_is_said(carded, tmp_path):
    run = carded()
    assert "lower bound" not in card_of(run).text
    assert "Warning" not in card_of(run).text
    run.thresholds.write_text(run.thresholds.read_text().replace('"basis": "complete"', '"basis": "estimated"'))
    warned = "This model is no better than chance: do not use it."
    own = {"basis": "estimated", "labels_per_image": 1.5, "macro_F1": 31.0, "macro_F1_at_half": 32.0}
    baselines = {"chance": 70.5, "teacher": 72.5}
    changes = {"val_labels": "incomplete", "mAP": None, "labels": None, "labels_on_val": own, "baselines": baselines}
    run.write_result({**RESULT, **changes, "warnings": [warned]})
    write_card(run)
    text = card_of(run).text
    bound, estimated = "observed labels only: a lower bound", "estimated for 1.50 labels per image"
    for row in (
        ["validation", "mAP", bound, "71.12"],
        ["validation", "mAP of chance", bound, "70.50"],
        ["validation", "mAP of its teacher alone", bound, "72.50"],
        ["validation", "macro F1, with the thresholds fitted in training", estimated, "31.00"],
        ["validation", "macro F1 with 0.5 as the threshold", estimated, "32.00"],
    ):
        assert row in cells(text)
    assert text.index(f"> **Warning.** {warned}") < text.index("A multi-label image classifier")
    assert "20 validation images with incomplete labels: they are estimated" in text
    assert "The validation labels are incomplete" in text
    assert "not tested on images other than those it was selected on" in text
    assert "There was no test split" in text
    assert card_of(run).data.eval_results is None
    assert not {"model-index", "model_name"} & set(card_of(run).data.to_dict())


@pytest.mark.parametrize(
    ("method", "options", "sentence"),
    [
        ("an", {"observe": "given"}, "a label that was not given counted as unknown"),
        ("an", {"observe": "given", "zeros": "negative"}, "a label that was not given counted as negative"),
        ("an", {"observe": "single"}, "Training used one label per image"),
        ("full", {"observe": "single"}, "Training used the complete labels"),
    ],
)
def test_where_the_labels_came_from(method, options, sentence, carded):
    run = carded(method)
    text = run.config.read_text()
    for key, value in options.items():
        text = re.sub(rf"{key}: \w+", f"{key}: {value}", text)
    run.config.write_text(text)
    write_card(run)
    assert sentence in card_of(run).text


def test_a_card_names_no_folder_of_this_machine(carded, tmp_path):
    text = (carded().model / "README.md").read_text()
    assert "/home/somebody" not in text
    assert str(tmp_path) not in text


def test_a_hub_name_that_is_a_folder_here_is_not_taken_for_one(carded, tmp_path, monkeypatch):
    (tmp_path / "microsoft" / "resnet-50").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    card = card_of(carded())
    assert card.data.base_model is None
    assert ["backbone", "resnet-50 (not on the hub)"] in cells(card.text)


NASTY = [
    "a|b",
    "a\nb",
    "<script>x</script>",
    "`tick`",
    "*bold* _it_ [link](http://x) ~~no~~",
    "back\\slash",
    "&amp; $5$ #1 !",
    "|",
    "\udcff!",
]


def test_names_are_shown_as_they_are(carded):
    run = carded()
    names = [*NASTY, *(f"class {number}" for number in range(len(NASTY), 5))]
    config = json.loads((run.model / "config.json").read_text())
    config["id2label"] = dict(enumerate(names))
    (run.model / "config.json").write_text(json.dumps(config))
    content = json.loads(run.thresholds.read_text())
    content["classes"] = dict.fromkeys(names, 0.25)
    run.thresholds.write_text(json.dumps(content))
    write_card(run)
    text = card_of(run).text  # which must be UTF-8
    table = [row for row in cells(text) if row[1:2] == ["0.2500"]]
    assert [row[0] for row in table] == [" ".join(name.replace("\udcff", "?").split()) for name in names]
    assert "<script>" not in shown(text)


@pytest.mark.parametrize("text", ["a|b", "<i>", "`", "*a*", "__a__", "a\n\nb", "\\", "[a](b)", "# a", "&lt;"])
def test_escaped_text_is_shown_as_it_is(text):
    seen = shown(f"| x |\n| --- |\n| {escape(text)} |")
    assert [html.unescape(cell) for cell in re.findall("<td>(.*)</td>", seen)] == [" ".join(text.split())]


def test_a_thousand_classes_do_not_fill_the_card(carded):
    run = carded()
    names = [f"class {number}" for number in range(1000)]
    config = json.loads((run.model / "config.json").read_text())
    config["id2label"] = dict(enumerate(names))
    (run.model / "config.json").write_text(json.dumps(config))
    content = json.loads(run.thresholds.read_text())
    content["classes"] = dict.fromkeys(names, 0.25)
    run.thresholds.write_text(json.dumps(content))
    write_card(run)
    text = card_of(run).text
    assert [row[0] for row in cells(text) if row[1:2] == ["0.2500"]] == names[:100]
    assert "and 900 more: `thresholds.json`" in text
    assert "class 99 and 900 more (`id2label` in `config.json`)" in text


@pytest.fixture
def photographed(carded, tmp_path, monkeypatch):
    """A run's model folder as it is given away, beside a photo, and what the model should say of that."""
    run = carded()
    folder = Path(shutil.copytree(run.model, tmp_path / "given away"))
    shutil.copy(run.thresholds, folder)
    monkeypatch.chdir(tmp_path)
    Image.fromarray(pictures(2, seed=5)[1]).resize((91, 57)).save("photo.jpg")
    pixels = torch.tensor(pixels_of(Path("photo.jpg"), IMAGE_SIZE))[None]
    with torch.no_grad():
        expected = load_classifier(run.model).eval()(pixels).sigmoid()[0].tolist()
    assert max(expected) - min(expected) > 0.1
    return run, folder, dict(zip(CLASSES, expected, strict=True))


def run_code(code, folder):
    """The names that a block of the card leaves behind."""
    names: dict[str, Any] = {}
    exec(code.replace("path/to/this/folder", str(folder)), names)
    return names


def test_the_code_for_transformers_gives_the_numbers_of_aevlp(photographed, capsys):
    run, folder, expected = photographed
    thresholds = json.loads(run.thresholds.read_text())["classes"]
    (code,) = [code for code in code_of(card_of(run).text) if "pipeline" in code]
    found = run_code(code, folder)["found"]
    assert {each["label"]: each["score"] for each in found} == {name: pytest.approx(p, abs=1e-5) for name, p in expected.items()}
    printed = eval(capsys.readouterr().out.splitlines()[-1])
    assert set(printed) == {name for name, p in expected.items() if p >= thresholds[name]}

    run.thresholds.unlink()
    write_card(run)
    (code,) = [code for code in code_of(card_of(run).text) if "pipeline" in code]
    assert "thresholds" not in code
    assert len(run_code(code, folder)["found"]) == len(CLASSES)


def test_the_code_for_aevlp_gives_its_numbers(photographed, capsys):
    run, folder, expected = photographed
    thresholds = json.loads(run.thresholds.read_text())["classes"]
    (code,) = [code for code in code_of(card_of(run).text) if "import aevlp" in code]
    run_code(code, folder)
    probabilities, labels = map(eval, capsys.readouterr().out.splitlines()[-2:])
    assert probabilities == [{name: pytest.approx(p, abs=1e-5) for name, p in expected.items()}]
    assert set(labels[0]) == {name for name, p in expected.items() if p >= thresholds[name]}

    run.thresholds.unlink()
    write_card(run)
    assert not any("labels(" in code for code in code_of(card_of(run).text))


@pytest.mark.parametrize("head", HEADS)
def test_a_head_of_its_own_is_said_to_load_with_aevlp_only(head, carded):
    card = card_of(carded(f"{head}+an"))
    assert card.data.library_name == "aevlp"
    assert f"{head}+an" in card.data.tags
    assert "Only aevlp loads this folder" in card.text
    assert "pipeline" not in "".join(code_of(card.text))


def test_runs_of_older_versions_have_a_card_too(carded):
    run = carded()
    for missing in ("labels", "data", "versions", "pseudo_labels", "expected_positives", "images", "teacher", "per_class_AP"):
        run.write_result({key: value for key, value in RESULT.items() if key != missing})
        write_card(run)
        assert card_of(run).data.eval_results[0].metric_value == 72.28
    run.result.unlink()
    run.thresholds.unlink()
    write_card(run)
    card = card_of(run)
    assert card.data.eval_results is None
    assert "None were measured" in card.text
    assert "`aevlp thresholds RUN DATA` fits them" in card.text


def test_a_trained_run_has_all_that_a_card_wants(capsys, world, plain, tmp_path):
    run = RunFolder(tmp_path / "run")
    assert aevlp(capsys, "train", world, "--out", run.path, *plain, "--epochs", "1", "--method", "an").code == 0
    write_card(run)
    card = card_of(run)
    assert card.data.eval_results[0].metric_value == round(json.loads(run.result.read_text())["mAP"], 2)
    assert "not recorded" not in card.text
