"""The address that a service listens at, and its life until it is told to end."""

from __future__ import annotations

import errno
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from typing import TYPE_CHECKING

from aevlp.core.errors import UserError

if TYPE_CHECKING:
    from fastapi import FastAPI

LAST_REQUESTS = 10  # seconds that are left to them at the end
WAITING = 128  # connections


def listening_socket(host: str, port: int) -> socket.socket:
    """A socket that listens already, so that nobody else can take the port from here on; refused if it cannot be had.

    Port 0: any that is free.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except (OSError, UnicodeError):
        raise UserError(f"--host {host}: no such address; use 127.0.0.1, or 0.0.0.0 for all addresses of this machine") from None
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(WAITING)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise UserError(f"--port {port}: in use by another program; choose another, or 0 for any that is free") from None
        if error.errno in (errno.EACCES, errno.EPERM):
            raise UserError(f"--port {port}: not allowed to this user; choose one from 1024 on") from None
        raise UserError(f"--host {host}: cannot be listened at ({error.strerror}); use an address of this machine") from None
    return listener


def url_of(listener: socket.socket) -> str:
    """Where a browser finds it."""
    host, port = listener.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def is_local(listener: socket.socket) -> bool:
    """Whether only programs on this machine can reach it."""
    return ip_address(listener.getsockname()[0].split("%")[0]).is_loopback


def serve_until_told(app: FastAPI, listener: socket.socket) -> None:
    """Answers requests until Ctrl-C or SIGTERM, then finishes those in hand."""
    import uvicorn

    # No log of its own: what goes wrong still reaches standard error.
    config = uvicorn.Config(
        app, log_config=None, access_log=False, server_header=False, ws="none", timeout_graceful_shutdown=LAST_REQUESTS
    )
    with _told_to_end_is_done():
        uvicorn.Server(config).run(sockets=[listener])


@contextmanager
def _told_to_end_is_done() -> Iterator[None]:
    """A signal to end, which the server hands on after it has ended in order, is then no failure."""
    before = {number: signal.signal(number, lambda *_: sys.exit(0)) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
