"""The web application: which addresses there are, and what wrong requests are told."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse
from starlette.requests import ClientDisconnect

from aevlp.inference.serve.answers import About, Answer
from aevlp.inference.serve.page import page
from aevlp.inference.serve.service import Service
from aevlp.inference.serve.uploads import FIELD, Refusal, read_uploads

MOST_IN_HAND = 32  # requests: each may have all the bytes that one may bring in memory
FORM: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": [FIELD],
                    "properties": {FIELD: {"type": "array", "items": {"type": "string", "format": "binary"}}},
                }
            }
        },
    }
}
REFUSALS: dict[int | str, dict[str, Any]] = {
    400: {"description": "the form is damaged"},
    413: {"description": "an image, or the request, is too large"},
    415: {"description": "not a form"},
    422: {"description": "no image, an unknown field, or calibration asked of a model without one"},
    503: {"description": "too many requests at once"},
}


def make_app(service: Service, about: About) -> FastAPI:
    """The application for a model. Its documentation pages are off, as they load scripts from elsewhere."""
    app = FastAPI(title=f"aevlp: {about.name}", version=about.version, docs_url=None, redoc_url=None)
    app.add_exception_handler(Refusal, _refuse)
    app.add_exception_handler(RequestValidationError, _refuse_values)
    shown = page(about)
    in_hand = 0

    @app.get("/", include_in_schema=False)
    async def the_page() -> HTMLResponse:
        return HTMLResponse(shown.text, headers=shown.headers)

    @app.get("/health")
    async def health() -> dict[str, str]:
        """Says that the service is there."""
        return {"status": "ok"}

    @app.get("/api/model")
    async def model() -> About:
        """What the model is."""
        return about

    @app.post("/api/predict", openapi_extra=FORM, responses=REFUSALS)
    async def predict(
        request: Request, calibrated: Annotated[bool, Query(description="correct the probabilities; labels stay")] = False
    ) -> Answer:
        """What the model says of one or more images."""
        nonlocal in_hand
        if calibrated and about.calibration is None:
            raise Refusal(422, "this model has no calibration; ask without calibrated=true")
        if in_hand >= MOST_IN_HAND:
            raise Refusal(503, "too many requests at once; try again in a moment")
        in_hand += 1
        try:
            head = request.headers
            kind, length = head.get("content-type", ""), head.get("content-length")
            uploads = await read_uploads(kind, length, request.stream(), about.limits)
            return await service.answer(uploads, calibrated=calibrated)
        except ClientDisconnect:
            raise Refusal(400, "the form breaks off before its end; send it again") from None
        finally:
            in_hand -= 1

    return app


async def _refuse(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)
    return JSONResponse({"detail": error.detail}, error.status)


async def _refuse_values(request: Request, error: Exception) -> Response:
    """One line in the place of the framework's list of structures."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    return JSONResponse({"detail": f"{first['loc'][-1]}: {first['msg']}, not {first.get('input')!r}"}, 422)
