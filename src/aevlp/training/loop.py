"""The training loop: one for every method, on one process or many."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from accelerate.utils import broadcast
from torch import Tensor

from aevlp.config.config import Config, TrainOptions
from aevlp.core.errors import UserError
from aevlp.core.progress import progress
from aevlp.core.seeds import seed_for
from aevlp.core.torch_threads import one_core
from aevlp.damp.quality import Quality
from aevlp.data.splits import Dataset, Split, data_fingerprint
from aevlp.losses import Loss
from aevlp.models.classifier import Classifier, build_classifier, head_of
from aevlp.models.feature_classifier import build_feature_classifier
from aevlp.models.model_folder import save_classifier
from aevlp.models.prompts import class_prompts
from aevlp.sources import Moment, Source, Task
from aevlp.training.conclusion import conclude
from aevlp.training.evaluate import evaluate_split, over_images, probabilities
from aevlp.training.features import BackboneFeatures
from aevlp.training.inputs import Sight, as_files
from aevlp.training.loader import Batches, Inputs, TrainingOrder
from aevlp.training.provenance import origin_of
from aevlp.training.results import Record, best_epoch, describe_epoch, tracker_for
from aevlp.training.run_folder import RunFolder
from aevlp.training.user_features import OwnFeatures

if TYPE_CHECKING:
    from accelerate import Accelerator

log = logging.getLogger("aevlp")


@dataclass(frozen=True)
class Parts:
    """What a training is made of."""

    labels: Tensor  # int8 [N, C]: what the loss may see
    source: Source
    classifier: Classifier
    features: OwnFeatures | None  # the user's own; the classifier is then a head alone
    origin: str  # fingerprint of these features, or of the weights that the classifier begins with


def require_fit(config: Config, data: Dataset) -> OwnFeatures | None:
    """The user's own features, if any; like a table of prompts they must fit the image set."""
    if config.method.source.asks_teacher:
        class_prompts(config.teacher.prompts, config.teacher.prompt, data.classes)
    if config.model.features is None:
        return None
    features = OwnFeatures(config.model.features)
    splits = [split for split in (data.train, data.val, data.test) if split is not None]
    for split in splits:
        features.rows(split.names, split.name)
    features.rows([name for split in splits for name in split.names])  # a file name may be that of one image in each
    return features


def gather_parts(config: Config, data: Dataset, root: Path | None, accelerator: Accelerator) -> Parts:
    """The parts of a training; whatever is wrong with them shows here, before anything is written."""
    method = config.method
    if config.train.batch_size % accelerator.num_processes:
        raise UserError(
            f"--train.batch_size {config.train.batch_size} cannot be shared by {accelerator.num_processes} processes; "
            "use a multiple of their number"
        )
    labels = training_labels(data.train, method.loss)
    features = require_fit(config, data)  # told before a model is loaded
    classifier: Classifier
    if features is None:
        classifier = build_classifier(config.model, data.classes, config.run.seed, method.head, config.head)
    else:
        classifier = build_feature_classifier(features, data.train.names, data.classes, config.run.seed, method.head, config.head)
    source = method.source.make(Task(data.train, data.classes, config, root, accelerator, data.val), config.source)
    return Parts(labels, source, classifier, features, origin_of(config.model, features))


def sights(config: Config, parts: Parts, root: Path | None, accelerator: Accelerator) -> dict[str, Sight]:
    """How the classifier is shown images in each phase of the training, "linear" and "full", of those that it has."""
    mode = config.train.mode
    found: dict[str, Sight] = {}
    if parts.features is not None:
        found["linear"] = parts.features
    elif mode != "full":
        found["linear"] = BackboneFeatures(parts.classifier, parts.origin, config, root, accelerator)
    if mode != "linear":
        found["full"] = as_files(config.model.image_size, config.train.workers)
    return found


def train(
    config: Config, data: Dataset, parts: Parts, run: RunFolder, accelerator: Accelerator, root: Path | None
) -> dict[str, Any]:
    """Trains, keeps the best epoch's model in the run folder, evaluates it on the test split and returns the result."""
    method, source, classifier = config.method, parts.source, parts.classifier
    fingerprint = data_fingerprint(data)
    state = run.load_checkpoint() or {}
    if state and state["data"] != fingerprint:
        raise UserError(f"--resume: {run.path} was started on other images, labels or classes; give the same DATA")
    if state and config.train.mode != "full" and state["origin"] != parts.origin:  # of a full training all weights are kept
        other = "other features; give the same --features" if parts.features else "other weights of its backbone; put them back"
        raise UserError(f"--resume: {run.path} was started on {other}, or choose another --out")

    if state:
        source.restore(state["source"])
    source.fill()
    expected = state["expected_positives"] if state else expected_positives(config, data, source)
    quality = None
    if method.source.name != "none" and method.source.yields == "pseudo" and data.train.truth is not None:
        quality = Quality(data.train.observed, data.train.truth)

    classifier.to(accelerator.device)
    optimizer = make_optimizer(classifier, config.train, source)
    body = classifier.body()
    learner = head_of(classifier.network) if config.train.mode == "linear" else classifier  # what a checkpoint keeps
    history: list[dict[str, Any]] = []
    if state:
        learner.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        history = state["history"]
        if quality is not None:
            quality.restore(state["quality"])
        log.info("resumed after epoch %d", len(history))
    optimizer = accelerator.prepare(optimizer)
    if state and accelerator.scaler is not None:
        accelerator.scaler.load_state_dict(state["scaler"])

    order = TrainingOrder(len(data.train.names), config.run.seed)
    shown = sights(config, parts, root, accelerator)
    tracker = tracker_for(run.path) if accelerator.is_main_process else None
    stage: Stage | None = None
    while len(history) < config.train.epochs and not should_stop(
        [line["val_mAP"] for line in history[config.warmup :]], config.train.patience, config.train.max_drop
    ):
        epoch = order.epoch = len(history) + 1
        phase = "linear" if config.train.mode == "linear" or epoch <= config.warmup else "full"
        if stage is None or stage.phase != phase:
            for parameter in body:
                parameter.requires_grad_(phase == "full")
            images, val_images = shown[phase](data.train), shown[phase](data.val)
            batches = images.batches(order, config.train.batch_size, accelerator)
            model = accelerator.prepare(classifier)
            stage = Stage(config, parts, model, optimizer, images, batches, expected, accelerator, phase)
        moment = moment_of(stage, epoch)
        source.begin(moment)
        started = time.monotonic()
        with one_core() if phase == "linear" else nullcontext():
            loss = train_epoch(stage, epoch)
        seconds = time.monotonic() - started
        if not np.isfinite(loss):
            raise UserError(
                f"epoch {epoch}: the loss is no longer a finite number; lower --train.learning_rate or "
                "--train.head_learning_rate, or use --precision fp32"
            )
        figures = quality.update(source.table.numpy()) if quality is not None else None  # of what this epoch was told
        source.end(moment)

        measured = evaluate_split(classifier, data.val, val_images, data.classes, accelerator)
        line = {
            "epoch": epoch,
            "loss": loss,
            "val_mAP": measured.mAP,
            "val_mAP_present": measured.mAP_present,
            "pseudo_labels": figures,
            "images_per_second": len(data.train.names) / seconds,
        }
        history.append(line)
        is_best = best_epoch(history) == epoch
        log.info("%s", describe_epoch(line, config.train.epochs, seconds, is_best=is_best))
        if accelerator.is_main_process:
            if is_best:
                save_classifier(classifier, run.model)
            run.save_checkpoint(
                {
                    "data": fingerprint,
                    "origin": parts.origin,
                    "history": history,
                    "expected_positives": expected,
                    "model": learner.state_dict(),
                    "optimizer": optimizer.state_dict(),
                    "scaler": accelerator.scaler.state_dict() if accelerator.scaler is not None else None,
                    "source": source.state(),
                    "quality": quality.state() if quality is not None else None,
                }
            )
            run.write_metrics(history)
            if tracker is not None:
                tracker.add(line)
        accelerator.wait_for_everyone()
    if tracker is not None:
        tracker.close()

    record = Record(history, quality, expected, source.chosen(), parts.origin)
    if accelerator.is_main_process:
        run.write_metrics(history)  # a run killed after its last checkpoint lacks the last line
    return conclude(config, data, source, run, accelerator, record, shown["full" if "full" in shown else "linear"])


def make_optimizer(classifier: Classifier, options: TrainOptions, source: Source | None = None) -> torch.optim.Optimizer:
    """The optimiser: the backbone, the head and what the source has to learn, each at a rate of its own."""
    groups = [
        {"params": classifier.body(), "lr": options.learning_rate},
        {"params": classifier.head(), "lr": options.head_learning_rate},
    ]
    if source is not None and (own := source.parameters()):
        groups.append({"params": own, "lr": source.learning_rate})
    return torch.optim.Adamax(groups) if options.optimizer == "adamax" else torch.optim.Adam(groups)


def training_labels(split: Split, loss: Loss) -> Tensor:
    """Int8 [N, C]: what the loss may see."""
    if not loss.needs_truth:
        return torch.from_numpy(split.observed)
    if split.truth is None:
        raise UserError(
            "--method full trains on complete labels, and those of the training images are not known to be: say so with "
            "--zeros negative (what is not given is absent) or --observe single (the set is fully labelled)"
        )
    return torch.from_numpy(split.truth)


def expected_positives(config: Config, data: Dataset, source: Source | None = None) -> float | None:
    """Positives that an image is expected to have: set by the user or estimated; None if the method does not ask."""
    if not config.method.wants_expected_positives or config.train.expected_positives is not None:
        return config.train.expected_positives
    if data.val.truth is not None:
        estimate, basis = float((data.val.truth == 1).sum(1).mean()), "the fully labelled validation images"
    else:
        found, basis = data.train.observed == 1, "the observed labels alone"
        if source is not None and (pseudo := source.evidence()) is not None:
            found |= (data.train.observed == 0) & (pseudo.numpy() == 1)
            basis = "the observed and the first pseudo-labels"
        estimate = float(found.sum(1).mean())
    log.info("expected positives per image: %.3f, estimated from %s (--train.expected_positives sets it)", estimate, basis)
    return estimate


@dataclass(frozen=True)
class Stage:
    """All that takes part in an epoch."""

    config: Config
    parts: Parts
    model: torch.nn.Module  # the classifier, made ready for the processes
    optimizer: torch.optim.Optimizer
    images: Inputs  # of the training split
    batches: Batches  # of those, in the order of training
    expected_positives: float | None
    accelerator: Accelerator
    phase: str = "full"  # linear: the head alone learns


def moment_of(stage: Stage, epoch: int) -> Moment:
    """What a source may know and ask in an epoch."""
    classifier, asked = stage.parts.classifier, (stage.images, stage.accelerator)
    return Moment(
        epoch,
        stage.config.train.epochs,
        stage.expected_positives,
        probabilities=lambda: torch.from_numpy(probabilities(classifier, *asked)),
        features=lambda: over_images(classifier.features, classifier, *asked),
    )


def train_epoch(stage: Stage, epoch: int) -> float:
    """One pass over the training images; the mean loss of its steps."""
    config, accelerator, source = stage.config, stage.accelerator, stage.parts.source
    loss, labels, batch_size = config.method.loss, stage.parts.labels, config.train.batch_size
    expected = {"expected_positives": stage.expected_positives} if loss.wants_expected_positives else {}
    # Dropout and the like draw from the global generator: set it by position, so that a resumed run draws the same.
    torch.manual_seed(seed_for(config.run.seed, "dropout", epoch, accelerator.process_index))
    stage.model.train()
    losses, seen = [], 0
    with progress(f"epoch {epoch} of {config.train.epochs}", len(labels)) as advance:
        for index, shown in stage.batches:
            logits = stage.model(shown)
            count = min(batch_size, len(labels) - seen)
            cells, index = _global_batch(logits, index, count, accelerator)
            tables = [labels[index]] if loss.reads is None else [labels[index], source.rows(index, cells.detach())]
            arguments = config.loss.at(epoch, config.train.epochs, cells.numel(), config.warmup)
            value = loss.function(cells, *(table.to(cells.device) for table in tables), **arguments, **expected)
            penalty = stage.parts.classifier.penalty  # of this process's images; the others have theirs
            # A process all of whose images are repeats takes part in the backward pass too: the others wait for it.
            total = value + penalty / accelerator.num_processes + 0 * logits.sum()
            # Each process holds the gradient of its own images' share; their mean is taken over the processes.
            accelerator.backward(total * accelerator.num_processes)
            stage.optimizer.step()
            stage.optimizer.zero_grad()
            losses.append(value.detach() + accelerator.reduce(penalty.detach(), reduction="mean"))
            seen += count
            advance(count)
    for buffer in stage.model.buffers():  # each process has its own running statistics: the first one's count
        broadcast(buffer)
    return float(torch.stack(losses).mean())


def _global_batch(logits: Tensor, index: Tensor, count: int, accelerator: Accelerator) -> tuple[Tensor, Tensor]:
    """Logits and indices of the whole batch, over all processes, so that a loss never depends on how it is shared.

    Gradients flow to this process's part alone. A last batch that could not be shared evenly has images repeated at its end:
    only the first `count` are its own.
    """
    if accelerator.num_processes == 1:
        return logits, index
    cells = accelerator.gather(logits.detach()).clone()
    first = accelerator.process_index * len(logits)
    cells[first : first + len(logits)] = logits
    return cells[:count], accelerator.gather(index.to(logits.device))[:count].cpu()


def should_stop(values: Sequence[float], patience: int | None, max_drop: float | None) -> bool:
    """Whether training ends after validation mAPs `values`.

    It does after `patience` epochs without a new best, or when the last is more than `max_drop` under the best; None: never.
    """
    if not values:
        return False
    best = max(values)
    is_late = patience is not None and len(values) - 1 - values.index(best) >= patience
    return is_late or (max_drop is not None and best - values[-1] > max_drop)
