"""Uploaded files from the body of a request: in memory only, within limits.

Starlette's form parser (`request.form`) cannot enforce these limits: its `max_part_size` holds for text fields only. It accepts a
file of any size and moves it to disk from 1 MB on. This parser stops keeping bytes as soon as a file is too large, and reads no
more than the largest request.
"""

from dataclasses import dataclass

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import Request

FIELD = "files"
FORM_BYTES = 2_000  # that a form may have for each file beside the file itself
LONGEST_HEADER = 1_000


@dataclass(frozen=True)
class Limits:
    """Limits of a request."""

    files: int
    file_bytes: int
    """Of one image."""
    request_bytes: int
    """Of all images together: they are in memory until the request is answered."""


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


async def read_uploads(request: Request, limits: Limits) -> list[Upload]:
    """Return the files of a form, at least one; refuse anything else, and a form beyond the limits."""
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
        async for piece in request.stream():
            received += len(piece)
            if received > most:
                raise too_large
            form.parser.write(piece)
    except FormParserError as error:
        text = " ".join(str(error).split())
        raise Refusal(400, f"the form cannot be read ({text}); send multipart/form-data") from error
    return form.files()


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
