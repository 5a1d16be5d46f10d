"""The model card: a README.md in the model's folder that says what it is, how good, and how to use it.

With it the folder can be given away as it is, for instance with `hf upload`. So it names no path of this machine.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aevlp.config.methods import Method, find_method
from aevlp.config.recipe import read_recipe
from aevlp.core.errors import UserError
from aevlp.core.files import write_text
from aevlp.models.checkpoint import read_json
from aevlp.models.feature_classifier import WIDTH
from aevlp.models.heads.registry import OWN_TYPE
from aevlp.models.model_folder import takes_features
from aevlp.training.run_folder import RunFolder
from aevlp.training.thresholds import Thresholds, read_thresholds

if TYPE_CHECKING:
    from huggingface_hub import EvalResult

ROWS = 100  # of a table
AIMS = {"f1": "the best F1", "precision": "a precision of {:g}", "count": "as many labels as there are"}
FIGURES = {
    "macro_F1": "macro F1, with the thresholds that training chose",
    "micro_F1": "micro F1",
    "precision": "precision of the labels given",
    "recall": "recall of the labels given",
    "macro_F1_at_half": "macro F1 with 0.5 as the threshold",
}
SPLITS = {"train": "training", "val": "validation"}
LOAD = """\
import aevlp

model = aevlp.load("path/to/this/folder")
print(model.predict(["photo.jpg"]))  # [{class name: probability}]
"""
GIVEN = """\
print(model.labels(["photo.jpg"]))  # [[class name]], by the thresholds
"""
OF_FEATURES = """\
import numpy

import aevlp

model = aevlp.load("path/to/this/folder")
features = numpy.load("features.npz")["features"]  # [N, {width}], computed as for training
print(model.predict(features))  # [{{class name: probability}}]
"""
PIPELINE = """\
from transformers import pipeline

classify = pipeline("image-classification", model="path/to/this/folder", function_to_apply="sigmoid", top_k={count})
found = classify("photo.jpg")  # [{{"label": class name, "score": probability}}], the most probable first
"""
IMPORTS = "import json\nfrom pathlib import Path\n\n"
LABELS = """\
thresholds = json.loads(Path("path/to/this/folder/thresholds.json").read_text(encoding="utf-8"))["classes"]
print([each["label"] for each in found if each["score"] >= thresholds[each["label"]]])
"""


@dataclass(frozen=True)
class Facts:
    """What the files of a run say; of an older run some may be missing."""

    name: str
    classes: list[str]
    has_own_head: bool
    width: int | None  # of the features that it takes; None: it takes images
    result: dict[str, Any]
    options: dict[str, Any]  # key -> value, of config.yaml
    thresholds: Thresholds | None

    @property
    def method(self) -> str:
        """The method's name."""
        return str(self.result.get("method") or self.options.get("method") or "aevlp")

    @property
    def data(self) -> str | None:
        """What the image set is called; None if that was not recorded."""
        return last_name(self.result.get("data") or "") or None

    @property
    def tested(self) -> bool:
        """Whether there was a test split."""
        return self.result.get("mAP") is not None

    @property
    def has_complete_validation(self) -> bool:
        """Whether all labels of the validation images are known."""
        return bool(self.result.get("val_labels", "complete") == "complete")


def write_card(run: RunFolder) -> None:
    """Writes `README.md` into the run's model folder, from its figures, thresholds and options."""
    facts = _facts(run)
    parts = [
        _front_matter(facts),
        f"# {escape(facts.name)}\n\n{_introduction(facts)}",
        f"## Data\n\n{_data(facts)}",
        f"## Training\n\n{_training(facts)}",
        f"## Figures\n\n{_figures(facts)}",
        f"## Thresholds\n\n{_thresholds(facts)}",
        f"## How to use it\n\n{_usage(facts)}",
        f"## Limits\n\n{_limits(facts)}",
        f"## Citation\n\n{_citation(facts)}",
    ]
    text = "\n\n".join(parts) + "\n"
    # Folder names need not be UTF-8, and class names may come from them; a card that is not cannot be read.
    write_text(run.card, text.encode(errors="replace").decode())


def _facts(run: RunFolder) -> Facts:
    config = read_json(run.model / "config.json")
    names: dict[str, str] = config["id2label"]
    classes = [names[str(i)] for i in range(len(names))]
    return Facts(
        name=run.path.resolve().name,
        classes=classes,
        has_own_head=config.get("model_type") == OWN_TYPE,
        width=config[OWN_TYPE][WIDTH] if takes_features(config) else None,
        result=run.read_result() or {},
        options=read_recipe(run.config),
        thresholds=read_thresholds(run.thresholds, classes) if run.thresholds.is_file() else None,
    )


def _front_matter(facts: Facts) -> str:
    """The YAML that the hub reads."""
    from huggingface_hub import ModelCardData

    backbone = str(facts.options.get("model.backbone", "")) if facts.width is None else ""
    measured = _eval_results(facts)
    data = ModelCardData(
        library_name="aevlp" if facts.has_own_head else "transformers",
        pipeline_tag="image-classification",
        base_model=backbone if is_hub_name(backbone) else None,
        tags=["multi-label", "single-positive", "aevlp", facts.method],
        model_name=facts.name if measured else None,
        eval_results=measured or None,
    )
    return f"---\n{data.to_yaml()}\n---"


def _eval_results(facts: Facts) -> list[EvalResult]:
    """The test figures as the hub lists them."""
    from huggingface_hub import EvalResult

    labels = facts.result.get("labels") or {}
    measured = [
        ("mean_average_precision", "mAP", facts.result.get("mAP")),
        ("f1", "macro F1", labels.get("macro_F1")),
        ("f1", "micro F1", labels.get("micro_F1")),
    ]
    return [
        EvalResult(
            task_type="image-classification",
            task_name="Multi-label image classification",
            dataset_type="imagefolder",
            dataset_name=facts.data or "unnamed",
            dataset_split="test",
            metric_type=kind,
            metric_name=f"{name} (percent)",
            metric_value=round(value, 2),
        )
        for kind, name, value in measured
        if value is not None
    ]


def _introduction(facts: Facts) -> str:
    classes = counted(len(facts.classes), "class", "classes")
    known = "with all their labels" if _trains_on_truth(facts) else "of which not all labels were known"
    lines = [
        f"An image classifier that says of each of {classes} whether an image shows it.",
        f"It was trained by aevlp from images {known}.",
    ]
    if facts.width is not None:
        lines.append(
            f"It sees no image but features of it, {facts.width:,} numbers that something else must compute: only aevlp loads "
            "this folder, or ONNX Runtime what `aevlp export` makes of it."
        )
    elif facts.has_own_head:
        lines.append(
            "Its head is one of aevlp's own: only aevlp loads this folder, or ONNX Runtime what `aevlp export` makes of it."
        )
    return "\n".join(lines)


def _data(facts: Facts) -> str:
    images = facts.result.get("images") or {}
    parts = ", ".join(f"{SPLITS.get(name, name)} {number:,}" for name, number in images.items())
    lines = [f"Image set: {escape(facts.data or 'not recorded')}. Images: {parts or 'not recorded'}."]
    if _trains_on_truth(facts):
        lines.append("Training saw the complete labels.")
    elif facts.options.get("data.observe") == "single":
        lines.append("Training saw one label per image, drawn at random from its complete ones; all others were unknown.")
    else:
        absent = "negative" if facts.options.get("data.zeros") == "negative" else "unknown"
        lines.append(f"Training saw the labels that came with the images; a label that was not given counted as {absent}.")
    if (expected := facts.result.get("expected_positives")) is not None:
        lines.append(f"An image was expected to have {expected:.2f} labels.")
    classes = ", ".join(map(escape, facts.classes[:ROWS]))
    more = len(facts.classes) - ROWS
    return " ".join(lines) + f"\n\nClasses: {classes}{f' and {more:,} more (`id2label` in `config.json`)' if more > 0 else ''}."


def _training(facts: Facts) -> str:
    result, options = facts.result, facts.options
    method = _method(facts)
    rows = {"method": f"`{facts.method}`" + (f": {escape(method.summary)}" if method else "")}
    if facts.width is None:
        rows["backbone"] = _checkpoint(result.get("backbone") or options.get("model.backbone"))
    else:
        rows["features"] = f"{facts.width:,} numbers, of {escape(last_name(str(options.get('model.features'))))}"
    rows["mode"] = str(options.get("train.mode", "full"))
    rows["teacher"] = _checkpoint(result["teacher"]) if result.get("teacher") else "none"
    if "model.image_size" in options and facts.width is None:
        rows["images"] = "resized to {0} x {0} pixels by bicubic interpolation".format(options["model.image_size"])
    if "best_epoch" in result:
        rows["epochs"] = f"{result['epochs']}; the model is that of epoch {result['best_epoch']}"
    rows |= {name: escape(last_name(str(options[name]))) for name in ("recipe", "protocol", "seed") if name in options}
    if versions := result.get("versions"):
        rows["versions"] = ", ".join(f"{name} {version}" for name, version in versions.items())
    return table(["", ""], [[key, value] for key, value in rows.items()])


def _figures(facts: Facts) -> str:
    result = facts.result
    bound = "" if facts.has_complete_validation else " of observed labels (a lower bound)"
    rows = []
    if facts.tested:
        rows.append(["test", "mAP", result["mAP"]])
        if (present := result.get("mAP_present")) is not None and abs(present - result["mAP"]) > 1e-9:
            rows.append(["test", "mAP over the classes that have a positive", present])
        labels = result.get("labels") or {}
        rows += [["test", text, labels[name]] for name, text in FIGURES.items() if labels.get(name) is not None]
    if result.get("val_mAP") is not None:
        rows.append(["validation", f"mAP{bound}", result["val_mAP"]])
    if not rows:
        return "None were measured."
    text = table(["images", "figure", "percent"], [[where, figure, f"{value:.2f}"] for where, figure, value in rows])
    if not facts.tested:
        text += "\n\nThere was no test split: the model was chosen by the validation images, so their figure flatters it."
    pseudo = result.get("pseudo_labels") or {}
    if pseudo.get("precision") is not None and pseudo.get("recall") is not None:
        kept = f"precision {100 * pseudo['precision']:.1f} %, recall {100 * pseudo['recall']:.1f} %"
        text += f"\n\nThe pseudo-labels that it was trained with, against the complete labels: {kept}."
    return text


def _thresholds(facts: Facts) -> str:
    found = facts.thresholds
    if found is None:
        return "None yet; `aevlp thresholds RUN DATA` makes them."
    aim = AIMS.get(found.aim, found.aim).format(found.precision or 0)
    basis = "complete" if found.basis == "complete" else "incomplete, so that the thresholds are estimates"
    lines = [
        "A label is given from this probability on.",
        f"Chosen for {aim} on {found.images:,} {SPLITS.get(found.split, found.split)} images whose labels are {basis}.",
        f"For all classes together it would be {found.overall:.4f}.",
    ]
    precision = facts.result.get("per_class_AP") or {}
    header = ["class", "threshold", *(["test AP"] if precision else [])]
    rows = []
    for name, value in list(found.classes.items())[:ROWS]:
        own = precision.get(name)
        rows.append([escape(name), f"{value:.4f}", *(["-" if own is None else f"{own:.2f}"] if precision else [])])
    more = len(found.classes) - ROWS
    rest = f"\n\nand {more:,} more: `thresholds.json` in this folder has all of them." if more > 0 else ""
    return f"{' '.join(lines)}\n\n{table(header, rows)}{rest}"


def _usage(facts: Facts) -> str:
    load = LOAD if facts.width is None else OF_FEATURES.format(width=facts.width)
    given = GIVEN if facts.width is None else GIVEN.replace('["photo.jpg"]', "features")
    blocks = [("With aevlp", load if facts.thresholds is None else f"{load}{given}")]
    if not facts.has_own_head:
        plain = PIPELINE.format(count=len(facts.classes))
        blocks.append(("With transformers alone", plain if facts.thresholds is None else f"{IMPORTS}{plain}{LABELS}"))
    return "\n\n".join(f"{title}:\n\n```python\n{code}```" for title, code in blocks)


def _limits(facts: Facts) -> str:
    points = [
        "The probabilities put labels in order; they are not calibrated. With the losses of this field an absent label does not "
        "settle at 0, so 0.5 means nothing: use the thresholds."
    ]
    if not facts.has_complete_validation:
        points.append(
            "The validation labels are incomplete: figures on them are lower bounds, and thresholds from them estimates."
        )
    if facts.tested:
        where = f"the test images of {escape(facts.data)}" if facts.data else "the test images of its image set"
        points.append(f"It was tested on {where} only; on images of another kind it may do worse.")
    else:
        points.append("It was not tested on any images but those it was chosen by.")
    if facts.result.get("teacher"):
        points.append(
            "Part of its training labels came from a vision-language model, whose mistakes and biases it may have learnt."
        )
    points.append("It knows no classes but those above, and was not examined for fairness or safety.")
    return "\n".join(f"- {point}" for point in points)


def _citation(facts: Facts) -> str:
    method = _method(facts)
    papers = [] if method is None or not method.paper else [method.paper]
    version = (facts.result.get("versions") or {}).get("aevlp")
    software = f"- The aevlp authors, aevlp{f' {version}' if version else ''}: the software."
    return "\n".join([*(f"- {escape(paper)}." for paper in papers), software])


def _method(facts: Facts) -> Method | None:
    """The method; None if this installation does not know it."""
    try:
        return find_method(facts.method)
    except UserError:
        return None


def _trains_on_truth(facts: Facts) -> bool:
    method = _method(facts)
    return method is not None and method.loss.needs_truth


def _checkpoint(name: Any) -> str:
    """A checkpoint as it can be named elsewhere: a hub name with a link, of a folder its last name."""
    if name is None:
        return "not recorded"
    return f"[{name}](https://huggingface.co/{name})" if is_hub_name(name) else f"{escape(last_name(name))} (not on the hub)"


def is_hub_name(name: str) -> bool:
    """Whether a checkpoint's name is one on the hub, owner/name, and no folder here."""
    return bool(re.fullmatch(r"[\w-][\w.-]*/[\w.-]+", name)) and not Path(name).exists()


def last_name(path: str) -> str:
    """The end of a path of any system."""
    return re.split(r"[/\\]", path.rstrip("/\\"))[-1]


def counted(number: int, one: str, several: str) -> str:
    """'1 class', '1,000 classes'."""
    return f"{number:,} {one if number == 1 else several}"


def escape(text: str) -> str:
    """Text that Markdown shows as it is, on one line, in a table too."""
    line = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_\[\]|~$#!])", r"\\\1", line)


def table(header: list[str], rows: list[list[str]]) -> str:
    """A Markdown table of escaped texts."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
