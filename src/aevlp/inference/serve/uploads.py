"""Uploaded files, out of the body of a request: in memory and nowhere else, within limits.

The form parser of the web framework puts larger files on disk and knows no limit on their size; this one does neither.
"""

from __future__ import annotations

from collections.abc import AsyncIterable
from dataclasses import dataclass

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from aevlp.inference.serve.answers import Limits

FIELD = "files"
AROUND = 2_000  # bytes that a form may have for each file beside the file itself
LONGEST_HEADER = 1_000


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


async def read_uploads(content_type: str, length: str | None, body: AsyncIterable[bytes], limits: Limits) -> list[Upload]:
    """The files of a form, at least one; refused if it is none, or if there is too much in it.

    `content_type` and `length` are the request's headers.
    """
    kind, options = parse_options_header(content_type)
    if kind != b"multipart/form-data" or not options.get(b"boundary"):
        raise Refusal(415, f"send a form, multipart/form-data, with images in the field {FIELD}")
    most = limits.request_bytes + limits.files * AROUND
    too_much = Refusal(413, f"the request has more than {megabytes(limits.request_bytes)}; send fewer images at once")
    if length is not None and length.isdecimal() and int(length) > most:
        raise too_much
    form = _Form(options[b"boundary"], limits)
    received = 0
    async for piece in body:
        received += len(piece)
        if received > most:
            raise too_much
        form.take(piece)
    return form.files()


def megabytes(count: int) -> str:
    """A number of bytes for people: '20 MB'."""
    return f"{count / 1e6:g} MB"


class _Form:
    """Takes in a form, piece by piece.

    What is wrong with its content is said at the end: who is interrupted while sending may never read the answer.
    """

    def __init__(self, boundary: bytes, limits: Limits) -> None:
        self._limits = limits
        self._files: list[Upload] = []
        self._refusal: Refusal | None = None
        self._is_whole = False
        self._header, self._value = bytearray(), bytearray()
        self._name: str | None = None
        self._content = bytearray()
        try:
            self._parser = MultipartParser(
                boundary,
                {
                    "on_part_begin": self._begin_part,
                    "on_header_field": lambda data, start, end: self._extend(self._header, data[start:end]),
                    "on_header_value": lambda data, start, end: self._extend(self._value, data[start:end]),
                    "on_header_end": self._end_header,
                    "on_headers_finished": self._end_headers,
                    "on_part_data": self._take_content,
                    "on_part_end": self._end_part,
                    "on_end": self._end,
                },
            )
        except FormParserError as error:
            raise _damaged(error) from error

    def take(self, piece: bytes) -> None:
        """Takes in the next bytes; refused if they are no form."""
        try:
            self._parser.write(piece)
        except FormParserError as error:
            raise _damaged(error) from error

    def files(self) -> list[Upload]:
        """What was sent, after the last piece."""
        if self._refusal is not None:
            raise self._refusal
        if not self._is_whole:
            raise Refusal(400, "the form breaks off before its end; send it again")
        if not self._files:
            raise Refusal(422, f"no image was sent; send images in the field {FIELD}")
        return self._files

    def _refuse(self, status: int, detail: str) -> None:
        self._refusal = self._refusal or Refusal(status, detail)
        self._files.clear()  # nobody will ask for them

    def _begin_part(self) -> None:
        self._name, self._content = None, bytearray()

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

    def _take_content(self, data: bytes, start: int, end: int) -> None:
        if self._refusal is not None or self._name is None:
            return
        self._content += data[start:end]
        if len(self._content) > self._limits.file_bytes:
            self._content.clear()
            limit = megabytes(self._limits.file_bytes)
            self._refuse(413, f"{self._name}: has more than {limit}; send it smaller")

    def _end_part(self) -> None:
        # A browser sends a file without a name for a form in which none was chosen.
        if self._refusal is None and self._name:
            self._files.append(Upload(self._name, bytes(self._content)))
        self._content = bytearray()

    def _end(self) -> None:
        self._is_whole = True


def _damaged(error: FormParserError) -> Refusal:
    return Refusal(400, f"the form cannot be read ({' '.join(str(error).split())}); send multipart/form-data")
