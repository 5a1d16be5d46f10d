"""The web application: its addresses, its page, and the answers to wrong requests."""

import logging
import socket
from dataclasses import asdict
from typing import Annotated, Any

import torch
from fastapi import FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse
from starlette.requests import ClientDisconnect

from aevlp.core.engine import make_accelerator
from aevlp.core.errors import UserError
from aevlp.core.processes import EngineOptions
from aevlp.inference.hosts import LOOPBACK, HostGuard, Hosts, hosts_of
from aevlp.inference.model_location import ModelLocation
from aevlp.inference.options import ServeOptions
from aevlp.inference.predictor import TrainedModel
from aevlp.inference.serve.server import is_local, serve_until_stopped, url_of
from aevlp.inference.serve.service import ModelInfo, PredictResponse, Service, model_info
from aevlp.inference.serve.uploads import FIELD, Refusal, UploadMemory, megabytes, read_uploads
from aevlp.inference.served_page import served_page

log = logging.getLogger("aevlp")
MOST_REQUESTS = 32  # that wait for the model at once
MOST_UPLOADS = 8  # of the largest size that are in memory at once
FORM = {
    "type": "object",
    "required": [FIELD],
    "properties": {FIELD: {"type": "array", "items": {"type": "string", "format": "binary"}}},
}
BODY = {"requestBody": {"required": True, "content": {"multipart/form-data": {"schema": FORM}}}}
REFUSALS: dict[int | str, dict[str, Any]] = {
    400: {"description": "the form is damaged"},
    403: {"description": "the service is not reached by that name"},
    408: {"description": "the upload stalls"},
    413: {"description": "an image, or the request, is too large"},
    415: {"description": "not a form"},
    422: {"description": "no image, an unknown field, or calibration requested of a model without one"},
    503: {"description": "too many requests at once"},
}


def serve_model(location: ModelLocation, listener: socket.socket, options: ServeOptions, engine: EngineOptions) -> None:
    """Serve the model at a listening socket until the process is told to stop."""
    device = make_accelerator(engine).device
    model = TrainedModel(location, device=device, precision=engine.precision)
    try:
        model.require_images()
    except UserError:
        raise UserError(f"{location.given}: was trained on features and cannot look at images; serve a run on images") from None
    info = model_info(location, model, options.max_megabytes)
    service = Service(model, workers=options.workers, cores=torch.get_num_threads() if device.type == "cpu" else 1)
    hosts = hosts_of(listener, options.host)
    if hosts is not None and options.public_host is not None:
        hosts |= {options.public_host.lower()}
    app = make_app(service, info, hosts)
    if model.thresholds is None:
        log.warning("%s has no thresholds, so no labels are given: aevlp thresholds RUN DATA makes them", location.given)
    if not is_local(listener):
        log.warning("everyone who can reach %s can use it: there is no password", url_of(listener))
    log.info("serving %s at %s (Ctrl-C ends it)", location.given, url_of(listener))
    try:
        serve_until_stopped(app, listener)
    finally:
        service.close()


def make_app(service: Service, info: ModelInfo, hosts: Hosts = LOOPBACK) -> FastAPI:
    """Return the application for a model, reached by one of `hosts`.

    FastAPI's documentation pages are off, because they load scripts from elsewhere.
    """
    app = FastAPI(title=f"aevlp: {info.name}", version=info.version, docs_url=None, redoc_url=None)
    app.add_exception_handler(Refusal, _refuse)
    app.add_exception_handler(RequestValidationError, _refuse_values)
    app.add_middleware(HostGuard, hosts=hosts)
    page, memory = render_page(info), UploadMemory(MOST_UPLOADS * info.limits.request_bytes)
    open_requests = 0

    @app.get("/", include_in_schema=False)
    async def show_page() -> HTMLResponse:
        return page

    @app.get("/health")
    async def health() -> dict[str, str]:
        """Confirm that the service runs."""
        return {"status": "ok"}

    @app.get("/api/model")
    async def model() -> ModelInfo:
        """Describe the model."""
        return info

    @app.post("/api/predict", openapi_extra=BODY, responses=REFUSALS)
    async def predict(
        request: Request, calibrated: Annotated[bool, Query(description="correct the probabilities; labels stay")] = False
    ) -> PredictResponse:
        """Predict the labels of one or more images."""
        nonlocal open_requests
        if calibrated and info.calibration is None:
            raise Refusal(422, "this model has no calibration; ask without calibrated=true")
        with memory.share() as take:
            try:
                uploads = await read_uploads(request, info.limits, take)
            except ClientDisconnect:
                raise Refusal(400, "the form breaks off before its end; send it again") from None
            if open_requests >= MOST_REQUESTS:  # a request that is still being sent is none: it may stall
                raise Refusal(503, "too many requests at once; try again in a moment")
            open_requests += 1
            try:
                return await service.predict(uploads, calibrated=calibrated)
            finally:
                open_requests -= 1

    return app


async def _refuse(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)
    # A request that is refused before its end leaves a connection that cannot be used again.
    headers = {"Connection": "close"} if error.status in (408, 503) else None
    return JSONResponse({"detail": error.detail}, error.status, headers)


async def _refuse_values(request: Request, error: Exception) -> Response:
    """Answer with one line instead of FastAPI's list of structures."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    return JSONResponse({"detail": f"{first['loc'][-1]}: {first['msg']}, not {first.get('input')!r}"}, 422)


def render_page(info: ModelInfo) -> HTMLResponse:
    """Return the page for people."""
    size = megabytes(info.limits.file_bytes)
    return served_page("aevlp.inference.serve", "page", images="blob: data:", about=info, facts=asdict(info), size=size)
