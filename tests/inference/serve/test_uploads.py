import asyncio

import pytest
from starlette.requests import Request

from aevlp.inference.serve.uploads import Limits, Refusal, Upload, UploadMemory, read_uploads
from tests.inference.serve.talk import BOUNDARY, FORM, form

LIMITS = Limits(files=3, file_bytes=100, request_bytes=250, pixels=0, request_pixels=0)
KIND = FORM["Content-Type"]


def read(body: bytes, *, kind: str = KIND, length: str | None = None, step: int = 10_000, memory: int = 10**6) -> list[Upload]:
    pieces = [body[start : start + step] for start in range(0, len(body), step)]
    messages = [{"type": "http.request", "body": piece, "more_body": True} for piece in pieces]
    messages.append({"type": "http.request", "body": b"", "more_body": False})

    async def receive():
        return messages.pop(0)

    headers = {"content-type": kind} if length is None else {"content-type": kind, "content-length": length}
    scope = {"type": "http", "headers": [(name.encode(), value.encode()) for name, value in headers.items()]}
    with UploadMemory(memory).share() as take:
        return asyncio.run(read_uploads(Request(scope, receive), LIMITS, take))


def refusal(body: bytes, **options) -> tuple[int, str]:
    with pytest.raises(Refusal) as caught:
        read(body, **options)
    return caught.value.status, caught.value.detail


@pytest.mark.parametrize("step", [1, 2, 7, 64, 10_000])
def test_files_come_out_as_they_went_in_however_they_are_cut(step):
    sent = [("a.png", b"\r\n--" + bytes(range(90))), ("größe.jpg", f"\r\n--{BOUNDARY[:-1]}".encode()), ("a.png", b"")]
    assert read(form(sent), step=step) == [Upload(*one) for one in sent]


def test_what_is_no_form_is_refused():
    wanted = (415, "send a form, multipart/form-data, with images in the field files")
    for kind in ("", "image/png", "multipart/form-data", "application/x-www-form-urlencoded; boundary=x"):
        assert refusal(form([("a", b"b")]), kind=kind) == wanted
    status, detail = refusal(b"this is no form", step=3)
    assert status == 400
    assert detail.startswith("the form cannot be read (")
    assert "\n" not in detail
    whole = form([("a", b"b" * 50)])
    for end in (len(whole) - 6, len(whole) // 2, 0):
        assert refusal(whole[:end]) == (400, "the form breaks off before its end; send it again")
    assert refusal(form([("n" * 2000, b"b")]))[0] == 400


def test_fields_and_files_must_be_what_is_asked_for():
    assert refusal(form([("a", b"b")], field="image")) == (422, "unknown field 'image'; send images in the field files")
    text = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="files"\r\n\r\nhello\r\n--{BOUNDARY}--\r\n'
    assert refusal(text.encode()) == (422, "the field files has a text in it; send files")
    nothing = (422, "no image was sent; send images in the field files")
    assert refusal(form([])) == nothing
    assert refusal(form([("", b"")])) == nothing  # a browser's form in which no file was chosen


def test_too_much_is_refused():
    assert len(read(form([("a", b"x" * 100), ("b", b"x" * 100), ("c", b"x")]))) == 3
    assert refusal(form([("a", b"x" * 101), ("b", b"")]), step=10) == (413, "a: has more than 0.0001 MB; send it smaller")
    assert refusal(form([("a", b"")] * 4)) == (413, "more than 3 images in one request; send fewer at once")
    whole = (413, "the request has more than 0.00025 MB; send fewer images at once")
    assert refusal(form([("a", b"x" * 9000)])) == whole
    assert refusal(b"", length="9000") == whole  # before anything is read


def test_uploads_share_the_memory_and_give_it_back():
    body, memory = form([("a", b"x" * 100)]), UploadMemory(1000)
    assert refusal(body, memory=len(body) - 1) == (503, "too many uploads at once; try again in a moment")
    with memory.share() as take:
        take(600)
        with memory.share() as other, pytest.raises(Refusal):
            other(401)
        take(400)
    with memory.share() as take:
        take(1000)
