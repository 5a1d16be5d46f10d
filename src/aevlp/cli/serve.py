"""aevlp serve: a trained model as a web service."""

from collections.abc import Sequence
from importlib.util import find_spec

from aevlp.cli.arguments import options_from
from aevlp.core.errors import UserError
from aevlp.core.options import Parser, options_of
from aevlp.core.processes import EngineOptions
from aevlp.core.remote import local_path
from aevlp.inference.model_location import locate_model
from aevlp.inference.options import ServeOptions
from aevlp.inference.serve.server import listening_socket, signals_end_well

PACKAGES = {"fastapi": "fastapi", "uvicorn": "uvicorn", "python_multipart": "python-multipart"}  # the extra `serve`


def serve(argv: Sequence[str]) -> None:
    """Serve a trained model: a page to drop images on, and a JSON interface."""
    parser = Parser("serve", serve.__doc__ or "", "aevlp serve runs/first")
    parser.add_argument("run", type=local_path, metavar="RUN", help="folder of a trained run or of a model alone, or hub:NAME")
    for option in [*options_of("", ServeOptions), *options_of("", EngineOptions)]:
        parser.add_option(option)
    given = parser.read(argv)
    options, engine = options_from(given, ServeOptions), options_from(given, EngineOptions)
    if missing := [package for name, package in PACKAGES.items() if find_spec(name) is None]:
        raise UserError(f"aevlp serve needs {', '.join(missing)}; install what is missing with pip install 'aevlp[serve]'")
    location = locate_model(given.run)
    with listening_socket(options.host, options.port) as listener, signals_end_well():
        from aevlp.inference.serve.app import serve_model

        serve_model(location, listener, options, engine)
