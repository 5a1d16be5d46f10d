"""The web application: its addresses, its page, and the answers to wrong requests."""

import logging
import socket
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

import torch
from fastapi import FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect

from aevlp.core.engine import make_accelerator
from aevlp.core.errors import UserError
from aevlp.core.processes import EngineOptions
from aevlp.data.answers import ANSWERS_FILE, AnswerStore
from aevlp.inference.hosts import LOOPBACK, HostGuard, Hosts, hosts_of
from aevlp.inference.model_location import ModelLocation
from aevlp.inference.options import ServeOptions
from aevlp.inference.predictor import TrainedModel
from aevlp.inference.serve.corrections import as_file, keep, read_corrections, schema
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

ANSWERS = {"requestBody": {"required": True, "content": {"application/json": {"schema": schema()}}}}
ANSWER_REFUSALS: dict[int | str, dict[str, Any]] = {
    400: {"description": "not JSON, or it breaks off"},
    403: {"description": "the service is not reached by that name, or another page asks"},
    408: {"description": "the request stalls"},
    409: {"description": "the service has no file of answers"},
    413: {"description": "too many corrections at once"},
    415: {"description": "not JSON"},
    422: {"description": "corrections that make no sense"},
    503: {"description": "too many requests at once, or the file of answers cannot be written"},
}
SQLITE_TYPE = "application/vnd.sqlite3"
SQLITE = {"description": "a file of answers", "content": {SQLITE_TYPE: {"schema": {"type": "string", "format": "binary"}}}}
Result = TypeVar("Result")


@dataclass(frozen=True)
class AnswersKept:
    """The number of answers that were kept."""

    kept: int


def serve_model(location: ModelLocation, listener: socket.socket, options: ServeOptions, engine: EngineOptions) -> None:
    """Serve the model at a listening socket until the process is told to stop."""
    store = None if options.answers is None else AnswerStore(Path(options.answers))
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
    app = make_app(service, info, hosts, store)
    if model.thresholds is None:
        log.warning("%s has no thresholds, so no labels are given: aevlp thresholds RUN DATA makes them", location.given)
    if not is_local(listener):
        use = "use it" if store is None else "use it and add answers"
        log.warning("everyone who can reach %s can %s: there is no password", url_of(listener), use)
    if store is not None:
        log.info("corrections go to %s", store.path)
    log.info("serving %s at %s (Ctrl-C ends it)", location.given, url_of(listener))
    try:
        serve_until_stopped(app, listener)
    finally:
        service.close()


def make_app(service: Service, info: ModelInfo, hosts: Hosts = LOOPBACK, store: AnswerStore | None = None) -> FastAPI:
    """Return the application for a model, reached by one of `hosts`; `store` takes the corrections that people send.

    FastAPI's documentation pages are off, because they load scripts from elsewhere.
    """
    app = FastAPI(title=f"aevlp: {info.name}", version=info.version, docs_url=None, redoc_url=None)
    app.add_exception_handler(Refusal, _refuse)
    app.add_exception_handler(RequestValidationError, _refuse_values)
    app.add_middleware(HostGuard, hosts=hosts)
    page, memory = render_page(info, keeps_answers=store is not None), UploadMemory(MOST_UPLOADS * info.limits.request_bytes)
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

    _add_answers(app, info, memory, store)
    return app


def _add_answers(app: FastAPI, info: ModelInfo, memory: UploadMemory, store: AnswerStore | None) -> None:
    """Add the addresses that take corrections of labels."""

    @app.post("/api/answers", openapi_extra=ANSWERS, responses=ANSWER_REFUSALS)
    async def keep_answers(request: Request) -> AnswersKept:
        """Keep corrections of labels in the file of answers."""
        with memory.share() as take:
            found = await read_corrections(request, info.classes, take)
            if store is None:
                raise Refusal(409, "this service keeps no answers; start it with --answers FILE, or ask api/answers/file")
            return AnswersKept(await _in_thread(keep, store, found))

    @app.post("/api/answers/file", openapi_extra=ANSWERS, responses={**ANSWER_REFUSALS, 200: SQLITE}, response_class=Response)
    async def answers_as_file(request: Request) -> Response:
        """Return corrections of labels as a file of answers; nothing is kept."""
        with memory.share() as take:
            content = await _in_thread(as_file, await read_corrections(request, info.classes, take))
        headers = {"Content-Disposition": f'attachment; filename="{ANSWERS_FILE}"', "X-Content-Type-Options": "nosniff"}
        return Response(content, media_type=SQLITE_TYPE, headers=headers)


async def _in_thread(function: Callable[..., Result], *arguments: Any) -> Result:
    """Call a function that waits for a disk; what stops it is a reason to try again later."""
    try:
        return await run_in_threadpool(function, *arguments)
    except UserError as error:
        log.warning("%s", error)
        raise Refusal(503, "the answers cannot be written now; try again, or tell whoever runs this service") from error


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


def render_page(info: ModelInfo, *, keeps_answers: bool = False) -> HTMLResponse:
    """Return the page for people."""
    size, facts = megabytes(info.limits.file_bytes), {**asdict(info), "keeps_answers": keeps_answers}
    return served_page(
        "aevlp.inference.serve", "page", images="blob: data:", about=info, facts=facts, size=size, keeps_answers=keeps_answers
    )
