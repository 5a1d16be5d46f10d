"""aevlp export: a trained model as a file that runs without torch."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from aevlp.core.errors import UserError
from aevlp.core.options import Parser
from aevlp.core.tables import show
from aevlp.training.run_folder import open_run

FORMATS = ("onnx",)
PACKAGES = ("onnx", "onnxscript", "onnxruntime")  # the extra `export`


def export(argv: Sequence[str]) -> None:
    """Write a trained model as an ONNX file, which runs without torch or aevlp."""
    parser = Parser("export", export.__doc__ or "")
    parser.add_argument("run", type=Path, metavar="RUN", help="folder of a trained run")
    parser.add_argument("--format", metavar="NAME", default="onnx", help=f"kind of file: {', '.join(FORMATS)} (default: onnx)")
    parser.add_argument("--out", type=Path, metavar="FILE.onnx", help="file to write (default: RUN/model.onnx)")
    given = parser.read(argv)
    if given.format not in FORMATS:
        raise UserError(f"--format {given.format}: no such format; there is {', '.join(FORMATS)}")
    run = open_run(given.run)
    out = given.out or run.path / "model.onnx"
    if out.suffix != ".onnx":
        raise UserError(f"--out {out}: the name must end in .onnx")
    for file in (out, out.with_name(f"{out.name}.data")):  # the second is for weights that are too large for the first
        if file.exists():
            raise UserError(f"--out {file}: exists; remove it or choose another name")
    if missing := [name for name in PACKAGES if find_spec(name) is None]:
        raise UserError(f"aevlp export needs {', '.join(missing)}; install what is missing with pip install 'aevlp[export]'")

    from aevlp.inference.export import export_onnx

    done = export_onnx(run, out)
    size = sum(file.stat().st_size for file in (done.file, done.weights) if file is not None)
    beside = "" if done.weights is None else f"; its weights are in {done.weights}, which must stay beside it"
    show(f"{out}: {size / 1e6:.1f} MB, at most {done.difference:.1e} from PyTorch's probabilities{beside}")
    packages = "numpy onnxruntime" if done.width else "numpy pillow onnxruntime"
    show(f"To use it (pip install {packages}):\n\n{usage(str(out), has_thresholds=done.has_thresholds, width=done.width)}")


def usage(file: str, *, has_thresholds: bool, width: int | None = None) -> str:
    """Python code that runs an exported file without torch; it prints the labels, or without thresholds the probabilities.

    `width` is that of the features that the model takes; None: it takes images.
    """
    labels = (
        'thresholds = json.loads(facts["thresholds"])["classes"]\n'
        "print({name: float(p) for name, p in zip(classes, probabilities) if p >= thresholds[name]})"
    )
    session = f"""\
session = onnxruntime.InferenceSession({json.dumps(file)}, providers=["CPUExecutionProvider"])
facts = session.get_modelmeta().custom_metadata_map
classes"""
    if width is not None:
        return f"""\
import json

import numpy as np
import onnxruntime

{session} = json.loads(facts["classes"])

features = np.load("features.npz")["features"][:1].astype(np.float32)  # [1, {width}]: of one image
probabilities = session.run(None, {{"features": features}})[0][0]
{labels if has_thresholds else "print(dict(zip(classes, probabilities.tolist())))"}"""
    return f"""\
import json

import numpy as np
import onnxruntime
from PIL import Image, ImageOps

{session}, size = json.loads(facts["classes"]), int(facts["image_size"])

image = ImageOps.exif_transpose(Image.open("photo.jpg")).convert("RGB").resize((size, size), Image.Resampling.BICUBIC)
probabilities = session.run(None, {{"pixels": np.asarray(image)[None]}})[0][0]
{labels if has_thresholds else "print(dict(zip(classes, probabilities.tolist())))"}"""
