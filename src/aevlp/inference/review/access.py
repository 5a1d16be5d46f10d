"""Access to the page: the checks that every request passes before anything reads it."""

import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs, urlsplit

from starlette.datastructures import Headers
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from aevlp.inference.hosts import LOOPBACK, Hosts, refused_host

MOST_BYTES = 64_000  # of a request's body
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
        """Pass a request on, or answer it."""
        refusal = self._refusal(scope) if scope["type"] == "http" else None
        await (self.app if refusal is None else refusal)(scope, receive, send)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        if (answer := refused_host(headers, self.access.hosts)) is not None:
            return answer
        if scope["method"] not in ("GET", "HEAD", "POST"):
            return _refused(405, "only GET and POST are answered")
        origin = headers.get("origin")
        if (origin is not None and urlsplit(origin).netloc != headers.get("host", "")) or headers.get(
            "sec-fetch-site"
        ) == "cross-site":
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
    return _refused(413, f"the request has more than {MOST_BYTES} bytes; send less") if int(length) > MOST_BYTES else None


def _refused(status: int, why: str) -> Response:
    return JSONResponse({"detail": why}, status)
