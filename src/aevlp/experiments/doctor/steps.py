"""The steps of the checks, each called in a process of its own with the demo's models and a few of its scenes.

A step returns what was seen, in a line; it raises `Wrong` if that is not as it should be.
"""

from __future__ import annotations

import os
import platform
import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator

from aevlp.config.config import Config, build_config
from aevlp.config.recipe import read_recipe, recipe_file
from aevlp.core.engine import make_accelerator
from aevlp.core.files import read_json, write_json
from aevlp.core.processes import EngineOptions
from aevlp.damp.options import DampOptions
from aevlp.damp.scoring import Scorer
from aevlp.damp.views import ViewSettings
from aevlp.data.dataset import Dataset
from aevlp.data.load import load
from aevlp.experiments.bench.baselines import BareStep, bare_teacher
from aevlp.experiments.bench.measurement import side_by_side
from aevlp.experiments.bench.run import PACKAGES, cpu_name
from aevlp.experiments.demo.scenes import write_world
from aevlp.models.classifier import build_classifier
from aevlp.models.teacher import load_teacher
from aevlp.store.fill import Job
from aevlp.store.inventory import show_size
from aevlp.training.checkpoint import load_checkpoint
from aevlp.training.loop import Learning, phases, train, train_epoch, train_phase
from aevlp.training.run_folder import RunFolder
from aevlp.training.setup import TrainingSetup, prepare
from aevlp.training.state import resume_or_start

if sys.platform != "win32":
    import resource

SCENES = {"train": 80, "test": 8}
EPOCHS = 2
SPEED_ROUNDS = 3
LOSS_TOLERANCE = {"fp32": 0.01, "bf16": 0.05, "fp16": 0.05}
"""Relative difference of the loss to that of a CPU in fp32, at most. GPUs may convolve in TF32, which has 10 bits."""
LEAST_COSINE = {"fp32": 0.999, "bf16": 0.99, "fp16": 0.99, "int8": 0.98}
"""Of an embedding and that of a CPU in fp32."""


class Wrong(Exception):
    """Something is not as it should be; the text says what was seen."""


@dataclass(frozen=True)
class Patient:
    """A device of this machine and the folder that holds everything."""

    name: str  # cpu, cuda:0, cuda:1, ..., mps; of several GPUs, this process sees that one alone
    folder: Path

    @property
    def device(self) -> str:
        """The kind of device, as `--device` takes it."""
        return self.name.partition(":")[0]

    @property
    def own_folder(self) -> Path:
        """The folder of this device's runs."""
        return self.folder / self.name.replace(":", "-")

    def config(self, method: str, precision: str = "fp32", **values: Any) -> Config:
        """Return the configuration of a short training in the demo's world."""
        given = {"device": self.device, "precision": precision, "train.epochs": EPOCHS, "damp.grid": 2, "damp.draws": 1}
        return build_config(
            "demo", method, read_recipe(recipe_file("demo")) | given | {"train.patience": None, "train.max_drop": None} | values
        )

    def setup(self, config: Config, accelerator: Accelerator, store: Path | None = None) -> TrainingSetup:
        """Return a training at its start."""
        return prepare(config, self.data(config), store, accelerator)

    def data(self, config: Config) -> Dataset:
        """Return the scenes."""
        return load(self.folder / "world", config.data, None)

    def accelerator(self, precision: str = "fp32", *, deterministic: bool = True) -> Accelerator:
        """Return the device with its precision; a process has one."""
        return make_accelerator(EngineOptions(self.device, precision, deterministic))  # type: ignore[arg-type]

    @cached_property
    def references(self) -> Path:
        """The folder of what a CPU computed in fp32."""
        return self.folder / "references"


def survey(patient: Patient, argument: str) -> str:
    """Draw the scenes; write the machine's devices to `survey.json`, and return the versions of everything."""
    write_world(patient.folder / "world", **SCENES)
    cpu = f"{cpu_name()}, {os.cpu_count()} cores, {torch.get_num_threads()} threads, {torch.backends.cpu.get_cpu_capability()}"
    devices = {"cpu": cpu}
    for index in range(torch.cuda.device_count() if torch.cuda.is_available() else 0):
        found = torch.cuda.get_device_properties(index)
        devices[f"cuda:{index}"] = (
            f"{found.name}, {show_size(found.total_memory)}, compute capability {found.major}.{found.minor}"
        )
    if torch.backends.mps.is_available():
        devices["mps"] = platform.processor() or platform.machine()
    write_json(patient.folder / "survey.json", {"devices": devices, "threads": torch.get_num_threads()})
    versions = [f"python {platform.python_version()}", *(f"{name} {version(name)}" for name in PACKAGES)]
    cuda = f"CUDA {torch.version.cuda}" if torch.version.cuda else "torch without CUDA"
    return f"{', '.join(versions)}; {cuda}; {platform.platform()}"


def train_precision(patient: Patient, precision: str) -> str:
    """Train for an epoch without a teacher; compare the loss with a CPU's in fp32."""
    accelerator = patient.accelerator(precision)
    setup = patient.setup(patient.config("an", precision), accelerator)
    learning = Learning.of(resume_or_start(setup, RunFolder(patient.folder / "unused")), phases(setup)[0])
    loss = train_epoch(learning, 1)
    seen = f"loss {loss:.4f}"
    if accelerator.scaler is not None:
        seen += f", GradScaler at {accelerator.scaler.get_scale():,.0f}"
    seen += f", {_memory(accelerator.device)}"
    file = patient.references / "loss.json"
    if patient.device == "cpu" and precision == "fp32":
        write_json(file, {"loss": loss})
    expected = read_json(file)["loss"]
    if not abs(loss - expected) <= LOSS_TOLERANCE[precision] * abs(expected):
        raise Wrong(f"{seen}; on a CPU in fp32 the loss is {expected:.4f}")
    return seen


def embed(patient: Patient, precision: str) -> str:
    """Embed the views of the scenes; compare with a CPU's embeddings in fp32."""
    scorer, job = _scoring(patient, patient.accelerator(), precision)
    found = next(embeddings for _, embeddings in scorer.embed([job])).astype(np.float64)
    found /= np.linalg.norm(found, axis=-1, keepdims=True)  # they are stored in 16 bits
    file = patient.references / "embeddings.npy"
    if patient.device == "cpu" and precision == "fp32":
        file.parent.mkdir(exist_ok=True)
        np.save(file, found)
    cosine = float((found * np.load(file)).sum(-1).min())
    seen = f"{found.shape[0]} images of {found.shape[1]} views, least cosine to a CPU's in fp32 {cosine:.5f}"
    if not cosine >= LEAST_COSINE[precision]:
        raise Wrong(f"{seen}; expected at least {LEAST_COSINE[precision]:g}")
    return seen


def train_whole(patient: Patient, name: str) -> str:
    """Train to the end, unless that was done before."""
    run = _run(patient, name)
    if not run.checkpoint.is_file():
        train(_default_training(patient, name), run)
    return _weights(run)


def train_begin(patient: Patient, name: str) -> str:
    """Train the first epoch alone."""
    setup, run = _default_training(patient, name), _run(patient, name)
    state = resume_or_start(setup, run)
    train_phase(state, replace(phases(setup)[0], last_epoch=1), run, lambda record: None)
    return f"{state.epoch} epoch"


def train_again(patient: Patient, name: str) -> str:
    """Train to the end, from the start or after what is done; compare the weights with those of the run `whole`."""
    run, whole = _run(patient, name), _run(patient, "whole")
    begun = load_checkpoint(run.checkpoint)
    with warnings.catch_warnings(record=True) as caught:
        train(_default_training(patient, name), run)
    epochs = f"{EPOCHS} epochs" if begun is None else f"epoch {len(begun['history']) + 1} after a resume"
    if _weights(run) != _weights(whole):
        raise Wrong(
            f"{epochs}: the weights differ from those of an equal training (largest difference {_difference(run, whole):.1e})"
        )
    random = {str(warning.message).split()[0] for warning in caught if "deterministic" in str(warning.message)}
    return f"{epochs}: the weights are the same to the bit{'; not deterministic: ' if random else ''}{', '.join(sorted(random))}"


def pin(patient: Patient, argument: str) -> str:
    """Copy pinned memory to the device while it computes, and back."""
    device = patient.accelerator().device
    values = torch.randint(0, 256, (64, 96, 96, 3), dtype=torch.uint8)
    busy = torch.rand(1024, 1024, device=device)
    pinned = values.pin_memory()
    for _ in range(10):
        busy = (busy @ busy).clamp(0, 1)
        found = pinned.to(device, non_blocking=True)
    if not (pinned.is_pinned() and torch.equal(found.cpu(), values)):
        raise Wrong("what arrived is not what was sent")
    return f"{show_size(values.nbytes)} copied beside a computation, whole"


def scoring_speed(patient: Patient, argument: str) -> str:
    """Time the scoring of files beside the bare teacher on as many views in memory."""
    accelerator = patient.accelerator()
    scorer, job = _scoring(patient, accelerator, "fp32")
    views = len(job.digests) * scorer.settings.count
    batch, cores = scorer.images_per_batch * scorer.settings.count, torch.get_num_threads() if patient.device == "cpu" else 1
    bare = bare_teacher(scorer.teacher, views, batch, accelerator.device, at_once=cores)
    return _speed({"scoring": lambda: list(scorer.embed([job])), "bare teacher": bare}, len(job.digests))


def training_speed(patient: Patient, algorithms: str) -> str:
    """Time an epoch from files beside bare steps on a batch in memory; `algorithms`: deterministic or fastest."""
    accelerator = patient.accelerator(deterministic=algorithms == "deterministic")
    config = patient.config("an")
    setup = patient.setup(config, accelerator)
    learning = Learning.of(resume_or_start(setup, RunFolder(patient.folder / "unused")), phases(setup)[0])
    bare = BareStep(build_classifier(config.model, setup.data.classes, config.run.seed), config, accelerator)
    images, batch = len(setup.labels), config.train.batch_size
    counts = [min(batch, images - first) for first in range(0, images, batch)]
    return _speed({"training": lambda: train_epoch(learning, 1), "bare step": lambda: bare(counts)}, images)


STEPS: Mapping[str, Callable[[Patient, str], str]] = {
    "survey": survey,
    "train": train_precision,
    "embed": embed,
    "train_whole": train_whole,
    "train_begin": train_begin,
    "train_again": train_again,
    "pin": pin,
    "scoring_speed": scoring_speed,
    "training_speed": training_speed,
}


def _scoring(patient: Patient, accelerator: Accelerator, precision: str) -> tuple[Scorer, Job]:
    """Return a scorer with the demo's teacher, and the training images."""
    split, damp = patient.data(patient.config("an")).train, DampOptions()
    teacher = load_teacher("demo", accelerator.device, precision)
    settings = ViewSettings(size=teacher.image_size, grid=2, overlap=damp.overlap, augment=True, seed=0)
    scorer = Scorer(teacher, settings, mean=teacher.mean, std=teacher.std, accelerator=accelerator, precision=precision)
    return scorer, Job(split.paths, split.digests, 0)


def _default_training(patient: Patient, name: str) -> TrainingSetup:
    """Return the default method at its start, with a store of its own."""
    return patient.setup(patient.config("consensus"), patient.accelerator(), patient.own_folder / f"views-{name}")


def _run(patient: Patient, name: str) -> RunFolder:
    run = RunFolder(patient.own_folder / name)
    if not run.config.is_file():
        run.create(patient.config("consensus"), "aevlp doctor")
    return run


def _weights(run: RunFolder) -> str:
    """Return the digest of the weights in a run's checkpoint."""
    digest = blake2b(digest_size=8)
    for name, values in _model(run).items():
        digest.update(name.encode() + values.numpy().tobytes())
    return digest.hexdigest()


def _difference(one: RunFolder, other: RunFolder) -> float:
    """Return the largest difference of two runs' weights."""
    weights = _model(other)
    return max(float((values - weights[name]).abs().max()) for name, values in _model(one).items())


def _model(run: RunFolder) -> Mapping[str, torch.Tensor]:
    saved = load_checkpoint(run.checkpoint)
    if saved is None:
        raise Wrong(f"{run.path.name}: no checkpoint was written")
    model: Mapping[str, torch.Tensor] = saved["model"]
    return model


def _memory(device: torch.device) -> str:
    """Return the most memory that this process has had."""
    if device.type == "cuda":
        return f"{show_size(torch.cuda.max_memory_allocated())} of the GPU"
    if device.type == "mps":
        return f"{show_size(torch.mps.driver_allocated_memory())} of the GPU"
    if sys.platform == "win32":
        return "memory not known"
    unit = 1 if sys.platform == "darwin" else 1024
    return f"{show_size(unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)} of memory"


def _speed(ways: Mapping[str, Callable[[], object]], images: int) -> str:
    """Time our way, the first, beside the bare one; return rates in words."""
    ours, bare = ways
    times = side_by_side("doctor", ways, SPEED_ROUNDS)
    rate, share = times.part(images, ours), times.ratio(bare, ours)
    return f"{rate.value:.0f} images/s ({rate.low:.0f} to {rate.high:.0f}), {share.value:.2f} of the {bare}'s rate"
