"""Access to the page: the checks that every request passes before anything reads it."""

import asyncio
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs

from starlette.datastructures import Headers
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from aevlp.inference.hosts import LOOPBACK, Hosts, is_from_elsewhere, refused_host

MOST_BYTES = 64_000  # of a request's body
BODY_SECONDS = 10.0  # that a body may take
COOKIE = "aevlp-review"


@dataclass(frozen=True)
class Access:
    """The rules of access."""

    hosts: Hosts = LOOPBACK
    """Names that the server is reached by; None: any, which takes a token."""
    token: str | None = None


class Guard:
    """Refuses requests that do not keep the rules."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self.app, self.access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, with its whole body, or answer it."""
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        refusal = self._refusal(scope)
        if refusal is None and scope["method"] == "POST":
            body = await _read_body(receive)
            if body is None:
                return None  # the client has gone
            refusal, receive = (None, _first(body, receive)) if isinstance(body, bytes) else (body, receive)
        await (self.app if refusal is None else refusal)(scope, receive, send)
        return None

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        if (answer := refused_host(headers, self.access.hosts)) is not None:
            return answer
        if scope["method"] not in ("GET", "HEAD", "POST"):
            return _refused(405, "only GET and POST are answered")
        if is_from_elsewhere(headers):
            return _refused(403, "another page may not use this server")
        if self.access.token is not None and (answer := self._without_token(scope, headers)) is not None:
            return answer
        return _wrong_body(headers) if scope["method"] == "POST" else None

    def _without_token(self, scope: Scope, headers: Headers) -> Response | None:
        """Return the answer to a request that needs the token, or that brings it in its address; None: it may go on."""
        if self._is_token([headers.get("authorization", "").removeprefix("Bearer "), *_cookies(headers)]):
            return None
        asked = parse_qs(scope["query_string"].decode("latin-1")).get("token", [])
        if scope["path"] == "/" and self._is_token(asked):
            answer = RedirectResponse("./", 303)  # so that the token does not stay in the address
            answer.set_cookie(COOKIE, asked[0], httponly=True, samesite="strict")
            return answer
        return _refused(401, "a token is needed: open the address with ?token=... that the person who started the review has")

    def _is_token(self, offered: Iterable[str]) -> bool:
        expected = (self.access.token or "").encode()
        return any(secrets.compare_digest(each.encode("utf-8", "replace"), expected) for each in offered)


def _cookies(headers: Headers) -> list[str]:
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return []
    return [] if found is None else [found.value]


def _wrong_body(headers: Headers) -> Response | None:
    if headers.get("content-type", "").split(";")[0].strip().lower() != "application/json":
        return _refused(415, "send JSON (content-type: application/json)")
    length = headers.get("content-length", "")
    if not length.isdecimal():
        return _refused(411, "say how long the request is (content-length)")
    return _too_large() if int(length) > MOST_BYTES else None


async def _read_body(receive: Receive) -> bytes | Response | None:
    """Return the body of a request, the answer to one that is too large or too slow, or None if the client has gone.

    A length in the headers does not limit a body that comes in chunks.
    """
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    return None
                body += message.get("body", b"")
                if len(body) > MOST_BYTES:
                    return _too_large()
                if not message.get("more_body", False):
                    return bytes(body)
    except TimeoutError:
        return _refused(408, "the request stalls; send it again")


def _first(body: bytes, receive: Receive) -> Receive:
    """Return what receives a whole body, and then what comes after it."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def next_message() -> Message:
        return messages.pop() if messages else await receive()

    return next_message


def _too_large() -> Response:
    return _refused(413, f"the request has more than {MOST_BYTES} bytes; send less")


def _refused(status: int, why: str) -> Response:
    # A request that is refused before its end leaves a connection that cannot be used again.
    return JSONResponse({"detail": why}, status, {"Connection": "close"} if status in (408, 413) else None)
