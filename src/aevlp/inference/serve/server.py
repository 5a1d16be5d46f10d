"""The socket that the service listens at, and the web server's life until it is told to stop."""

from __future__ import annotations

import errno
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from typing import TYPE_CHECKING

from aevlp.core.errors import UserError

if TYPE_CHECKING:
    from fastapi import FastAPI

BACKLOG = 64  # connections that wait to be accepted, and that are accepted at once


def listening_socket(host: str, port: int) -> socket.socket:
    """Return a socket that listens already, so that no other program can take the port; refuse an address that cannot be used.

    Port 0: any free one.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except (OSError, UnicodeError):
        raise UserError(f"--host {host}: no such address; use 127.0.0.1, or 0.0.0.0 for all addresses of this machine") from None
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise UserError(f"--port {port}: in use by another program; choose another, or 0 for any free one") from None
        if error.errno in (errno.EACCES, errno.EPERM):
            raise UserError(f"--port {port}: this user may not use it; choose one from 1024 on") from None
        raise UserError(f"--host {host}: cannot listen there ({error.strerror}); use an address of this machine") from None
    return listener


def url_of(listener: socket.socket) -> str:
    """Return the address for a browser."""
    host, port = listener.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def is_local(listener: socket.socket) -> bool:
    """Return whether only programs on this machine can reach the socket."""
    return ip_address(listener.getsockname()[0].split("%")[0]).is_loopback


def serve_until_stopped(app: FastAPI, listener: socket.socket) -> None:
    """Answer requests until Ctrl-C or SIGTERM, then finish the open ones."""
    from aevlp.inference.serve.connection import make_server  # needs uvicorn, an optional extra

    server = make_server(app)
    with signals_end_well(lambda: sys.exit(0)):
        server.run(sockets=[listener])


@contextmanager
def signals_end_well(leave: Callable[[], object] = lambda: os._exit(0)) -> Iterator[None]:
    """Within it, SIGINT and SIGTERM exit with 0. uvicorn raises them again after its shutdown.

    By default at once: while a model is loaded there is nothing to finish, and an exception may be lost in a library.
    """
    before = {number: signal.signal(number, lambda *_: leave()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
