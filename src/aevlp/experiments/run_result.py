"""The result of a training, as `aevlp.train` returns it."""

from collections.abc import Mapping
from html import escape
from typing import Any

from aevlp.inference.predictor import TrainedModel, load
from aevlp.reports.evidence import read_evidence
from aevlp.reports.pictures import SIDE, thumbnail
from aevlp.training.run_folder import RunFolder

SAMPLES = 6  # images that a notebook shows


class RunResult(dict[str, Any]):
    """The content of `result.json`, its main figures as attributes, and the files of the run. A notebook shows it as a page."""

    def __init__(self, content: Mapping[str, Any], folder: RunFolder) -> None:
        super().__init__(content)
        self.folder = folder.path
        """The run folder."""
        self.report = folder.report if folder.report.is_file() else None
        """The page about the run; None if it was not written."""

    @property
    def method(self) -> str:
        """The name of the method."""
        return str(self["method"])

    @property
    def best_epoch(self) -> int:
        """The epoch whose model was kept, from 1; 0: nothing was trained."""
        return int(self["best_epoch"])

    @property
    def mAP(self) -> float | None:
        """Test mAP in percent; None without a test split."""
        return None if self["mAP"] is None else float(self["mAP"])

    @property
    def val_mAP(self) -> float:
        """Validation mAP of the best epoch in percent: a lower bound where the validation labels are incomplete."""
        return float(self["val_mAP"])

    @property
    def per_class_AP(self) -> dict[str, float | None] | None:
        """Class name -> test average precision in percent; None for a class without a positive, or without a test split."""
        found: dict[str, float | None] | None = self["per_class_AP"]
        return found

    @property
    def warnings(self) -> list[str]:
        """The reasons not to rely on this model, as sentences; none for a good one."""
        return list(self.get("warnings") or [])

    def load(self, **options: Any) -> TrainedModel:
        """Return the trained model; the options are those of `aevlp.load`."""
        return load(self.folder, **options)

    def __repr__(self) -> str:
        test = "" if self.mAP is None else f", test mAP {self.mAP:.2f}"
        epochs = f"best epoch {self.best_epoch} of {self['epochs']}" if self["epochs"] else "nothing trained"
        warned = "".join(f"; warning: {text}" for text in self.warnings)
        return (
            f"<RunResult of {self.method}: {epochs}, val mAP {self.val_mAP:.2f}{self._bound}{test}; folder {self.folder}{warned}>"
        )

    def _repr_html_(self) -> str:
        """Return the figures, a few images with a label that the model found, and a link to the report, for notebooks."""
        figures = {
            **({"warning": " ".join(self.warnings)} if self.warnings else {}),
            "method": self.method,
            "best epoch": f"{self.best_epoch} of {self['epochs']}" if self["epochs"] else "-",
            "validation mAP": f"{self.val_mAP:.2f}{self._bound}",
            "test mAP": "-" if self.mAP is None else f"{self.mAP:.2f}",
            "folder": str(self.folder),
        }
        rows = "".join(f"<tr><th>{name}</th><td>{escape(value)}</td></tr>" for name, value in figures.items())
        link = f'<a href="{escape(self.report.absolute().as_uri())}">report</a>' if self.report else "no report was written"
        samples = "".join(f"<figure>{image}<figcaption>{escape(label)}</figcaption></figure>" for image, label in self._samples())
        return f'<table>{rows}</table><div style="display:flex;flex-wrap:wrap;gap:8px">{samples}</div><p>{link}</p>'

    @property
    def _bound(self) -> str:
        return "" if self["val_labels"] == "complete" else " (of observed labels: a lower bound)"

    def _samples(self) -> list[tuple[str, str]]:
        """Return (image element, found label) of the first examples of the report whose files can still be read."""
        if not (file := RunFolder(self.folder).evidence).is_file():
            return []
        shown = [(thumbnail(example.path, SIDE), example.label) for example in read_evidence(file).found.examples[:SAMPLES]]
        return [(f'<img src="{picture.uri}" alt="">', label) for picture, label in shown if picture.uri is not None]
