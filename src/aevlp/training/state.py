"""The state of a training: everything that changes from epoch to epoch, and so everything that a checkpoint holds."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from accelerate.utils import gather_object
from torch import nn

from aevlp.core.errors import UserError, one_line
from aevlp.core.json_types import from_json
from aevlp.core.progress import duration
from aevlp.damp.quality import Quality
from aevlp.data.dataset import data_fingerprint, names_content
from aevlp.models.classifier import head_of
from aevlp.training.checkpoint import load_checkpoint
from aevlp.training.run_folder import RunFolder
from aevlp.training.run_records import Epoch
from aevlp.training.setup import TrainingSetup, expected_positives, make_optimizer

PARTS = {"data", "origin", "history", "expected_positives", "model", "optimizer", "scaler", "source", "quality"}
"""Keys of a checkpoint."""
ANEW = "start anew with --overwrite"

log = logging.getLogger("aevlp")


@dataclass
class TrainState:
    """A training after some epochs."""

    setup: TrainingSetup
    fingerprint: str  # of the images, labels and classes
    expected_positives: float | None
    quality: Quality | None  # of the pseudo-labels, where the true labels are known
    optimizer: torch.optim.Optimizer
    history: list[dict[str, Any]] = field(default_factory=list)  # a line of metrics.jsonl per finished epoch

    @property
    def epoch(self) -> int:
        """Finished epochs."""
        return len(self.history)

    @property
    def learner(self) -> nn.Module:
        """The weights that a checkpoint keeps: in linear mode the backbone never changes."""
        setup = self.setup
        return head_of(setup.classifier.network) if setup.config.train.mode == "linear" else setup.classifier

    def state_dict(self) -> dict[str, Any]:
        """Return the content of a checkpoint."""
        scaler = self.setup.accelerator.scaler
        return {
            "data": self.fingerprint,
            "origin": self.setup.origin,
            "history": self.history,
            "expected_positives": self.expected_positives,
            "model": self.learner.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scaler": None if scaler is None else scaler.state_dict(),
            "source": self.setup.source.state_dict(),
            "quality": None if self.quality is None else self.quality.state_dict(),
        }

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Continue from a checkpoint. The source has taken its own part before the store was filled."""
        self.learner.load_state_dict(saved["model"])
        self.optimizer.load_state_dict(saved["optimizer"])
        self.history = saved["history"]
        if self.quality is not None:
            self.quality.load_state_dict(saved["quality"])
        if (scaler := self.setup.accelerator.scaler) is not None:
            scaler.load_state_dict(saved["scaler"])


def resume_or_start(setup: TrainingSetup, run: RunFolder) -> TrainState:
    """Return the state of the run's last checkpoint, or a new one; the source is filled and everything is on the device."""
    config, data, source = setup.config, setup.data, setup.source
    fingerprint, saved = data_fingerprint(setup.data), load_checkpoint(run.checkpoint)
    if saved is not None:
        _require_parts(saved, run)
    _require_same_epoch(0 if saved is None else len(saved["history"]), run)
    if saved is not None:
        _require_same_start(saved, setup, fingerprint, run)
        with _fitting(run):
            source.load_state_dict(saved["source"])
    source.fill()
    expected = expected_positives(config, data, source) if saved is None else saved["expected_positives"]
    has_labels = config.method.source.has_pseudo_labels
    quality = Quality(data.train.observed, data.train.truth) if has_labels and data.train.truth is not None else None
    setup.classifier.to(setup.accelerator.device)
    optimizer = setup.accelerator.prepare(make_optimizer(setup.classifier, config.train, source))
    state = TrainState(setup, fingerprint, expected, quality, optimizer)
    if saved is not None:
        with _fitting(run):
            state.load_state_dict(saved)
        log.info("resumed after epoch %d", state.epoch)
    return state


def _require_parts(saved: dict[str, Any], run: RunFolder) -> None:
    """Refuse a file that is not the checkpoint of a training."""
    try:
        if missing := sorted(PARTS - saved.keys()):
            raise ValueError(f"{missing[0]} is missing")
        from_json(saved["history"], list[Epoch], "history")
        from_json(saved["data"], str, "data")
    except ValueError as error:
        raise UserError(f"--resume: {run.checkpoint} is not the checkpoint of a training ({error}); {ANEW}") from None


@contextmanager
def _fitting(run: RunFolder) -> Iterator[None]:
    """Within it, an error means that a checkpoint is of another training."""
    try:
        yield
    except (AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError) as error:
        raise UserError(f"--resume: {run.checkpoint} does not fit this training ({one_line(error)}); {ANEW}") from error


def _require_same_epoch(epoch: int, run: RunFolder) -> None:
    """Refuse to go on if the processes found different checkpoints: they would train different epochs together."""
    if len(epochs := sorted(set(gather_object([epoch])))) > 1:
        raise UserError(
            f"{run.path}: some processes found the checkpoint of epoch {epochs[-1]} there, and others that of epoch {epochs[0]}; "
            "put it on a file system that all machines share, or start again if it is one"
        )


def _require_same_start(saved: dict[str, Any], setup: TrainingSetup, fingerprint: str, run: RunFolder) -> None:
    """Refuse a checkpoint of other images or, unless it holds all weights, of another backbone or other features."""
    if not names_content(saved["data"]):
        raise UserError(
            f"--resume: {run.path} was started by version 0.6.0 or older, whose views were drawn by the images' names; "
            "finish it with that version, or start a new run"
        )
    run.require_same_data(saved["data"], fingerprint)
    if setup.config.train.mode != "full" and saved["origin"] != setup.origin:
        other = "other features; give the same --features" if setup.features else "other weights of its backbone; put them back"
        raise UserError(f"--resume: {run.path} was started on {other}, or choose another --out")


def best_epoch(history: Sequence[dict[str, Any]]) -> int:
    """Return the epoch with the best validation mAP, the first of equals."""
    values = [line["val_mAP"] for line in history]
    return values.index(max(values)) + 1


def describe_epoch(line: dict[str, Any], epochs: int, seconds: float, *, is_best: bool) -> str:
    """Describe an epoch in one line."""
    text = f"epoch {line['epoch']} of {epochs}: loss {line['loss']:.4f}, val mAP {line['val_mAP']:.2f}"
    if line["pseudo_labels"] is not None:
        figures = line["pseudo_labels"]
        shown = [f"{100 * figures[k]:.1f}" if figures[k] is not None else "-" for k in ("epoch_precision", "epoch_recall")]
        text += f", pseudo-labels precision {shown[0]} recall {shown[1]}"
    return f"{text}, {line['images_per_second']:.0f} images/s, {duration(seconds)}{', best so far' if is_best else ''}"
