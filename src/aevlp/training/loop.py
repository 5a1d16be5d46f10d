"""The training loop: one for every method, on one process or many."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.utils import broadcast
from torch import Tensor

from aevlp.config.config import Config
from aevlp.core.errors import UserError
from aevlp.core.progress import progress
from aevlp.core.seeds import seed_for
from aevlp.core.torch_threads import single_thread
from aevlp.models.model_folder import save_classifier
from aevlp.models.safe_loading import not_finite
from aevlp.sources import EpochContext
from aevlp.training.checkpoint import save_checkpoint
from aevlp.training.evaluate import evaluate_split, over_images, probabilities
from aevlp.training.features import BackboneFeatures
from aevlp.training.inputs import Batches, InputFactory, Inputs, TrainingOrder, as_files
from aevlp.training.run_folder import RunFolder
from aevlp.training.setup import TrainingSetup
from aevlp.training.state import TrainState, best_epoch, describe_epoch, resume_or_start

log = logging.getLogger("aevlp")
Track = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class Phase:
    """Consecutive epochs that train the same parameters on the same kind of input."""

    name: Literal["linear", "full"]  # linear: only the head learns
    last_epoch: int
    inputs: InputFactory


def train(setup: TrainingSetup, run: RunFolder, track: Track = lambda record: None) -> tuple[TrainState, InputFactory]:
    """Train to the end; the run folder keeps the best epoch's model.

    Return the final state and the kind of input that the trained classifier takes. `track` gets each line of metrics.
    """
    state = resume_or_start(setup, run)
    stages = phases(setup)
    for phase in stages:
        train_phase(state, phase, run, track)
    if setup.accelerator.is_main_process:
        run.write_metrics(state.history)  # a run killed after its last checkpoint lacks the last line
    return state, stages[-1].inputs


def phases(setup: TrainingSetup) -> list[Phase]:
    """Return the phases of a training: the head alone, the whole classifier, or one after the other."""
    config, options = setup.config, setup.config.train
    files = as_files(config.model.image_size, options.workers)
    if options.mode == "full":
        return [Phase("full", options.epochs, files)]
    features: InputFactory = setup.features or BackboneFeatures(
        setup.classifier, setup.origin, config, setup.store_root, setup.accelerator
    )
    if options.mode == "linear":
        return [Phase("linear", options.epochs, features)]
    return [Phase("linear", config.warmup, features), Phase("full", options.epochs, files)]


def train_phase(state: TrainState, phase: Phase, run: RunFolder, track: Track) -> None:
    """Train the epochs of a phase that are still to do, saving a checkpoint after each."""
    config, source = state.setup.config, state.setup.source
    if finished(state, phase, config):
        return
    learning = Learning.of(state, phase)
    while not finished(state, phase, config):
        epoch = learning.order.epoch = state.epoch + 1
        context = learning.context(epoch)
        source.begin_epoch(context)
        started = time.monotonic()
        with single_thread() if phase.name == "linear" else nullcontext():
            loss = train_epoch(learning, epoch)
        seconds = time.monotonic() - started
        if not np.isfinite(loss) or not_finite(state.setup.classifier) is not None:
            what = "weights are no longer finite numbers" if np.isfinite(loss) else "loss is no longer a finite number"
            raise UserError(
                f"epoch {epoch}: the {what}; lower --train.learning_rate or --train.head_learning_rate, or use --precision fp32"
            )
        figures = state.quality.update(source.pseudo_labels().numpy()) if state.quality is not None else None
        source.end_epoch(context)
        record = validate(learning, epoch, loss, figures, seconds)
        state.history.append(record)
        save(run, state, seconds)
        track(record)
        state.setup.accelerator.wait_for_everyone()


def finished(state: TrainState, phase: Phase, config: Config) -> bool:
    """Return whether a phase has done its last epoch, or validation has stopped improving since the linear warm-up."""
    values = [line["val_mAP"] for line in state.history[config.warmup :]]
    return state.epoch >= phase.last_epoch or should_stop(values, config.train.patience, config.train.max_drop)


def should_stop(values: Sequence[float], patience: int | None, max_drop: float | None) -> bool:
    """Return whether training ends after validation mAPs `values`.

    It ends after `patience` epochs without a new best, or when the last is more than `max_drop` under the best; None: never.
    """
    if not values:
        return False
    best = max(values)
    is_late = patience is not None and len(values) - 1 - values.index(best) >= patience
    return is_late or (max_drop is not None and best - values[-1] > max_drop)


@dataclass(frozen=True)
class Learning:
    """A phase in progress: the state, and the inputs that its epochs share."""

    state: TrainState
    model: torch.nn.Module  # the classifier, wrapped for the processes
    order: TrainingOrder
    train_inputs: Inputs
    val_inputs: Inputs
    batches: Batches  # of the training inputs, in `order`

    @classmethod
    def of(cls, state: TrainState, phase: Phase) -> Learning:
        """Begin or continue a phase: freeze or free the backbone, and make the inputs."""
        setup = state.setup
        for parameter in setup.classifier.body():
            parameter.requires_grad_(phase.name == "full")
        train_inputs, val_inputs = phase.inputs(setup.data.train), phase.inputs(setup.data.val)
        order = TrainingOrder(len(setup.data.train.names), setup.config.run.seed)
        batches = train_inputs.batches(order, setup.config.train.batch_size, setup.accelerator)
        return cls(state, setup.accelerator.prepare(setup.classifier), order, train_inputs, val_inputs, batches)

    def context(self, epoch: int) -> EpochContext:
        """Return what a source may know and ask in an epoch."""
        setup = self.state.setup
        asked = (setup.classifier, self.train_inputs, setup.accelerator)
        return EpochContext(
            epoch,
            setup.config.train.epochs,
            self.state.expected_positives,
            probabilities=lambda: torch.from_numpy(probabilities(*asked)),
            features=lambda: over_images(setup.classifier.features, *asked),
        )


def train_epoch(learning: Learning, epoch: int) -> float:
    """Take one pass over the training images and return the mean loss of its steps."""
    state, model = learning.state, learning.model
    setup, optimizer = state.setup, state.optimizer
    config, accelerator, labels = setup.config, setup.accelerator, setup.labels
    loss = config.method.loss
    assert loss is not None
    expected = {"expected_positives": state.expected_positives} if loss.wants_expected_positives else {}
    # Dropout and the like draw from the global generator: seed it by position, so that a resumed run draws the same.
    torch.manual_seed(seed_for(config.run.seed, "dropout", epoch, accelerator.process_index))
    model.train()
    # One tensor for all steps: a small one kept after each step would hold the freed memory of the step in pieces.
    losses, seen = torch.zeros(-(-len(labels) // config.train.batch_size), device=accelerator.device), 0
    with progress(f"epoch {epoch} of {config.train.epochs}", len(labels)) as advance:
        for index, shown in learning.batches:
            logits = model(shown)
            count = min(config.train.batch_size, len(labels) - seen)
            cells, index = _global_batch(logits, index, count, accelerator)
            tables = [labels[index]] if loss.reads is None else [labels[index], setup.source.rows(index, cells.detach())]
            arguments = config.loss.at(epoch, config.train.epochs, cells.numel(), config.warmup)
            value = loss.function(cells, *(table.to(cells.device) for table in tables), **arguments, **expected)
            penalty = setup.classifier.penalty  # of this process's images; the others have theirs
            # A process whose images are all repeats joins the backward pass too: the others wait for it.
            total = value + penalty / accelerator.num_processes + 0 * logits.sum()
            # Each process holds the gradient of its own images' share; the processes average them.
            accelerator.backward(total * accelerator.num_processes)
            optimizer.step()
            optimizer.zero_grad()
            losses[seen // config.train.batch_size] = value.detach() + accelerator.reduce(penalty.detach(), reduction="mean")
            seen += count
            advance(count)
    for buffer in model.buffers():  # each process has its own running statistics: all take those of the first
        broadcast(buffer)
    return float(losses.mean())


def _global_batch(logits: Tensor, index: Tensor, count: int, accelerator: Accelerator) -> tuple[Tensor, Tensor]:
    """Return logits and indices of the whole batch, over all processes, so that a loss does not depend on how it is shared.

    Gradients flow to this process's part alone. A last batch that cannot be shared evenly has images repeated at its end:
    only the first `count` are its own.
    """
    if accelerator.num_processes == 1:
        return logits, index
    cells = accelerator.gather(logits.detach()).clone()
    first = accelerator.process_index * len(logits)
    cells[first : first + len(logits)] = logits
    return cells[:count], accelerator.gather(index.to(logits.device))[:count].cpu()


def validate(
    learning: Learning, epoch: int, loss: float, pseudo_labels: dict[str, float | None] | None, seconds: float
) -> dict[str, Any]:
    """Evaluate the classifier on the validation images and return the epoch's line of `metrics.jsonl`."""
    setup = learning.state.setup
    metrics = evaluate_split(setup.classifier, setup.data.val, learning.val_inputs, setup.data.classes, setup.accelerator)
    return {
        "epoch": epoch,
        "loss": loss,
        "val_mAP": metrics.mAP,
        "val_mAP_present": metrics.mAP_present,
        "pseudo_labels": pseudo_labels,
        "images_per_second": len(setup.data.train.names) / seconds,
    }


def save(run: RunFolder, state: TrainState, seconds: float) -> None:
    """Log the last epoch; write the model if it is the best so far, then the checkpoint that says so, then the metrics."""
    is_best = best_epoch(state.history) == state.epoch
    log.info("%s", describe_epoch(state.history[-1], state.setup.config.train.epochs, seconds, is_best=is_best))
    if not state.setup.accelerator.is_main_process:
        return
    run.require_there()
    if is_best:
        save_classifier(state.setup.classifier, run.model)
    save_checkpoint(run.checkpoint, state.state_dict())
    run.write_metrics(state.history)
