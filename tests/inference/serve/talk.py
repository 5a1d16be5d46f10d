"""Requests as clients send them, and servers in this process to send them to."""

import http.client
import json
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import uvicorn

from aevlp.data.answers import AnswerStore
from aevlp.inference.model_location import locate_model
from aevlp.inference.predictor import load
from aevlp.inference.serve.app import make_app
from aevlp.inference.serve.server import listening_socket, url_of
from aevlp.inference.serve.service import Service, model_info

BOUNDARY = "----a-boundary"


@dataclass(frozen=True)
class Response:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self):
        return json.loads(self.body)


def ask(url: str, method: str = "GET", body: bytes = b"", headers: dict[str, str] | None = None) -> Response:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=30)
    try:
        connection.request(method, f"{parts.path}?{parts.query}" if parts.query else parts.path, body or None, headers or {})
        answer = connection.getresponse()
        return Response(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())
    finally:
        connection.close()


def form(files: list[tuple[str, bytes]], field: str = "files") -> bytes:
    """A form as browsers send it."""
    parts = [
        f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{field}"; filename="{name}"\r\n'.encode()
        + b"Content-Type: application/octet-stream\r\n\r\n"
        + content
        + b"\r\n"
        for name, content in files
    ]
    return b"".join(parts) + f"--{BOUNDARY}--\r\n".encode()


FORM = {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"}


def send(url: str, files: list[tuple[str, bytes]], query: str = "", field: str = "files") -> Response:
    return ask(f"{url}/api/predict{query}", "POST", form(files, field), FORM)


def send_paths(url: str, paths: list[Path], query: str = "") -> Response:
    return send(url, [(path.name, path.read_bytes()) for path in paths], query)


@contextmanager
def served(run: Path, *, megabytes: int = 1, model=None, answers: Path | None = None):
    """The address of a server of a run; `model` stands in for the run's, `answers` is its file of answers."""
    real = load(run, device="cpu")
    service = Service(model or real, workers=2, cores=2)
    app = make_app(
        service, model_info(locate_model(run), real, megabytes), store=None if answers is None else AnswerStore(answers)
    )
    with listening_socket("127.0.0.1", 0) as listener:
        server = uvicorn.Server(uvicorn.Config(app, log_config=None, ws="none"))
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            yield url_of(listener)
        finally:
            server.should_exit = True
            thread.join()
            service.close()
