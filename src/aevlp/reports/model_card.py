"""The model card: the README.md of a model folder, with what the model is, how good it is and how to use it.

With it the folder can be shared as it is, for instance with `hf upload`. So the card names no path of this machine.
"""

import re
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from huggingface_hub import EvalResult, ModelCard, ModelCardData

from aevlp.config.methods import Method, find_method
from aevlp.config.recipe import read_recipe
from aevlp.core.errors import UserError
from aevlp.core.files import read_json, short_name, write_text
from aevlp.models.heads.registry import AEVLP_MODEL_TYPE
from aevlp.models.model_folder import feature_width
from aevlp.training.run_folder import RunFolder
from aevlp.training.thresholds import Thresholds, read_thresholds

TEMPLATE = Path(__file__).parent / "templates" / "model_card.md.j2"
ROWS = 100  # of a table, at most
AIMS = {"f1": "the best F1", "precision": "a precision of {:g}", "count": "as many labels as there are positives"}
LABEL_METRICS = {
    "macro_F1": "macro F1, with the thresholds fitted in training",
    "micro_F1": "micro F1",
    "precision": "precision of the predicted labels",
    "recall": "recall of the predicted labels",
    "macro_F1_at_half": "macro F1 with 0.5 as the threshold",
}
SPLITS = {"train": "training", "val": "validation"}


@dataclass(frozen=True)
class RunFacts:
    """The content of a run's files; in runs of older versions some of it may be missing."""

    name: str
    classes: list[str]
    has_own_head: bool
    width: int | None  # of the features that the model takes; None: it takes images
    result: dict[str, Any]
    options: dict[str, Any]  # key -> value, of config.yaml
    thresholds: Thresholds | None

    @property
    def method_name(self) -> str:
        """The method's name."""
        return str(self.result.get("method") or self.options.get("method") or "aevlp")

    @property
    def method(self) -> Method | None:
        """The method; None if this installation does not know it."""
        try:
            return find_method(self.method_name)
        except UserError:
            return None

    @property
    def trains_on_truth(self) -> bool:
        """Return whether the method trains on complete labels."""
        return self.method is not None and self.method.needs_truth

    @property
    def data(self) -> str | None:
        """The name of the image set; None if it was not recorded."""
        return short_name(PurePath(self.result.get("data") or "")) or None

    @property
    def tested(self) -> bool:
        """Return whether there was a test split."""
        return self.result.get("mAP") is not None

    @property
    def has_complete_validation(self) -> bool:
        """Return whether the labels of the validation images are complete."""
        return bool(self.result.get("val_labels", "complete") == "complete")


def write_card(run: RunFolder) -> None:
    """Write `README.md` into the model folder of a run, if it has one, from its result, thresholds and options."""
    if not run.model.is_dir():
        return
    facts = _read_facts(run)
    found = facts.thresholds
    card = ModelCard.from_template(
        _card_data(facts),
        template_path=str(TEMPLATE),
        facts=facts,
        result=facts.result,
        options=facts.options,
        settings=_settings(facts),
        metrics=_metrics(facts),
        warnings=[escape(text) for text in facts.result.get("warnings") or []],
        thresholds=found,
        aim=AIMS.get(found.aim, found.aim).format(found.precision or 0) if found else None,
        splits=SPLITS,
        rows=ROWS,
        escape=escape,
    )
    # Folder names need not be valid UTF-8, and class names may come from them; the card must be.
    write_text(run.card, str(card).encode(errors="replace").decode() + "\n")


def _read_facts(run: RunFolder) -> RunFacts:
    config = read_json(run.model / "config.json")
    names: dict[str, str] = config["id2label"]
    classes = [names[str(i)] for i in range(len(names))]
    return RunFacts(
        name=run.path.resolve().name,
        classes=classes,
        has_own_head=config.get("model_type") == AEVLP_MODEL_TYPE,
        width=feature_width(config),
        result=run.read_result() or {},
        options=read_recipe(run.config),
        thresholds=read_thresholds(run.thresholds, classes) if run.thresholds.is_file() else None,
    )


def _card_data(facts: RunFacts) -> ModelCardData:
    """Return the metadata that the hub reads."""
    backbone = str(facts.options.get("model.backbone", "")) if facts.width is None else ""
    labels = facts.result.get("labels") or {}
    measured = [
        ("mean_average_precision", "mAP", facts.result.get("mAP")),
        ("f1", "macro F1", labels.get("macro_F1")),
        ("f1", "micro F1", labels.get("micro_F1")),
    ]
    results = [
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
    return ModelCardData(
        library_name="aevlp" if facts.has_own_head else "transformers",
        pipeline_tag="image-classification",
        # For the hub's widget, which can show standard models only.
        inference=False if facts.has_own_head else {"parameters": {"function_to_apply": "sigmoid"}},
        base_model=backbone if is_hub_name(backbone) else None,
        tags=["multi-label", "single-positive", "aevlp", facts.method_name],
        model_name=facts.name if results else None,
        eval_results=results or None,
    )


def _settings(facts: RunFacts) -> dict[str, str]:
    """Return names and values of the table of settings, in Markdown."""
    result, options = facts.result, facts.options
    rows = {"method": f"`{facts.method_name}`" + (f": {escape(facts.method.summary)}" if facts.method else "")}
    if facts.width is None:
        rows["backbone"] = _checkpoint(result.get("backbone") or options.get("model.backbone"))
    else:
        rows["features"] = f"{facts.width:,} numbers, of {escape(last_name(str(options.get('model.features'))))}"
    rows["mode"] = str(options.get("train.mode", "full"))
    rows["teacher"] = _checkpoint(result["teacher"]) if result.get("teacher") else "none"
    if check := result.get("teacher_check"):
        first, chance = f"{100 * check['first']:.0f} %", f"{100 * check['chance']:.0f} %"
        rows["teacher check"] = f"the tag is first in {first} of {check['images']:,} images; chance {chance}"
        if check["unseen"]:
            rows["classes that the teacher does not see"] = escape(", ".join(check["unseen"]))
    if "model.image_size" in options and facts.width is None:
        rows["images"] = "resized to {0} x {0} pixels by bicubic interpolation".format(options["model.image_size"])
    if "best_epoch" in result:
        rows["epochs"] = f"{result['epochs']}; the model is that of epoch {result['best_epoch']}"
    rows |= {name: escape(last_name(str(options[name]))) for name in ("recipe", "protocol", "seed") if name in options}
    if versions := result.get("versions"):
        rows["versions"] = ", ".join(f"{name} {version}" for name, version in versions.items())
    return rows


def _metrics(facts: RunFacts) -> list[tuple[str, str, str, float]]:
    """Return (split, name, basis, percent) of all known metrics."""
    result, rows = facts.result, []
    if facts.tested:
        rows.append(("test", "mAP", "measured", result["mAP"]))
        if (present := result.get("mAP_present")) is not None and abs(present - result["mAP"]) > 1e-9:
            rows.append(("test", "mAP over the classes that have a positive", "measured", present))
    split, labels = ("test", result.get("labels")) if facts.tested else ("validation", result.get("labels_on_val"))
    labels = labels or {}
    basis = labels.get("basis", "measured")
    if basis == "measured" and not facts.tested:
        basis = "measured on the images that the thresholds were fitted on"
    elif basis == "estimated":
        basis = f"estimated for {labels['labels_per_image']:.2f} labels per image"
    rows += [(split, text, basis, labels[name]) for name, text in LABEL_METRICS.items() if labels.get(name) is not None]
    if result.get("val_mAP") is not None:
        basis = "measured" if facts.has_complete_validation else "observed labels only: a lower bound"
        rows.append(("validation", "mAP", basis, result["val_mAP"]))
        for name, text in (("chance", "mAP of chance"), ("teacher", "mAP of its teacher alone")):
            if (value := (result.get("baselines") or {}).get(name)) is not None:
                rows.append(("validation", text, basis, value))
    return rows


def _checkpoint(name: str | None) -> str:
    """Return a checkpoint without paths of this machine: a hub name with a link, or the last part of a folder's path."""
    if name is None:
        return "not recorded"
    return f"[{name}](https://huggingface.co/{name})" if is_hub_name(name) else f"{escape(last_name(name))} (not on the hub)"


def is_hub_name(name: str) -> bool:
    """Return whether a checkpoint's name is one on the hub, owner/name, and no folder here."""
    return bool(re.fullmatch(r"[\w-][\w.-]*/[\w.-]+", name)) and not Path(name).exists()


def last_name(path: str) -> str:
    """Return the last part of a path of any operating system."""
    return re.split(r"[/\\]", path.rstrip("/\\"))[-1]


def escape(text: str) -> str:
    """Escape text for Markdown, so that it shows as it is on one line, in a table too."""
    line = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_\[\]|~$#!])", r"\\\1", line)
