"""The web application of a review: its addresses, its page, and the answers to wrong requests."""

import getpass
import logging
import os
import shutil
import socket
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse
from starlette.background import BackgroundTask

from aevlp import __version__
from aevlp.core.errors import UserError, did_you_mean, first_few
from aevlp.core.files import short_name
from aevlp.data.dataset import ImageTable
from aevlp.data.images import BadImage
from aevlp.data.records import table_records
from aevlp.inference.completion.formats import LABEL_FORMATS, LabelFile
from aevlp.inference.hosts import hosts_of
from aevlp.inference.options import ReviewOptions
from aevlp.inference.review import requests as asked
from aevlp.inference.review.access import Access, Guard
from aevlp.inference.review.pictures import Pictures
from aevlp.inference.review.plan import make_plan
from aevlp.inference.review.session import ReviewSession, TooLate
from aevlp.inference.review.shown import shown_audit, shown_grid, shown_image
from aevlp.inference.review.tiles import TeacherTiles
from aevlp.inference.serve.server import is_local, serve_until_stopped, url_of
from aevlp.inference.served_page import served_page

log = logging.getLogger("aevlp")
FILE_FORMATS = [name for name, format in LABEL_FORMATS.items() if format.suffix]  # a browser saves one file, not a folder


def access_for(listener: socket.socket, options: ReviewOptions) -> Access:
    """Return the rules of access at a socket; refuse one that others reach without a token."""
    if options.token is None and not is_local(listener):
        raise UserError(f"--host {options.host}: others can reach it, so they need a password; choose one with --token")
    return Access(hosts_of(listener, options.host), options.token)


def start_of(table: ImageTable, label: str | None, image: str | None) -> str:
    """Return the page's address of a class or an image, by the image's name or path; refuse what is not reviewed."""
    if label is not None and image is not None:
        raise UserError("--class and --image exclude each other: leave one out")
    if label is not None:
        if label not in table.classes:
            raise UserError(
                f"--class {label}: no such class{did_you_mean(label, table.classes)}; there are {first_few(table.classes, 10)}"
            )
        return f"class/{table.classes.index(label)}"
    if image is None:
        return ""
    wanted, root = os.path.normpath(Path(image).absolute()), table.root.absolute()
    rows = (row for row, name in enumerate(table.names) if name == image or os.path.normpath(f"{root}/{name}") == wanted)
    row = next(rows, None)
    if row is None:
        raise UserError(f"--image {image}: not an image of this set; name it as the set does, or by its path")
    if table.splits[row] != "train":
        raise UserError(f"--image {image}: an image of the split {table.splits[row]}; only training images are reviewed")
    return f"image/{row}"


def serve_review(
    session: ReviewSession, tiles: TeacherTiles, listener: socket.socket, options: ReviewOptions, start: str = ""
) -> None:
    """Serve a review at a listening socket until the process is told to stop; `start` is what the page begins with."""
    access = access_for(listener, options)
    app = make_app(session, tiles, access, default_name() if is_local(listener) else "", start)
    progress = session.progress("")
    log.info("%d labels to look at, %d images in the audit", progress.total - progress.answered, progress.audit)
    log.info("answers are kept in %s", session.state.store.path)
    address = url_of(listener) + ("" if options.token is None else "/?token=...")
    log.info("reviewing %s at %s (Ctrl-C ends it)", session.table.place, address)
    serve_until_stopped(app, listener)


def default_name() -> str:
    """Return the name of this machine's user, if it can be used; otherwise none."""
    try:
        return asked.checked_name(getpass.getuser())
    except (OSError, KeyError, ValueError):
        return ""


def make_app(session: ReviewSession, tiles: TeacherTiles, access: Access, name: str, start: str = "") -> FastAPI:
    """Return the application of a review. `name`: that of a person who has not said another; `start`: of `start_of`."""
    app = FastAPI(title="aevlp review", version=__version__, docs_url=None, redoc_url=None, openapi_url=None)
    app.add_exception_handler(TooLate, _refuse(409, str))
    app.add_exception_handler(RequestValidationError, _refuse(422, _first_mistake))
    app.add_middleware(Guard, access=access)
    page, pictures = render_page(session, name, start), Pictures(session.table.paths)

    @app.get("/")
    def show_page() -> HTMLResponse:
        return page

    @app.get("/image/{row}")
    def picture(row: int, size: Annotated[int, Query(ge=1, le=10_000)] = 256) -> Response:
        if not 0 <= row < len(session.table.names):
            return JSONResponse({"detail": "no such image"}, 404)
        try:
            content = pictures.jpeg(row, size)
        except BadImage as error:
            return JSONResponse({"detail": f"this image cannot be read: {error.reason}"}, 404)
        headers = {"Cache-Control": "private, max-age=600", "X-Content-Type-Options": "nosniff"}
        return Response(content, media_type="image/jpeg", headers=headers)

    @app.get("/export/{format}")
    def export(format: str) -> Response:
        if format not in FILE_FORMATS:
            return JSONResponse({"detail": f"no such format; there are {', '.join(FILE_FORMATS)}"}, 404)
        return _download(session, format)

    _add_questions(app, session, tiles)
    _add_answers(app, session)
    return app


def _add_questions(app: FastAPI, session: ReviewSession, tiles: TeacherTiles) -> None:
    """Add the addresses that only ask; what they show is held for the window that asks."""

    @app.post("/api/state")
    def state(body: asked.Person) -> dict[str, Any]:
        session.seats.seat(body.holder, body.who)
        return _with_progress(session, body, {})

    @app.post("/api/grid")
    def grid(body: asked.AskGrid) -> dict[str, Any]:
        _check_set(session, body)
        if body.label is not None and body.label >= len(session.table.classes):
            raise TooLate("there is no such class; reload the page")
        found = session.grid(body.holder, body.who, body.label, ahead=body.ahead)
        return _with_progress(session, body, {"grid": shown_grid(session, found)})

    @app.post("/api/image")
    def image(body: asked.AskImage) -> dict[str, Any]:
        _check_set(session, body)
        row = session.image(body.holder, body.who, body.mode, body.row, ahead=body.ahead)
        return _with_progress(session, body, {"image": shown_image(session, row, body.mode)})

    @app.post("/api/plan")
    def plan(body: asked.AskPlan) -> dict[str, Any]:
        return _with_progress(session, body, asdict(make_plan(session, body.holder, body.who, body.minutes)))

    @app.post("/api/audit")
    def audit(body: asked.AskGrid) -> dict[str, Any]:
        return _with_progress(session, body, shown_audit(session, body.label))

    @app.post("/api/tiles")
    def tile_scores(body: asked.AskTiles) -> dict[str, Any]:
        _check_set(session, body)
        if body.row >= len(session.table.names) or any(label >= len(session.table.classes) for label in body.labels):
            raise TooLate("there is no such image or class; reload the page")
        try:
            return {"tiles": [asdict(each) for each in tiles.of(body.row, body.labels)], "reason": ""}
        except UserError as error:
            return {"tiles": [], "reason": str(error)}


def _add_answers(app: FastAPI, session: ReviewSession) -> None:
    """Add the addresses that take answers; each is in the store before it is confirmed."""

    @app.post("/api/settle")
    def settle(body: asked.SettleGrid) -> dict[str, Any]:
        _check_set(session, body)
        count = session.settle(
            *(body.holder, body.who, body.cells, body.marked, body.left),
            accepts=body.accepts,
            keys=body.keys,
            seconds=body.spent,
        )
        return _with_progress(session, body, {"count": count})

    @app.post("/api/skip-grid")
    def skip_grid(body: asked.SkipGrid) -> dict[str, Any]:
        _check_set(session, body)
        session.skip_grid(body.holder, body.who, body.cells)
        return _with_progress(session, body, {})

    @app.post("/api/leave-image")
    def leave_image(body: asked.LeaveImage) -> dict[str, Any]:
        _check_set(session, body)
        session.leave_image(body.holder, body.who, body.row)
        return _with_progress(session, body, {})

    @app.post("/api/answer")
    def answer(body: asked.AnswerImage) -> dict[str, Any]:
        _check_set(session, body)
        if any(each.label >= len(session.table.classes) for each in body.answers):
            raise TooLate("there is no such class; reload the page")
        count = session.answer_image(
            *(body.holder, body.who, body.mode, body.row, [(each.label, each.value) for each in body.answers]),
            complete=body.complete,
            keys=body.keys,
            seconds=body.spent,
        )
        return _with_progress(session, body, {"count": count, "image": shown_image(session, body.row, body.mode)})

    @app.post("/api/accept-above")
    def accept_above(body: asked.AcceptAbove) -> dict[str, Any]:
        _check_set(session, body)
        count = session.accept_above(body.holder, body.who, body.label, body.expected, keys=body.keys, seconds=body.spent)
        return _with_progress(session, body, {"count": count})

    @app.post("/api/undo")
    def undo(body: asked.Person) -> dict[str, Any]:
        _check_set(session, body)
        undone = session.undo(body.holder, body.who)
        if undone is None:
            return _with_progress(session, body, {"undone": None})
        shown = {"kind": undone.kind, "count": undone.answers, "marked": undone.marked, "row": undone.row}
        return _with_progress(session, body, {"undone": {**shown, "grid": shown_grid(session, undone.grid)}})


def _check_set(session: ReviewSession, body: asked.Person) -> None:
    if body.set != session.fingerprint:
        raise TooLate("this page is of another image set; reload it")


def _with_progress(session: ReviewSession, body: asked.Person, answer: dict[str, Any]) -> dict[str, Any]:
    return {**answer, "progress": asdict(session.progress(body.who))}


def _refuse(status: int, line: Callable[[Any], str]) -> Callable[[Request, Exception], Awaitable[Response]]:
    async def refuse(request: Request, error: Exception) -> Response:
        return JSONResponse({"detail": line(error)}, status)

    return refuse


def _first_mistake(error: RequestValidationError) -> str:
    """Return one line instead of FastAPI's list of structures."""
    first = error.errors()[0]
    return f"{first['loc'][-1]}: {str(first['msg']).removeprefix('Value error, ')}"


@dataclass(frozen=True)
class _Download(LabelFile):
    """A file that the browser saves; its images are named as from the folder of the answers."""

    folder: Path = Path()

    @cached_property
    def _folder(self) -> Path:
        return self.folder.resolve()


def _download(session: ReviewSession, name: str) -> Response:
    format, folder = LABEL_FORMATS[name], Path(tempfile.mkdtemp(prefix="aevlp-review-"))
    remove = BackgroundTask(shutil.rmtree, folder, ignore_errors=True)
    file = _Download(
        folder / f"reviewed{format.suffix}", session.table.root, session.table.classes, folder=session.state.store.path.parent
    )
    try:
        format.check(file)
        format.write(file, table_records(session.answered_table()))
    except UserError as error:
        return JSONResponse({"detail": str(error)}, 409, background=remove)
    return FileResponse(file.out, filename=file.out.name, media_type="application/octet-stream", background=remove)


def render_page(session: ReviewSession, name: str, start: str = "") -> HTMLResponse:
    """Return the page. `name`: that of a person who has not said another; `start`: what it begins with, of `start_of`."""
    facts = {
        "classes": session.table.classes,
        "set": session.fingerprint,
        "name": name,
        "start": start,
        "hasScores": bool(len(session.state.scores)),
    }
    return served_page(
        "aevlp.inference.review",
        "review",
        images="'self' data:",
        title=short_name(session.table.place.resolve()),
        facts=facts,
        formats=FILE_FORMATS,
        version=__version__,
    )
