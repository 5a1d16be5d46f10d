"""The result of a training, as `aevlp.train` returns it."""

from collections.abc import Mapping
from typing import Any

from aevlp.inference.predictor import TrainedModel, load
from aevlp.training.run_folder import RunFolder


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
        """The epoch whose model was kept, from 1."""
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

    def load(self, **options: Any) -> TrainedModel:
        """Return the trained model; the options are those of `aevlp.load`."""
        return load(self.folder, **options)

    def __repr__(self) -> str:
        test = "" if self.mAP is None else f", test mAP {self.mAP:.2f}"
        epochs = f"best epoch {self.best_epoch} of {self['epochs']}"
        return f"<RunResult of {self.method}: {epochs}, val mAP {self.val_mAP:.2f}{test}; folder {self.folder}>"
