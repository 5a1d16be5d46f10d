"""Connections that stall in the head of a request, and requests that turn out to be malformed."""

import socket
import subprocess
import sys

import pytest

from tests.inference.serve.talk import ask

SERVICE = """
from fastapi import FastAPI, Request
from starlette.requests import ClientDisconnect
from aevlp.inference.serve import connection
from aevlp.inference.serve.server import listening_socket, serve_until_stopped, url_of

connection.HEAD_SECONDS = 1.0
app = FastAPI()

@app.get("/quick")
def quick():
    return "done"

@app.post("/body")
async def body(request: Request):
    try:
        return len(await request.body())
    except ClientDisconnect:
        return None

with listening_socket("127.0.0.1", 0) as listener:
    print(url_of(listener), flush=True)
    serve_until_stopped(app, listener)
"""
QUICK = b"GET /quick HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
CHUNKED = b"POST /body HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.fixture
def service():
    """A server of its own, and its address."""
    process = subprocess.Popen([sys.executable, "-c", SERVICE], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process, process.stdout.readline().strip()
    finally:
        process.kill()
        process.communicate()


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
