"""aevlp serve: a trained model as a web service."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from aevlp.core.errors import UserError, require
from aevlp.core.options import Parser, options_of
from aevlp.core.processes import EngineOptions

log = logging.getLogger("aevlp")
PACKAGES = {"fastapi": "fastapi", "uvicorn": "uvicorn", "python_multipart": "python-multipart"}  # the extra `serve`


def serve(argv: Sequence[str]) -> None:
    """Serve a trained model: a page to drop images on, and a JSON interface."""
    parser = Parser("serve", serve.__doc__ or "")
    parser.add_argument("run", type=Path, metavar="RUN", help="folder of a trained run, or of a model alone")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen at (default: 127.0.0.1, this machine alone)")
    parser.add_argument("--port", type=int, default=8000, metavar="N", help="port; 0: any that is free (default: 8000)")
    parser.add_argument("--max-megabytes", type=int, default=20, metavar="N", help="largest image to accept (default: 20)")
    parser.add_argument("--workers", type=int, default=2, metavar="N", help="threads that read images (default: 2)")
    for option in options_of("", EngineOptions):
        parser.add_option(option)
    given = parser.read(argv)
    require(0 <= given.port <= 65535, "port", "from 0 to 65535", given.port)
    require(given.max_megabytes >= 1, "max-megabytes", "at least 1", given.max_megabytes)
    require(given.workers >= 1, "workers", "at least 1", given.workers)
    if missing := [package for name, package in PACKAGES.items() if find_spec(name) is None]:
        raise UserError(f"aevlp serve needs {', '.join(missing)}; install what is missing with pip install 'aevlp[serve]'")

    from aevlp.inference.model_location import locate_model
    from aevlp.inference.serve.server import is_local, listening_socket, serve_until_told, url_of

    places = locate_model(given.run)
    with listening_socket(given.host, given.port) as listener:
        import torch

        from aevlp.core.engine import make_accelerator
        from aevlp.inference.predictor import TrainedModel
        from aevlp.inference.serve.about import about
        from aevlp.inference.serve.answers import limits_for
        from aevlp.inference.serve.app import make_app
        from aevlp.inference.serve.service import Service

        engine = EngineOptions(**{key: value for key, value in vars(given).items() if key in ("device", "precision")})
        device = make_accelerator(engine).device
        model = TrainedModel(places, device=device, precision=engine.precision)
        try:
            model.require_images()
        except UserError:
            raise UserError(f"{given.run}: was trained on features and cannot look at images; serve a run on images") from None
        facts = about(places, model, limits_for(given.max_megabytes))
        service = Service(model, workers=given.workers, cores=torch.get_num_threads() if device.type == "cpu" else 1)
        app = make_app(service, facts)
        if model.thresholds is None:
            log.warning("%s has no thresholds, so no labels are given: aevlp thresholds RUN DATA makes them", given.run)
        if not is_local(listener):
            log.warning("everyone who can reach %s can use it: there is no password", url_of(listener))
        log.info("serving %s at %s (Ctrl-C ends it)", given.run, url_of(listener))
        try:
            serve_until_told(app, listener)
        finally:
            service.close()
