"""Names that a local server is reached by. A request with another one comes from a page elsewhere (DNS rebinding)."""

import socket
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from aevlp.inference.serve.server import is_local

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
WILDCARDS = ("0.0.0.0", "::")
Hosts = frozenset[str] | None  # None: any


def hosts_of(listener: socket.socket, host: str) -> Hosts:
    """Return the names of a server that listens at `host`; None if it listens at all addresses, whose names are not known."""
    address = listener.getsockname()[0]
    if is_local(listener):
        return LOOPBACK | {host.lower()}
    return None if address in WILDCARDS else LOOPBACK | {host.lower(), address}


def refused_host(headers: Headers, hosts: Hosts) -> Response | None:
    """Return the answer to a request under another name; None: the name is right."""
    if hosts is None or _name(headers.get("host", "")) in hosts:
        return None
    return JSONResponse({"detail": "this server is not reached by that name; use the address that it printed"}, 403)


def is_from_elsewhere(headers: Headers) -> bool:
    """Return whether a browser sends a request for a page of another server."""
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site == "same-origin":  # no page can forge it; behind a proxy, the host may be another one than the page's
        return False
    return site == "cross-site" or (origin is not None and _place(origin) != headers.get("host", ""))


def _place(origin: str) -> str | None:
    """Return the host and port of a page's address; None if it is no address."""
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return None


class HostGuard:
    """Answers requests under another name before anything reads them."""

    def __init__(self, app: ASGIApp, hosts: Hosts) -> None:
        self.app, self.hosts = app, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it."""
        refusal = refused_host(Headers(scope=scope), self.hosts) if scope["type"] == "http" else None
        await (self.app if refusal is None else refusal)(scope, receive, send)


def _name(host: str) -> str:
    """Return the host of a Host header, without its port."""
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""
