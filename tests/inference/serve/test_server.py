import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from aevlp.core.errors import UserError
from aevlp.inference.serve.server import is_local, listening_socket, url_of
from tests.inference.serve.talk import ask

SERVICE = """
import sys, time
from fastapi import FastAPI
from aevlp.inference.serve.server import listening_socket, serve_until_stopped, url_of

app = FastAPI()

@app.get("/slow")
def slow():
    print("asked", flush=True)
    time.sleep(0.5)
    return "done"

with listening_socket("127.0.0.1", 0) as listener:
    print(url_of(listener), flush=True)
    serve_until_stopped(app, listener)
"""


@pytest.mark.parametrize("told", [signal.SIGINT, signal.SIGTERM])
def test_who_is_told_to_end_finishes_what_is_in_hand_and_has_not_failed(told):
    process = subprocess.Popen([sys.executable, "-c", SERVICE], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        with ThreadPoolExecutor(1) as pool:
            answer = pool.submit(ask, f"{url}/slow")
            assert process.stdout.readline() == "asked\n"
            process.send_signal(told)
            assert answer.result().json == "done"
        out, err = process.communicate(timeout=30)
        assert (process.returncode, out, err) == (0, "", "")
    finally:
        process.kill()
        process.communicate()


def test_nobody_else_can_take_the_port():
    with listening_socket("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        with pytest.raises(UserError, match=f"--port {port}: in use by another program"):
            listening_socket("127.0.0.1", port)
        assert url_of(first) == f"http://127.0.0.1:{port}"


@pytest.mark.parametrize(
    ("host", "expected"), [("127.0.0.1", True), ("127.0.0.2", True), ("localhost", True), ("0.0.0.0", False)]
)
def test_who_can_reach_it(host, expected):
    with listening_socket(host, 0) as listener:
        assert is_local(listener) is expected
