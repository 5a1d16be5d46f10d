"""Connections that stall in the head of a request or are too many, and requests that turn out to be malformed."""

import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.inference.serve.talk import ask

SERVICE = """
import resource, sys, time
from fastapi import FastAPI, Request, Response
from starlette.requests import ClientDisconnect
from aevlp.inference.serve import connection
from aevlp.inference.serve.server import listening_socket, serve_until_stopped, url_of

connection.HEAD_SECONDS = float(sys.argv[1])
connection.CONNECTIONS = 20
app = FastAPI()

@app.get("/quick")
def quick():
    return "done"

@app.get("/slow")
def slow():
    time.sleep(3)
    return "done at last"

large = Response(bytes(16_000_000))

@app.get("/large")
async def get_large():
    return large

@app.post("/body")
async def body(request: Request):
    try:
        return len(await request.body())
    except ClientDisconnect:
        return None

resource.setrlimit(resource.RLIMIT_NOFILE, (120, 120))
with listening_socket("127.0.0.1", 0) as listener:
    print(url_of(listener), flush=True)
    serve_until_stopped(app, listener)
"""
QUICK = b"GET /quick HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
CHUNKED = b"POST /body HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n"


@contextmanager
def serving(head_seconds: float):
    """A server of its own, and its address."""
    words = [sys.executable, "-c", SERVICE, str(head_seconds)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process, process.stdout.readline().strip()
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
def service():
    with serving(1.0) as server:
        yield server


@pytest.fixture
def patient_service():
    """It closes nothing because of the time."""
    with serving(300.0) as server:
        yield server


def connect(url: str) -> socket.socket:
    host, _, port = url.removeprefix("http://").partition(":")
    return socket.create_connection((host, int(port)), timeout=30)


@pytest.mark.parametrize("sent", [b"", b"GET /quick HT", QUICK[:-2], QUICK + b"GET /q"])
def test_a_connection_that_stalls_in_its_headers_is_closed_and_blocks_nobody(service, sent):
    _, url = service
    stalled = [connect(url) for _ in range(5)]
    for each in stalled:
        each.sendall(sent)
    assert ask(f"{url}/quick").json == "done"
    for each in stalled:
        while each.recv(1000):  # what was asked for is answered first
            pass
        each.close()


def test_a_malformed_body_is_refused_without_a_traceback(service):
    process, url = service
    for chunks in (b"zz\r\nhello\r\n", b"5\r\nhelloXX"):
        with connect(url) as each:
            each.sendall(CHUNKED + chunks)
            assert each.recv(1000).startswith(b"HTTP/1.1 400 ")
    with connect(url) as each:
        each.sendall(QUICK + b"\x00\x00 nonsense\r\n\r\n")  # after the answer to a good one
        while each.recv(1000):
            pass
    process.terminate()
    assert "Traceback" not in process.communicate(timeout=30)[1]


@pytest.mark.parametrize("sent", [b"", QUICK[:-2], CHUNKED + b"5\r\nhel", b"GET /large HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"])
def test_many_connections_keep_nobody_out_and_use_up_no_files(patient_service, sent):
    """Silent ones, half requests, and answers that nobody reads. The server may open 120 files."""
    process, url = patient_service
    with ExitStack() as opened:
        for number in range(150):
            each = opened.enter_context(connect(url))
            try:
                each.sendall(sent)
            except ConnectionError:  # closed for a newer one
                continue
            if number % 20 == 0:
                started = time.monotonic()
                assert ask(f"{url}/quick").json == "done"
                assert time.monotonic() - started < 10
        assert len(list(Path(f"/proc/{process.pid}/fd").iterdir())) < 60
    process.terminate()
    errors = process.communicate(timeout=30)[1]
    assert "Traceback" not in errors
    assert "out of system resource" not in errors


def test_a_request_that_is_being_answered_is_not_closed_for_others(patient_service):
    _, url = patient_service
    with ThreadPoolExecutor() as pool, ExitStack() as opened:
        answer = pool.submit(ask, f"{url}/slow")
        time.sleep(0.5)
        for _ in range(100):
            opened.enter_context(connect(url))
        assert answer.result().json == "done at last"
