"""A trained model as one ONNX file: pixels (or features) in, probabilities out.

The file includes normalisation and sigmoid; its metadata hold class names, thresholds and the way to resize. Using it takes
neither aevlp nor torch.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from glob import escape
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
from aevlp.core.locks import claim_folder, hold_folder
from aevlp.inference.model_location import ModelLocation
from aevlp.models.classifier import Classifier
from aevlp.models.feature_classifier import FeatureClassifier
from aevlp.models.model_folder import load_classifier
from aevlp.training.run_folder import RunFolder
from aevlp.training.thresholds import Thresholds, read_thresholds

if TYPE_CHECKING:
    from torch.onnx import ONNXProgram

LOGGERS = ("torch", "onnx", "onnxscript", "onnx_ir", "transformers")
"""Packages whose messages go to the debug log."""
ONE_FILE = 2**31 - 2**26  # bytes of weights: an ONNX file holds 2 GB, and the graph takes a little of it
TOLERANCE = 1e-4  # of a probability
CHECKED_BATCHES = (1, 3, 5)
RESIZE = "upright (EXIF), RGB, whole image to image_size x image_size by bicubic interpolation (PIL), aspect ratio not kept"

log = logging.getLogger("aevlp")


@dataclass(frozen=True)
class Exported:
    """A file that has been written and checked."""

    file: Path
    weights: Path | None  # a second file, for models that are too large for one
    difference: float  # greatest difference of a probability from PyTorch's
    has_thresholds: bool
    width: int | None  # of its input features; None: its input is pixels

    def summary(self) -> str:
        """Return the file's size and accuracy, and code that uses it."""
        size = sum(file.stat().st_size for file in (self.file, self.weights) if file is not None)
        beside = "" if self.weights is None else f"; its weights are in {self.weights}, which must stay beside it"
        packages = "numpy onnxruntime" if self.width else "numpy pillow onnxruntime"
        code = usage(str(self.file), has_thresholds=self.has_thresholds, width=self.width)
        return (
            f"{self.file}: {size / 1e6:.1f} MB, at most {self.difference:.1e} from PyTorch's probabilities{beside}\n"
            f"To use it (pip install {packages}):\n\n{code}"
        )


def usage(file: str, *, has_thresholds: bool, width: int | None = None) -> str:
    """Return Python code that runs an exported file without torch and prints the labels, or without thresholds the probabilities.

    `width` is the width of the model's input features; None: its input is images.
    """
    if width is None:
        imports, size_too = "\nfrom PIL import Image, ImageOps", (", size", ', int(facts["image_size"])')
        inputs = """\
image = ImageOps.exif_transpose(Image.open("photo.jpg")).convert("RGB").resize((size, size), Image.Resampling.BICUBIC)
probabilities = session.run(None, {"pixels": np.asarray(image)[None]})[0][0]"""
    else:
        imports, size_too = "", ("", "")
        inputs = f"""\
features = np.load("features.npz")["features"][:1].astype(np.float32)  # [1, {width}]: of one image
probabilities = session.run(None, {{"features": features}})[0][0]"""
    labels = """\
thresholds = json.loads(facts["thresholds"])["classes"]
print({name: float(p) for name, p in zip(classes, probabilities) if p >= thresholds[name]})"""
    return f"""\
import json

import numpy as np
import onnxruntime{imports}

session = onnxruntime.InferenceSession({json.dumps(file)}, providers=["CPUExecutionProvider"])
facts = session.get_modelmeta().custom_metadata_map
classes{size_too[0]} = json.loads(facts["classes"]){size_too[1]}

{inputs}
{labels if has_thresholds else "print(dict(zip(classes, probabilities.tolist())))"}"""


def export_onnx(location: ModelLocation, out: Path) -> Exported:
    """Write a trained model to `out`, in place of an older file, if its probabilities equal PyTorch's.

    Input `pixels` uint8 [N, S, S, 3], as `pixels_of` returns them, or `features` float32 [N, D] for a model that was trained on
    features; output `probabilities` float32 [N, C]; any N.
    """
    classifier = load_classifier(location.model).eval()
    thresholds = None
    if location.thresholds is not None:
        thresholds = read_thresholds(location.thresholds, classifier.classes)
    else:
        log.info(
            "%s: no thresholds yet, so the file has none; aevlp thresholds %s DATA makes them", location.given, location.given
        )
    model = _Probabilities(classifier).eval()
    log.info("exporting %s", location.model)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(out)
        # The written file is checked before it takes its name.
        with tempfile.TemporaryDirectory(prefix=f".{out.name}.", suffix=".part", dir=out.parent) as folder:
            hold, part = hold_folder(Path(folder)), Path(folder) / out.name
            with _to_debug_log():
                program = _program(model, location)
                _describe(program, classifier, thresholds, _method(location))
                _save(program, part)
            log.info("comparing it with PyTorch")
            difference = _difference(model, part)
            if not difference <= TOLERANCE:  # also refuses NaN
                raise UserError(
                    f"{location.given}: the exported model differs from PyTorch's by {difference:.1e} in a probability (at most "
                    f"{TOLERANCE:.0e} is allowed), so nothing was written; another version of onnxruntime or torch may do better"
                )
            weights = _move(part, out)
            if hold is not None:
                hold.release()
    except OSError as error:
        raise cannot_write(out, error) from error
    width = classifier.width if isinstance(classifier, FeatureClassifier) else None
    return Exported(out, weights, difference, thresholds is not None, width)


def _remove_leftovers(out: Path) -> None:
    """Remove the folders of exports to `out` that were killed."""
    for left in out.parent.glob(f".{escape(out.name)}.*.part"):
        if left.is_dir() and (claim := claim_folder(left)) is not None:
            shutil.rmtree(left, ignore_errors=True)
            claim.release()


def _move(part: Path, out: Path) -> Path | None:
    """Give a finished file its name, and its file of weights, if any; return the path of the weights."""
    # The exporter puts weights that are too large for one file here.
    part_weights, weights = (file.with_name(f"{file.name}.data") for file in (part, out))
    written = [(part_weights, weights)] if part_weights.exists() else []
    for file, name in [*written, (part, out)]:  # the file that refers to the other goes last
        with file.open("rb") as stream:
            os.fsync(stream.fileno())
        file.replace(name)
    return weights if written else None


class _Probabilities(nn.Module):
    """A classifier with its sigmoid."""

    def __init__(self, classifier: Classifier) -> None:
        super().__init__()
        self.classifier = classifier

    def forward(self, inputs: Tensor) -> Tensor:
        """Return probabilities, float32 [N, C], of uint8 [N, S, S, 3] or float32 [N, D]."""
        logits: Tensor = self.classifier(inputs)
        return logits.float().sigmoid()


def _method(location: ModelLocation) -> str:
    """Return the method of the run that a model is in; nothing if it was copied out of one."""
    config = RunFolder(location.model.parent).config
    return str(read_recipe(config).get("method", "")) if config.is_file() else ""


def _program(model: _Probabilities, location: ModelLocation) -> ONNXProgram:
    """Return the model as an ONNX graph, for batches of any size."""
    name, example = _example(model.classifier, 2, np.random.default_rng(0))  # a batch of 1 would fix the graph's batch size
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
        raise UserError(
            f"{location.given}: torch cannot export a {network} to ONNX ({why}); train with another --backbone"
        ) from error
    assert program is not None
    return program


def _describe(program: ONNXProgram, classifier: Classifier, thresholds: Thresholds | None, method: str) -> None:
    """Write the metadata that users of the file need, and remove those about this machine."""
    # The exporter notes the source line of every node: half of a small file, and private.
    graph = program.model.graph
    for notes in (graph.metadata_props, *(node.metadata_props for node in graph.all_nodes())):
        notes.clear()
    classes = json.dumps(classifier.classes, ensure_ascii=False)
    facts = {"aevlp_version": __version__, "method": method, "classes": classes}
    if isinstance(classifier, FeatureClassifier):
        facts["features"] = str(classifier.width)
    else:
        facts |= {"image_size": str(classifier.images.size), "resize": RESIZE}
    if thresholds is not None:
        values = {"overall": thresholds.overall, "classes": thresholds.classes}
        facts["thresholds"] = json.dumps(values, ensure_ascii=False)
    program.model.metadata_props.update(facts)


def _save(program: ONNXProgram, file: Path) -> None:
    """Write the graph with its weights: in one file if they fit, else in a second file."""
    weights = sum(tensor.const_value.nbytes for tensor in program.model.graph.initializers.values() if tensor.const_value)
    if weights > ONE_FILE:
        program.save(file, external_data=True)
    else:
        file.write_bytes(program.model_proto.SerializeToString())


def _difference(model: _Probabilities, file: Path) -> float:
    """Return the greatest difference between the file's probabilities and PyTorch's, over batches of several sizes."""
    import onnxruntime  # type: ignore[import-untyped]  # an optional extra

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
    """Return the input's name and `count` examples of it."""
    if isinstance(classifier, FeatureClassifier):
        return "features", rng.normal(0, classifier.scale, (count, classifier.width)).astype(np.float32)
    # Large patches of colour with noise, [count, size, size, 3], so that features respond.
    size = classifier.images.size
    patches = rng.uniform(0, 255, (count, 4, 4, 3)).repeat(-(-size // 4), axis=1).repeat(-(-size // 4), axis=2)
    noisy = patches[:, :size, :size] + rng.normal(0, 30, (count, size, size, 3))
    return "pixels", noisy.clip(0, 255).astype(np.uint8)


@contextmanager
def _to_debug_log() -> Iterator[None]:
    """Within it, the messages of the exporter and its libraries go to the debug log."""
    printed = StringIO()
    try:
        with to_debug_log(*LOGGERS), redirect_stdout(printed):
            yield
    finally:
        for line in printed.getvalue().splitlines():
            log.debug("%s", line)
