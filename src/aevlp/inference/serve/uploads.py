"""Uploaded files from the body of a request: in memory only, within limits.

Starlette's form parser (`request.form`) cannot enforce these limits: its `max_part_size` holds for text fields only. It accepts a
file of any size and moves it to disk from 1 MB on. This parser stops keeping bytes as soon as a file is too large, and reads no
more than the largest request.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import Request

FIELD = "files"
FORM_BYTES = 2_000  # that a form may have for each file beside the file itself
LONGEST_HEADER = 1_000
PATIENCE = 10.0  # seconds without a byte, and to send the first ones
SLOWEST = 20_000  # bytes per second of an upload that takes longer


@dataclass(frozen=True)
class Limits:
    """Limits of a request."""

    files: int
    file_bytes: int
    """Of one image."""
    request_bytes: int
    """Of all images together: they are in memory until the request is answered."""
    pixels: int
    """Of one image; a pixel with 2 or 4 bytes, which few formats have, counts as so many."""
    request_pixels: int
    """Of all images together."""


class Refusal(Exception):
    """A request that cannot be answered: the status of the response, and one line that says why."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status, self.detail = status, detail


@dataclass(frozen=True)
class Upload:
    """A file as it was sent."""

    name: str
    content: bytes


class UploadMemory:
    """The memory that the uploads of all open requests share, in bytes."""

    def __init__(self, size: int) -> None:
        self._free = size

    @contextmanager
    def share(self) -> Iterator[Callable[[int], None]]:
        """Yield a function that takes a number of bytes, which are free again at the end, or refuses the request."""
        taken = 0

        def take(count: int) -> None:
            nonlocal taken
            if count > self._free:
                raise Refusal(503, "too many uploads at once; try again in a moment")
            self._free -= count
            taken += count

        try:
            yield take
        finally:
            self._free += taken


async def read_uploads(request: Request, limits: Limits, take: Callable[[int], None]) -> list[Upload]:
    """Return the files of a form, at least one; refuse anything else, a form beyond the limits, and one that is too slow.

    `take` is called with the number of bytes that came, before they are kept.
    """
    kind, options = parse_options_header(request.headers.get("content-type", ""))
    if kind != b"multipart/form-data" or not options.get(b"boundary"):
        raise Refusal(415, f"send a form, multipart/form-data, with images in the field {FIELD}")
    most = limits.request_bytes + limits.files * FORM_BYTES
    too_large = Refusal(413, f"the request has more than {megabytes(limits.request_bytes)}; send fewer images at once")
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length) > most:
        raise too_large
    received = 0
    try:
        form = _Form(options[b"boundary"], limits)
        async for piece in in_time(request.stream()):
            received += len(piece)
            if received > most:
                raise too_large
            take(len(piece))
            form.parser.write(piece)
    except FormParserError as error:
        text = " ".join(str(error).split())
        raise Refusal(400, f"the form cannot be read ({text}); send multipart/form-data") from error
    return form.files()


async def in_time(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the pieces of a body; refuse one that stalls, or that comes more slowly than anybody's line."""
    started, received = time.monotonic(), 0
    while True:
        left = PATIENCE + received / SLOWEST - (time.monotonic() - started)
        try:
            async with asyncio.timeout(min(PATIENCE, left)):
                piece = await anext(pieces)
        except StopAsyncIteration:
            return
        except TimeoutError:
            raise Refusal(408, "the upload stalls or is too slow; send it again") from None
        received += len(piece)
        yield piece


def megabytes(count: int) -> str:
    """Return a number of bytes as text: '20 MB'."""
    return f"{count / 1e6:g} MB"


class _Form:
    """Collects the files of a form, piece by piece.

    Wrong content is refused at the end: a client that is interrupted while it sends may never read the answer.
    """

    def __init__(self, boundary: bytes, limits: Limits) -> None:
        self._limits = limits
        self._files: list[Upload] = []
        self._refusal: Refusal | None = None
        self._is_complete = False
        self._header, self._value = bytearray(), bytearray()
        self._name: str | None = None
        self._content = bytearray()
        self.parser = MultipartParser(
            boundary,
            {
                "on_header_field": lambda data, start, end: self._extend(self._header, data[start:end]),
                "on_header_value": lambda data, start, end: self._extend(self._value, data[start:end]),
                "on_header_end": self._end_header,
                "on_headers_finished": self._end_headers,
                "on_part_data": self._add_content,
                "on_part_end": self._end_part,
                "on_end": self._end,
            },
        )

    def files(self) -> list[Upload]:
        """Return the files, after the last piece."""
        if self._refusal is not None:
            raise self._refusal
        if not self._is_complete:
            raise Refusal(400, "the form breaks off before its end; send it again")
        if not self._files:
            raise Refusal(422, f"no image was sent; send images in the field {FIELD}")
        return self._files

    def _refuse(self, status: int, detail: str) -> None:
        self._refusal = self._refusal or Refusal(status, detail)
        self._files.clear()  # frees the memory

    def _extend(self, text: bytearray, piece: bytes) -> None:
        text += piece
        if len(text) > LONGEST_HEADER:
            raise FormParserError("a header is too long")

    def _end_header(self) -> None:
        if self._header.lower() == b"content-disposition":
            _, options = parse_options_header(bytes(self._value))
            field = options.get(b"name", b"").decode(errors="replace")
            if field != FIELD:
                self._refuse(422, f"unknown field {field!r}; send images in the field {FIELD}")
            elif b"filename" not in options:
                self._refuse(422, f"the field {FIELD} has a text in it; send files")
            else:
                self._name = options[b"filename"].decode(errors="replace")
        self._header.clear()
        self._value.clear()

    def _end_headers(self) -> None:
        if self._name and len(self._files) == self._limits.files:
            self._refuse(413, f"more than {self._limits.files} images in one request; send fewer at once")

    def _add_content(self, data: bytes, start: int, end: int) -> None:
        if self._refusal is not None or self._name is None:
            return
        self._content += data[start:end]
        if len(self._content) > self._limits.file_bytes:
            self._content.clear()
            self._refuse(413, f"{self._name}: has more than {megabytes(self._limits.file_bytes)}; send it smaller")

    def _end_part(self) -> None:
        # A browser sends a file without a name if none was chosen in the form.
        if self._refusal is None and self._name:
            self._files.append(Upload(self._name, bytes(self._content)))
        self._name, self._content = None, bytearray()

    def _end(self) -> None:
        self._is_complete = True
