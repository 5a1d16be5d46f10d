"""The training loop: one for every method, on one process or many."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from accelerate.utils import broadcast
from torch import Tensor

from aevlp.config import Config, TrainOptions
from aevlp.damp.quality import Quality
from aevlp.data.fingerprint import set_fingerprint
from aevlp.data.splits import Dataset, Split
from aevlp.errors import UserError
from aevlp.evaluate import evaluate_split
from aevlp.loader import ImageBatches, TrainingOrder
from aevlp.losses import Loss
from aevlp.losses.registry import LossOptions
from aevlp.methods import Method, find_method
from aevlp.model import Classifier, build_classifier, load_classifier, save_classifier
from aevlp.progress import progress
from aevlp.results import best_epoch, describe_epoch, summarize, tracker_for
from aevlp.runs import RunFolder
from aevlp.seeds import seed_for
from aevlp.sources import Source

if TYPE_CHECKING:
    from accelerate import Accelerator

log = logging.getLogger("aevlp")


@dataclass(frozen=True)
class Parts:
    """What a training is made of."""

    method: Method
    labels: Tensor  # int8 [N, C]: what the loss may see
    source: Source
    classifier: Classifier


def gather_parts(config: Config, data: Dataset, root: Path | None, accelerator: Accelerator) -> Parts:
    """The parts of a training; whatever is wrong with them shows here, before anything is written."""
    method = find_method(config.method)
    if config.train.batch_size % accelerator.num_processes:
        raise UserError(
            f"--train.batch_size {config.train.batch_size} cannot be shared by {accelerator.num_processes} processes; "
            "use a multiple of their number"
        )
    labels = training_labels(data.train, method.loss)
    classifier = build_classifier(config.model, data.classes, config.run.seed)
    return Parts(method, labels, make_source(method, config, data, root, accelerator), classifier)


def train(config: Config, data: Dataset, parts: Parts, run: RunFolder, accelerator: Accelerator) -> dict[str, Any]:
    """Trains, keeps the best epoch's model in the run folder, evaluates it on the test split and returns the result."""
    method, source, classifier = parts.method, parts.source, parts.classifier
    fingerprint = data_fingerprint(data)
    state = run.load_checkpoint() or {}
    if state and state["data"] != fingerprint:
        raise UserError(f"--resume: {run.path} was started on other images, labels or classes; give the same DATA")

    if state:
        source.restore(state["source"])
    source.fill()
    loss_options = method.loss.options(**state["loss"]) if state else with_expected_positives(config.loss, data, source)
    quality = None
    if method.source != "none" and data.train.truth is not None:
        quality = Quality(data.train.observed, data.train.truth)

    optimizer = adam(classifier, config.train)
    history: list[dict[str, Any]] = []
    if state:
        classifier.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        history = state["history"]
        if quality is not None:
            quality.restore(state["quality"])
        log.info("resumed after epoch %d", len(history))
    model, optimizer = accelerator.prepare(classifier, optimizer)
    if state and accelerator.scaler is not None:
        accelerator.scaler.load_state_dict(state["scaler"])

    order = TrainingOrder(len(data.train.names), config.run.seed)
    images = ImageBatches(
        data.train.paths, config.model.image_size, order, config.train.batch_size, config.train.workers, accelerator
    )
    tracker = tracker_for(run.path) if accelerator.is_main_process else None
    while len(history) < config.train.epochs and not should_stop(
        [line["val_mAP"] for line in history], config.train.patience, config.train.max_drop
    ):
        epoch = order.epoch = len(history) + 1
        pseudo = source.labels(epoch)
        started = time.monotonic()
        loss = train_epoch(config, method.loss, loss_options, model, optimizer, images, parts.labels, pseudo, epoch, accelerator)
        seconds = time.monotonic() - started
        if not np.isfinite(loss):
            raise UserError(
                f"epoch {epoch}: the loss is no longer a finite number; lower --train.learning_rate or "
                "--train.head_learning_rate, or use --precision fp32"
            )

        measured = evaluate_split(classifier, data.val, data.classes, config.train.workers, accelerator)
        line = {
            "epoch": epoch,
            "loss": loss,
            "val_mAP": measured.mAP,
            "val_mAP_present": measured.mAP_present,
            "pseudo_labels": quality.update(pseudo.numpy()) if quality is not None else None,
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
                    "history": history,
                    "loss": vars(loss_options),
                    "model": classifier.state_dict(),
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

    best = load_classifier(run.model).to(accelerator.device)
    tested = evaluate_split(best, data.test, data.classes, config.train.workers, accelerator) if data.test is not None else None
    result = summarize(config, data, history, tested, quality, loss_options)
    if accelerator.is_main_process:
        run.write_metrics(history)  # a run killed after its last checkpoint lacks the last line
        run.write_result(result)
    accelerator.wait_for_everyone()
    return result


def adam(classifier: Classifier, options: TrainOptions) -> torch.optim.Adam:
    """The optimiser: the backbone and the head at rates of their own."""
    return torch.optim.Adam(
        [
            {"params": classifier.body(), "lr": options.learning_rate},
            {"params": classifier.head(), "lr": options.head_learning_rate},
        ]
    )


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


def make_source(method: Method, config: Config, data: Dataset, root: Path | None, accelerator: Accelerator) -> Source:
    """The method's source of pseudo-labels."""
    if method.source == "none":
        from aevlp.sources.none import NoSource

        return NoSource(*data.train.observed.shape)
    from aevlp.sources.damp import DampSource

    return DampSource(data.train, data.classes, config, root, accelerator)


def with_expected_positives(options: LossOptions, data: Dataset, source: Source) -> LossOptions:
    """The options with the expected number of positives per image estimated, where the loss wants one and none is set."""
    if getattr(options, "expected_positives", 0.0) is not None:
        return options
    if data.val.truth is not None:
        estimate, basis = float((data.val.truth == 1).sum(1).mean()), "the fully labelled validation images"
    else:
        found = (data.train.observed == 1) | ((data.train.observed == 0) & (source.labels(1).numpy() == 1))
        estimate, basis = float(found.sum(1).mean()), "the observed and the first pseudo-labels"
    log.info("expected positives per image: %.3f, estimated from %s (--loss.expected_positives sets it)", estimate, basis)
    return type(options)(**{**vars(options), "expected_positives": estimate})


def train_epoch(
    config: Config,
    loss: Loss,
    options: LossOptions,
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    images: ImageBatches,
    labels: Tensor,
    pseudo: Tensor,
    epoch: int,
    accelerator: Accelerator,
) -> float:
    """One pass over the training images; the mean loss of its steps."""
    # Dropout and the like draw from the global generator: set it by position, so that a resumed run draws the same.
    torch.manual_seed(seed_for(config.run.seed, "dropout", epoch, accelerator.process_index))
    arguments = options.at(epoch, config.train.epochs)
    model.train()
    losses, seen = [], 0
    with progress(f"epoch {epoch} of {config.train.epochs}", len(labels)) as advance:
        for index, pixels in images:
            logits = model(pixels)
            count = min(config.train.batch_size, len(labels) - seen)
            cells, index = _global_batch(logits, index, count, accelerator)
            tables = (labels, pseudo) if loss.reads_pseudo else (labels,)
            value = loss.function(cells, *(table[index].to(cells.device) for table in tables), **arguments)
            # A process all of whose images are repeats takes part in the backward pass too: the others wait for it.
            value = value + 0 * logits.sum()
            # Each process holds the gradient of its own images' share; their mean is taken over the processes.
            accelerator.backward(value * accelerator.num_processes)
            optimizer.step()
            optimizer.zero_grad()
            losses.append(value.detach())
            seen += count
            advance(count)
    for buffer in model.buffers():  # each process has its own running statistics: the first one's count
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


def should_stop(values: Sequence[float], patience: int, max_drop: float) -> bool:
    """Whether training ends after validation mAPs `values`.

    It does after `patience` epochs without a new best, or when the last is more than `max_drop` under the best.
    """
    if not values:
        return False
    best = max(values)
    return len(values) - 1 - values.index(best) >= patience or best - values[-1] > max_drop


def data_fingerprint(data: Dataset) -> str:
    """Names the images, labels and classes of a data set."""
    parts = [set_fingerprint(data.classes, ["class"] * len(data.classes))]
    for split in (data.train, data.val, data.test):
        if split is not None:
            parts += [split.name, set_fingerprint(split.names, split.digests), blake2b(split.observed.tobytes()).hexdigest()]
    return " ".join(parts)
