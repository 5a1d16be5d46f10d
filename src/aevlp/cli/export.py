"""aevlp export: a trained model as a file that runs without torch."""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from aevlp.core.errors import UserError
from aevlp.core.options import Parser
from aevlp.core.remote import is_hub_model, local_path
from aevlp.core.tables import show
from aevlp.inference.model_location import locate_model

EXPORT_FORMATS = ("onnx",)
PACKAGES = ("onnx", "onnxscript", "onnxruntime")  # the extra `export`


def export(argv: Sequence[str]) -> None:
    """Write a trained model as an ONNX file, which runs without torch or aevlp."""
    parser = Parser("export", export.__doc__ or "", "aevlp export runs/first --out model.onnx")
    parser.add_argument("run", type=local_path, metavar="RUN", help="folder of a trained run or of a model alone, or hub:NAME")
    formats = ", ".join(EXPORT_FORMATS)
    parser.add_argument("--format", metavar="NAME", default="onnx", help=f"format of the file: {formats} (default: onnx)")
    parser.add_argument(
        "--out",
        type=local_path,
        metavar="FILE.onnx",
        help="file to write (default: model.onnx in RUN, or here)",
    )
    given = parser.read(argv)
    if given.format not in EXPORT_FORMATS:
        raise UserError(f"--format {given.format}: no such format; known are {formats}")
    location = locate_model(given.run)
    out = given.out or (Path() if is_hub_model(given.run) else given.run) / "model.onnx"
    if out.suffix != ".onnx":
        raise UserError(f"--out {out}: the name must end in .onnx")
    for file in (out, out.with_name(f"{out.name}.data")):  # the second holds weights that are too large for the first
        if file.exists():
            raise UserError(f"--out {file}: exists; remove it or choose another name")
    if missing := [name for name in PACKAGES if find_spec(name) is None]:
        raise UserError(f"aevlp export needs {', '.join(missing)}; install what is missing with pip install 'aevlp[export]'")

    from aevlp.inference.export import export_onnx

    show(export_onnx(location, out).summary())
