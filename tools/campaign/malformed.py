"""Malformed requests: methods, paths, headers, lengths, chunks, forms, images and JSON that no client should send."""

import io
import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from PIL import Image

from tools.campaign.damage import HOSTILE, damage_bytes, damage_value, json_text

HOST = "127.0.0.1"
BOUNDARY = b"a-boundary"
BODIES: dict[str, dict[str, Any]] = {
    "state": {},
    "grid": {"label": 1, "ahead": False},
    "settle": {"cells": [0, 1, 2], "marked": [1], "left": [], "accepts": True, "keys": 3, "seconds": 1.5},
    "skip-grid": {"cells": [0, 1]},
    "image": {"mode": "image", "row": 1, "ahead": False},
    "leave-image": {"row": 2},
    "answer": {"mode": "audit", "row": 1, "answers": [{"label": 1, "value": 1}], "complete": True, "keys": 1, "seconds": 2.0},
    "accept-above": {"label": 1, "expected": 2, "keys": 1, "seconds": 1.0},
    "undo": {},
    "plan": {"minutes": 5.0},
    "audit": {"label": None, "ahead": True},
    "tiles": {"row": 1, "labels": [0, 1]},
}
PATHS = (
    *("/", "/health", "/api/model", "/openapi.json", "/image/0", "/image/-1", "/image/99999999999999999999", "/image/x?size=1"),
    *("/image/0?size=0", "/image/0?size=1e9", "/image/0?size=10000", "/image/1?size=NaN", "/export/csv", "/export/xlsx"),
    *(
        "/export/../../etc/passwd",
        "/export/jsonl",
        "/export/coco",
        "/../../../etc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "//etc/passwd",
    ),
    *(
        "/image/%2e%2e%2f%2e%2e",
        "/image/0%00",
        "/%ff%fe",
        "/?token=x",
        "/api/predict",
        "/api/predict?calibrated=maybe",
        "/a" * 3000,
    ),
    *("http://127.0.0.1/health", "*", "/health?" + "a=b&" * 5000, "/;x=y", "/api/", "/static/../app.py", "/docs", "/redoc"),
)
METHODS = (
    "GET",
    "POST",
    "PUT",
    "DELETE",
    "HEAD",
    "OPTIONS",
    "TRACE",
    "CONNECT",
    "PATCH",
    "get",
    "G ET",
    "",
    "X" * 5000,
    "GET\x00",
    "PROPFIND",
)
ODD_HEADERS: tuple[bytes, ...] = (
    b"Content-Length: -1",
    b"Content-Length: abc",
    b"Content-Length: 99999999999999999999999",
    b"Content-Length: 5\r\nContent-Length: 6",
    b"Content-Length: 0x10",
    b"Content-Length: 10\r\nTransfer-Encoding: chunked",
    b"Transfer-Encoding: gzip, chunked",
    b"Transfer-Encoding: nonsense",
    b"Host: evil.example",
    b"Host: 127.0.0.1@evil.example",
    b"Host: [::1",
    b"Host: " + b"a" * 5000,
    b"Origin: http://evil.example",
    b"Origin: null",
    b"Origin: http://[",
    b"Sec-Fetch-Site: cross-site",
    b"Content-Type: multipart/form-data",
    b"Content-Type: multipart/form-data; boundary=",
    b"Content-Type: multipart/form-data; boundary=" + b"x" * 300,
    b"Content-Type: multipart/form-data; boundary=\xff\xfe",
    b"Content-Type: application/json; charset=utf-7",
    b"Content-Encoding: gzip",
    b"Cookie: aevlp-review=\xff; a=b; =; ;;",
    b"Cookie: " + b"a=b; " * 2000,
    b"Authorization: Bearer \xff\xfe",
    b"Expect: 100-continue",
    b"Upgrade: websocket\r\nConnection: Upgrade",
    b"Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings",
    b"Range: bytes=9999999-1",
    b"If-None-Match: " + b"*" * 1000,
    b"Connection: close, keep-alive, nonsense",
    b"X: " + b"y" * 70_000,
    b"\r\n".join(b"X%d: y" % number for number in range(3000)),
    b"Bad Header: x",
    b": empty",
    b"No-Colon",
    b"X: a\r\n folded",
    b"X: \x00",
    b"X: \xc3\x28",
)
PREFACES = (
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"GET /health\r\n\r\n",
    b"GET /health HTTP/9.9\r\nHost: 127.0.0.1\r\n\r\n",
    b"GET /health HTTP/1.0\r\n\r\n",
    b"GET  /health  HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    b"\r\n\r\n\r\nGET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    b"GET /health HTTP/1.1\nHost: 127.0.0.1\n\n",
    b"SSH-2.0-OpenSSH_9.0\r\n",
    b"\x00" * 100,
)


@dataclass(frozen=True)
class Malformed:
    """A request, and how it is sent."""

    name: str
    content: bytes
    breaks_off: bool = False
    stalls: bool = False
    """Leave the connection open and send nothing more."""


def request(method: str, path: str, headers: list[bytes], body: bytes = b"") -> bytes:
    """Return the bytes of a request. A header that is given takes the place of the usual one."""
    lines = [f"{method} {path} HTTP/1.1".encode("utf-8", "replace")]
    given = {header.partition(b":")[0].lower() for header in headers}
    usual = [b"Host: " + HOST.encode(), b"Connection: close", *([b"Content-Length: %d" % len(body)] if body else [])]
    kept = [each for each in usual if each.partition(b":")[0].lower() not in given]
    if b"transfer-encoding" in given:
        kept = [each for each in kept if not each.startswith(b"Content-Length")]
    return b"\r\n".join([*lines, *kept, *headers, b"", b""]) + body


def form(files: list[tuple[bytes, bytes]], field: bytes = b"files") -> bytes:
    """Return a form as browsers send it."""
    parts = [
        b'--%s\r\nContent-Disposition: form-data; name="%s"; filename="%s"\r\n\r\n%s\r\n' % (BOUNDARY, field, name, content)
        for name, content in files
    ]
    return b"".join(parts) + b"--%s--\r\n" % BOUNDARY


def picture(rng: random.Random) -> bytes:
    """Return an image of some mode, size and format, sometimes damaged."""
    modes = {
        "PNG": ("RGB", "RGBA", "L", "P", "1", "I;16", "LA"),
        "JPEG": ("RGB", "L", "CMYK"),
        "GIF": ("P", "L"),
        "TIFF": ("F", "I", "RGB"),
        "WEBP": ("RGB",),
        "BMP": ("RGB", "1"),
    }
    kind = rng.choice(sorted(modes))
    size = rng.choice(((1, 1), (1, 3000), (40, 30), (3000, 1), (500, 500), (257, 255)))
    target = io.BytesIO()
    Image.new(rng.choice(modes[kind]), size).save(target, kind)
    return damage_bytes(target.getvalue(), rng)[0] if rng.random() < 0.5 else target.getvalue()


def _form_request(rng: random.Random) -> Malformed:
    kind = rng.choice(("images", "images", "damaged form", "damaged form", "names", "field", "many", "large", "huge PNG", "cut"))
    files = [(b"a.png", picture(rng)) for _ in range(rng.randrange(1, 4))]
    if kind == "names":
        files = [(rng.choice((b"", b"../../x", b"\xff\xfe", b"a" * 3000, b"\x00", b'q"q', b"a\r\nb")), files[0][1])]
    elif kind == "many":
        files = [(b"%d.png" % number, files[0][1][:200]) for number in range(rng.choice((33, 200)))]
    elif kind == "large":
        files = [(b"large.png", rng.randbytes(1000) * 21_000)]
    elif kind == "huge PNG":
        files = [
            (
                b"huge.png",
                b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\xea\x60\x00\x00\xea\x60\x08\x02\x00\x00\x00\x00\x00\x00\x00",
            )
        ]
    body = form(files, rng.choice((b"file", b"", b"files[]", b"x" * 2000)) if kind == "field" else b"files")
    if kind == "damaged form":
        body, how = damage_bytes(body, rng)
        kind = f"{kind}: {how}"
    if kind == "cut":
        body = body[: rng.randrange(len(body))]
    return Malformed(
        f"form: {kind}", request("POST", "/api/predict", [b"Content-Type: multipart/form-data; boundary=" + BOUNDARY], body)
    )


def _json_request(rng: random.Random, person: dict[str, str]) -> Malformed:
    path = rng.choice(sorted(BODIES))
    value, how = damage_value({**person, **BODIES[path]}, rng)
    body = json_text(value, rng).encode(errors="surrogatepass")
    if rng.random() < 0.2:
        body, how = damage_bytes(body, rng)
    return Malformed(f"{path}: {how}", request("POST", f"/api/{path}", [b"Content-Type: application/json"], body))


def _chunked(rng: random.Random, path: str, kind: bytes) -> Malformed:
    chunks = rng.choice(
        (
            b"5\r\nhello\r\n0\r\n\r\n",
            b"zz\r\nhello\r\n",
            b"5\r\nhelloXX",
            b"-1\r\n\r\n",
            b"FFFFFFFFFFFFFFFFF\r\nx",
            b"5;ext=" + b"x" * 70_000 + b"\r\nhello\r\n0\r\n\r\n",
            b"0\r\nX: y\r\n\r\n",
            b"",
        )
    )
    return Malformed("chunks", request("POST", path, [b"Transfer-Encoding: chunked", kind], chunks))


def malformed(server: str, rng: random.Random, image_set: str = "") -> Malformed:
    """Return a random malformed request for `serve` or `review`; `image_set` is the fingerprint that the review's page has."""
    person = {"who": "anna", "holder": "window-of-anna", "set": image_set}
    if server == "serve":
        path, kind, body = (
            "/api/predict",
            b"Content-Type: multipart/form-data; boundary=" + BOUNDARY,
            form([(b"a.png", picture(rng))]),
        )
    else:
        path, kind = "/api/grid", b"Content-Type: application/json"
        body = json.dumps({**person, "label": rng.choice(HOSTILE[:24])}).encode()

    def sent(name: str, method: str, path: str, headers: list[bytes], body: bytes = b"") -> Malformed:
        return Malformed(name, request(method, path, headers, body))

    def maybe() -> bytes:
        return rng.choice((b"", body))

    makers: list[tuple[int, Callable[[], Malformed]]] = [
        (8, lambda: _form_request(rng) if server == "serve" else _json_request(rng, person)),
        (2, lambda: sent("path", rng.choice(("GET", "POST", "HEAD")), rng.choice(PATHS), [], maybe())),
        (2, lambda: sent("method", rng.choice(METHODS), rng.choice(("/", path, "/health")), [kind], maybe())),
        (4, lambda: sent("header", "POST", path, [rng.choice(ODD_HEADERS), kind], body)),
        (2, lambda: sent("header", "GET", "/", [rng.choice(ODD_HEADERS)])),
        (1, lambda: _chunked(rng, path, kind)),
        (1, lambda: Malformed("preface", rng.choice(PREFACES))),
        (1, lambda: Malformed("random bytes", rng.randbytes(rng.choice((1, 100, 100_000))))),
        (1, lambda: Malformed("many at once", request("GET", "/", [b"Connection: keep-alive"]) * 20 + request("GET", "/", []))),
        (1, lambda: Malformed("breaks off", request("POST", path, [kind], body)[: rng.randrange(1, 400)], breaks_off=True)),
        (
            1,
            lambda: Malformed(
                "stalls in its body", request("POST", path, [kind, b"Content-Length: 60000"], body[:9]), stalls=True
            ),
        ),
        (1, lambda: Malformed("stalls in its headers", request("POST", path, [kind])[: rng.randrange(40)], stalls=True)),
        (1, lambda: Malformed("damaged", damage_bytes(request("POST", path, [kind], body), rng)[0])),
    ]
    return rng.choices([maker for _, maker in makers], [weight for weight, _ in makers])[0]()
