"""A trained model as one ONNX file: bytes (or features, for a model of these) in, probabilities out.

Normalisation and sigmoid are in the file, and class names, thresholds and how to resize in its metadata: whoever has it needs
neither aevlp nor torch.
"""

from __future__ import annotations

import json
import logging
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from aevlp import __version__
from aevlp.config.recipe import read_recipe
from aevlp.core.debug_log import to_debug_log
from aevlp.core.errors import UserError, one_line
from aevlp.core.files import cannot_write
from aevlp.models.classifier import Classifier
from aevlp.models.feature_classifier import FeatureClassifier
from aevlp.models.model_folder import load_classifier
from aevlp.training.run_folder import RunFolder
from aevlp.training.thresholds import Thresholds, read_thresholds

if TYPE_CHECKING:
    from torch.onnx import ONNXProgram

SPEAKERS = ("torch", "onnx", "onnxscript", "onnx_ir", "transformers")
"""Whose messages are for the log."""
ONE_FILE = 2**31 - 2**26  # bytes of weights: a file of ONNX holds 2 GB, and the graph wants a little
TOLERANCE = 1e-4  # of a probability
CHECKED_BATCHES = (1, 3, 5)
RESIZE = "upright (EXIF), RGB, whole image to image_size x image_size by bicubic interpolation (PIL), aspect ratio not kept"

log = logging.getLogger("aevlp")


@dataclass(frozen=True)
class Exported:
    """A file that has been written and checked."""

    file: Path
    weights: Path | None  # a second file, for models that are too large for one
    difference: float  # greatest, of a probability from PyTorch's
    has_thresholds: bool
    width: int | None  # of the features that it takes; None: it takes pixels


def export_onnx(run: RunFolder, out: Path) -> Exported:
    """Writes the run's model to `out`, in place of an older file, unless it does not say what PyTorch says.

    Input `pixels` uint8 [N, S, S, 3], as `pixels_of` gives them, or `features` float32 [N, D] for a model that was trained on
    such; output `probabilities` float32 [N, C]; any N.
    """
    classifier = load_classifier(run.model).eval()
    thresholds = None
    if run.thresholds.is_file():
        thresholds = read_thresholds(run.thresholds, classifier.classes)
    else:
        log.info("%s: no thresholds yet, so the file has none; aevlp thresholds %s DATA makes them", run.path, run.path)
    model = _Probabilities(classifier).eval()
    log.info("exporting %s", run.model)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        # What is checked is what was written, and it takes its name only then.
        with tempfile.TemporaryDirectory(prefix=f".{out.name}.", suffix=".part", dir=out.parent) as folder:
            part = Path(folder) / out.name
            with _into_the_log():
                program = _program(model, run)
                _describe(program, classifier, thresholds, read_recipe(run.config).get("method", ""))
                _save(program, part)
            log.info("comparing it with PyTorch")
            difference = _difference(model, part)
            if not difference <= TOLERANCE:  # nor if it is not a number
                raise UserError(
                    f"{run.path}: the exported model differs from PyTorch's by {difference:.1e} in a probability (at most "
                    f"{TOLERANCE:.0e} is allowed), so nothing was written; another version of onnxruntime or torch may do better"
                )
            weights = _move(part, out)
    except OSError as error:
        raise cannot_write(out, error) from error
    width = classifier.width if isinstance(classifier, FeatureClassifier) else None
    return Exported(out, weights, difference, thresholds is not None, width)


def _move(part: Path, out: Path) -> Path | None:
    """Gives a finished file its name, and the file beside it, if there is one; returns where that is."""
    beside, weights = _beside(part), _beside(out)
    written = [(beside, weights)] if beside.exists() else []
    for file, name in [*written, (part, out)]:  # the one that names the other goes last
        with file.open("rb") as stream:
            os.fsync(stream.fileno())
        file.replace(name)
    return weights if written else None


def _beside(file: Path) -> Path:
    """Where the exporter puts the weights of a model that is too large for one file."""
    return file.with_name(f"{file.name}.data")


class _Probabilities(nn.Module):
    """What the classifier takes -> probabilities."""

    def __init__(self, classifier: Classifier) -> None:
        super().__init__()
        self.classifier = classifier

    def forward(self, shown: Tensor) -> Tensor:
        """Float32 [N, C] of uint8 [N, S, S, 3], or of float32 [N, D]."""
        logits: Tensor = self.classifier(shown)
        return logits.float().sigmoid()


def _program(model: _Probabilities, run: RunFolder) -> ONNXProgram:
    """The model as a graph of ONNX, for batches of any size."""
    name, example = _example(model.classifier, 2, np.random.default_rng(0))  # of one, the graph would hold for one only
    try:
        with torch.no_grad():
            program = torch.onnx.export(
                model,
                (torch.from_numpy(example),),
                dynamo=True,
                input_names=[name],
                output_names=["probabilities"],
                dynamic_shapes=({0: torch.export.Dim("N")},),
                verbose=False,
            )
    except torch.onnx.OnnxExporterError as error:
        log.debug("export failed", exc_info=error)
        network = type(model.classifier.network).__name__
        why = one_line(error.__cause__ or error)
        raise UserError(f"{run.path}: torch cannot export a {network} to ONNX ({why}); train with another --backbone") from error
    assert program is not None
    return program


def _describe(program: ONNXProgram, classifier: Classifier, thresholds: Thresholds | None, method: str) -> None:
    """Puts what a user of the file must know into its metadata, and takes out what tells of this machine."""
    # The exporter notes at every node which line of which file it comes from: half of a small file, and nobody's business.
    graph = program.model.graph
    for notes in (graph.metadata_props, *(node.metadata_props for node in graph.all_nodes())):
        notes.clear()
    facts = {
        "aevlp_version": __version__,
        "method": method,
        "classes": json.dumps(classifier.classes, ensure_ascii=False),
    }
    if isinstance(classifier, FeatureClassifier):
        facts["features"] = str(classifier.width)
    else:
        facts |= {"image_size": str(classifier.images.size), "resize": RESIZE}
    if thresholds is not None:
        values = {"overall": thresholds.overall, "classes": thresholds.classes}
        facts["thresholds"] = json.dumps(values, ensure_ascii=False)
    program.model.metadata_props.update(facts)


def _save(program: ONNXProgram, file: Path) -> None:
    """Writes the graph with its weights: in one file if that can be, else beside it."""
    weights = sum(tensor.const_value.nbytes for tensor in program.model.graph.initializers.values() if tensor.const_value)
    if weights > ONE_FILE:
        program.save(file, external_data=True)
    else:
        file.write_bytes(program.model_proto.SerializeToString())


def _difference(model: _Probabilities, file: Path) -> float:
    """The greatest difference between the file's probabilities and PyTorch's, over batches of several sizes."""
    import onnxruntime  # type: ignore[import-untyped]

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors
    session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(0)
    greatest = []
    for count in CHECKED_BATCHES:
        name, example = _example(model.classifier, count, rng)
        (found,) = session.run(["probabilities"], {name: example})
        with torch.inference_mode():
            expected = model(torch.from_numpy(example)).numpy()
        greatest.append(np.abs(found - expected).max())
    return float(np.max(greatest))


def _example(classifier: Classifier, count: int, rng: np.random.Generator) -> tuple[str, npt.NDArray[Any]]:
    """The input's name and `count` examples of it."""
    if isinstance(classifier, FeatureClassifier):
        return "features", rng.normal(0, classifier.scale, (count, classifier.width)).astype(np.float32)
    return "pixels", _pictures(count, classifier.images.size, rng)


def _pictures(count: int, size: int, rng: np.random.Generator) -> npt.NDArray[np.uint8]:
    """Uint8 [count, size, size, 3]: large patches of colour with noise on them, so that networks do see something."""
    patches = rng.uniform(0, 255, (count, 4, 4, 3)).repeat(-(-size // 4), axis=1).repeat(-(-size // 4), axis=2)
    noisy = patches[:, :size, :size] + rng.normal(0, 30, (count, size, size, 3))
    return noisy.clip(0, 255).astype(np.uint8)


@contextmanager
def _into_the_log() -> Iterator[None]:
    """While it lasts, what the exporter and those it asks would print goes to the debug log."""
    printed = StringIO()
    try:
        with to_debug_log(*SPEAKERS), redirect_stdout(printed):
            yield
    finally:
        for line in printed.getvalue().splitlines():
            log.debug("%s", line)
