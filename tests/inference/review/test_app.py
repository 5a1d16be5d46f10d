"""The interface of a review, as browsers and others use it."""

import json
import re
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO

import pytest
from PIL import Image

from aevlp.core.errors import UserError
from aevlp.data.readers import read
from aevlp.inference.completion.formats import LABEL_FORMATS
from aevlp.inference.options import ReviewOptions
from aevlp.inference.review import pictures
from aevlp.inference.review.access import Access
from aevlp.inference.review.app import access_for
from aevlp.inference.review.pictures import Pictures
from aevlp.inference.serve.server import listening_socket
from tests.inference.review.made import open_review, served, values
from tests.inference.serve.talk import ask

JSON = {"Content-Type": "application/json"}
TOKEN = "correcthorse"


@pytest.fixture
def session(data):
    return open_review(data, audit=8)


@pytest.fixture
def url(session):
    with served(session) as address:
        yield address


def post(url, path, session, headers=None, **body):
    body = {"who": "anna", "holder": "window-of-anna", "set": session.fingerprint, **body}
    return ask(f"{url}/api/{path}", "POST", json.dumps(body).encode(), {**JSON, **(headers or {})})


def told(answer):
    assert list(answer.json) == ["detail"], answer
    assert "\n" not in answer.json["detail"]
    return answer.status, answer.json["detail"]


def test_a_grid_is_asked_for_settled_and_undone(url, session):
    grid = post(url, "grid", session).json["grid"]
    cells = [each["cell"] for each in grid["cells"]]
    assert [each["confidence"] for each in grid["cells"]] == sorted((each["confidence"] for each in grid["cells"]), reverse=True)
    assert all(each["file"] == session.table.names[each["row"]] for each in grid["cells"])
    assert post(url, "grid", session).json["grid"] == grid  # a reload shows it again
    ahead = post(url, "grid", session, ahead=True).json["grid"]
    assert not {each["cell"] for each in ahead["cells"]} & set(cells)
    settled = post(url, "settle", session, cells=cells, marked=cells[:1], accepts=True, keys=3, seconds=5.5).json
    assert settled["count"] == settled["progress"]["answered"] == len(cells) == len(values(session))
    assert post(url, "grid", session).json["grid"]["cells"] == ahead["cells"]
    undone = post(url, "undo", session).json["undone"]
    assert (undone["kind"], undone["count"], undone["marked"]) == ("grid", len(cells), cells[:1])
    assert values(session) == {}
    assert post(url, "undo", session).json["undone"] is None
    effort = session.state.store.effort()
    assert (effort.actions, effort.keys, effort.seconds) == (1, 3, 5.5)


def test_an_image_is_answered_label_by_label(url, session):
    image = post(url, "image", session).json["image"]
    row, tag = image["row"], image["row"] % 4
    states = {chip["label"]: chip["state"] for chip in image["chips"]}
    assert states == {tag: "observed", (tag + 1) % 4: "proposed", (tag + 2) % 4: "candidate", (tag + 3) % 4: "candidate"}
    answers = [{"label": (tag + 1) % 4, "value": 1}, {"label": (tag + 2) % 4, "value": -1}]
    image = post(url, "answer", session, row=row, answers=answers).json["image"]
    states = {chip["label"]: chip["state"] for chip in image["chips"]}
    assert states == {tag: "observed", (tag + 1) % 4: "accepted", (tag + 2) % 4: "rejected", (tag + 3) % 4: "candidate"}
    image = post(url, "answer", session, row=row, answers=[{"label": (tag + 1) % 4, "value": 0}]).json["image"]
    assert {chip["label"]: chip["state"] for chip in image["chips"]}[(tag + 1) % 4] == "proposed"
    assert post(url, "answer", session, row=row, complete=True).json["image"]["complete"] is True
    post(url, "leave-image", session, row=row)
    assert post(url, "image", session).json["image"]["row"] != row
    assert post(url, "image", session, row=row).json["image"]["row"] == row


def test_the_audit_and_the_plan_are_told(url, session):
    audit = post(url, "audit", session).json
    assert (audit["drawn"], audit["answered"], audit["line"], audit["above"]) == (8, 0, None, 0)
    assert "none of its images is answered yet" in audit["reason"]
    row = post(url, "image", session, mode="audit").json["image"]["row"]
    post(url, "answer", session, mode="audit", row=row, answers=[{"label": (row + 1) % 4, "value": 1}], complete=True)
    audit = post(url, "audit", session).json
    assert audit["answered"] == 1
    assert audit["precision"]["low"] < audit["precision"]["value"] == 1.0
    assert audit["reason"].startswith("No line keeps a precision of 95 %")
    refused = post(url, "accept-above", session, expected=3)
    assert told(refused) == (409, "the audit does not allow to accept labels together; answer more of it")
    plan = post(url, "plan", session, minutes=1000).json
    assert plan["by_class"]["labels"] == plan["by_image"]["labels"] == session.state.total
    assert plan["grids"][0]["reason"]


def test_pictures_are_served_by_number_and_bounded_in_size(url, session, data):
    answer = ask(f"{url}/image/3?size=9999")
    picture = Image.open(BytesIO(answer.body))
    assert (answer.status, answer.headers["content-type"], picture.format, picture.size) == (200, "image/jpeg", "JPEG", (48, 36))
    assert told(ask(f"{url}/image/40")) == (404, "no such image")
    assert told(ask(f"{url}/image/-1"))[0] == 404
    for path in ("/image/../completed.jsonl", "/image/%2e%2e%2fcompleted.jsonl", "/image/3?size=0", "/image/3?size=10001"):
        assert ask(f"{url}{path}").status in (404, 422)
    (data.parent / "images" / "005.png").write_bytes(b"nothing")
    assert told(ask(f"{url}/image/5")) == (404, "this image cannot be read: not an image, or of an unknown format")


def test_pictures_in_memory_are_bounded(session):
    kept = Pictures(session.table.paths, most_bytes=5000)
    sizes = {row: len(kept.jpeg(row, 256)) for row in range(40)}
    assert sum(sizes.values()) > 10_000
    assert kept.bytes == sum(map(len, kept._kept.values())) <= 5000
    assert list(kept._kept)[-1] == (39, 256)


def test_large_images_come_smaller(tmp_path, session):
    Image.new("RGB", (5000, 2500)).save(tmp_path / "large.jpg")
    session.table.paths[0].unlink()
    (tmp_path / "large.jpg").rename(session.table.paths[0])
    sizes = [Image.open(BytesIO(Pictures(session.table.paths).jpeg(0, size))).size for size in (1, 300, 10_000)]
    assert sizes == [(256, 128), (512, 256), (1600, 800)]
    assert pictures.SIZES[-1] == 1600


def test_every_format_is_exported_with_the_answers_so_far(url, session, data, tmp_path):
    grid = post(url, "grid", session, label=1).json["grid"]
    cells = [each["cell"] for each in grid["cells"]]
    post(url, "settle", session, cells=cells, accepts=False)
    for name, format in LABEL_FORMATS.items():
        answer = ask(f"{url}/export/{name}")
        if not format.suffix:  # a browser cannot save a folder
            assert answer.status == 404
            continue
        assert answer.status == 200, answer.body
        assert answer.headers["content-disposition"] == f'attachment; filename="reviewed{format.suffix}"'
        assert b"003.png" in answer.body
    saved = data.parent / "reviewed.jsonl"
    saved.write_bytes(ask(f"{url}/export/jsonl").body)
    again = read(saved, None)
    assert again.names == session.table.names
    assert (again.labels == session.state.labels).all()
    assert told(ask(f"{url}/export/exe"))[0] == 404


def test_wrong_requests_are_told_why_in_one_line(url, session):
    assert told(post(url, "grid", session, who="")) == (422, "who: a name has 1 to 40 printable letters and none of ;|=@")
    for who in ("a;b", "a|b", "a=b", "a@b", "x" * 41, "a\nb"):
        assert told(post(url, "grid", session, who=who))[0] == 422
    assert told(post(url, "grid", session, holder="<script>"))[0] == 422
    assert told(post(url, "grid", session, set="another")) == (409, "this page is of another image set; reload it")
    assert told(post(url, "grid", session, label=4)) == (409, "there is no such class; reload the page")
    assert told(post(url, "grid", session, label=2**40))[0] == 422
    assert told(post(url, "grid", session, more=1))[0] == 422
    assert told(post(url, "settle", session, cells=list(range(49)), accepts=True))[0] == 422
    assert told(post(url, "settle", session, cells=[10**6], accepts=True))[0] == 409
    assert told(post(url, "settle", session, cells=[], accepts=True))[0] == 409
    assert told(post(url, "settle", session, cells=[1], accepts=True, seconds=-1))[0] == 422
    assert told(post(url, "answer", session, row=10**6))[0] == 409
    assert told(post(url, "answer", session, row=1, answers=[{"label": 0, "value": 2}]))[0] == 422
    assert told(post(url, "answer", session, row=session.audit_rows[0], complete=True))[0] == 409
    assert told(post(url, "plan", session, minutes=0))[0] == 422
    assert told(post(url, "tiles", session, row=10**6))[0] == 409
    assert told(ask(f"{url}/nowhere"))[0] == 404
    assert told(ask(f"{url}/docs"))[0] == 404
    assert values(session) == {}


@pytest.mark.parametrize(
    ("length", "sent", "status"),
    [
        (b"", b"40000\r\n" + b"x" * 0x40000 + b"\r\n0\r\n\r\n", b"413"),
        (b"", b"5\r\nhello\r\n", b"408"),
        (b"Content-Length: 60000\r\n", b"{", b"408"),
    ],
)
def test_a_body_is_limited_in_size_and_time_whatever_its_headers_say(url, monkeypatch, length, sent, status):
    monkeypatch.setattr("aevlp.inference.review.access.BODY_SECONDS", 0.3)
    kind = length or b"Content-Length: 10\r\nTransfer-Encoding: chunked\r\n"
    with socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])), timeout=30) as connection:
        connection.sendall(
            b"POST /api/grid HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n" + kind + b"\r\n" + sent
        )
        assert connection.recv(1000).startswith(b"HTTP/1.1 " + status)


def test_only_this_page_may_use_the_server(url, session):
    port = url.rpartition(":")[2]
    grid = post(url, "grid", session).json["grid"]
    cells = [each["cell"] for each in grid["cells"]]
    for headers in (
        {"Host": "evil.example"},
        {"Host": f"evil.example:{port}"},
        {"Host": ""},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://["},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec-Fetch-Site": "cross-site"},
    ):
        assert told(post(url, "settle", session, headers, cells=cells, accepts=True))[0] == 403, headers
    assert told(ask(f"{url}/", headers={"Host": "evil.example"}))[0] == 403
    assert told(post(url, "settle", session, {"Content-Type": "text/plain"}, cells=cells, accepts=True))[0] == 415
    assert told(ask(f"{url}/api/grid", "PUT", b"{}", JSON))[0] == 405
    assert told(ask(f"{url}/api/grid", "POST", b" " * 64_001, JSON)) == (413, "the request has more than 64000 bytes; send less")
    assert values(session) == {}
    assert post(url, "grid", session, {"Origin": url}).status == 200
    assert post(url, "grid", session, {"Host": f"localhost:{port}", "Origin": f"http://localhost:{port}"}).status == 200


def test_a_token_is_needed_where_one_is_set(session):
    with served(session, Access(None, TOKEN)) as url:
        for path in ("/", "/image/1", "/export/csv", "/?token=wrong", "/image/1?token=" + TOKEN):
            assert told(ask(f"{url}{path}"))[0] == 401, path
        assert told(post(url, "grid", session))[0] == 401
        entered = ask(f"{url}/?token={TOKEN}")
        assert (entered.status, entered.headers["location"]) == (303, "./")
        cookie = entered.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        headers = {"Cookie": cookie.partition(";")[0]}
        assert ask(f"{url}/", headers=headers).status == 200
        assert post(url, "grid", session, headers).status == 200
        assert post(url, "grid", session, {"Authorization": f"Bearer {TOKEN}"}).status == 200
        assert told(post(url, "grid", session, {"Authorization": "Bearer wrong"}))[0] == 401


def test_another_host_needs_a_token():
    with listening_socket("0.0.0.0", 0) as listener:
        with pytest.raises(
            UserError, match=r"--host 0.0.0.0: others can reach it, so they need a password; choose one with --token"
        ):
            access_for(listener, ReviewOptions(host="0.0.0.0"))
        assert access_for(listener, ReviewOptions(host="0.0.0.0", token=TOKEN)) == Access(None, TOKEN)
    with listening_socket("127.0.0.1", 0) as listener:
        assert access_for(listener, ReviewOptions()) == Access(frozenset({"localhost", "127.0.0.1", "::1"}))
    with pytest.raises(UserError, match="--token: use at least 8 plain letters and digits"):
        ReviewOptions(token="short")


def test_the_page_is_complete_in_itself_and_names_are_no_markup(tmp_path, session, url):
    page = ask(url)
    text = page.body.decode()
    assert "<title>Review of set/completed.jsonl</title>" in text
    assert re.findall(r"https?:|@import|url\(|\bsrc=|<link(?! rel=\"icon\" href=\"data:,\">)", text) == []
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'sha256-" in policy
    assert "unsafe-inline' script" not in policy
    assert "innerHTML" not in text
    assert str(tmp_path) not in text


def test_tiles_without_a_store_are_explained_in_one_line(url, session, monkeypatch):
    answer = post(url, "tiles", session, row=1).json
    assert answer["tiles"] == []
    assert "\n" not in answer["reason"]
    assert answer["reason"].startswith("to download first:")


def test_people_at_once_answer_everything_exactly_once(url, session):
    confirmed, lock = [], threading.Lock()

    def work(number):
        person = {"who": f"person {number}", "holder": f"window-number-{number}"}
        while (grid := post(url, "grid", session, **person).json["grid"]) is not None:
            cells = [each["cell"] for each in grid["cells"]]
            assert post(url, "settle", session, cells=cells, accepts=True, **person).status == 200
            with lock:
                confirmed.extend(cells)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert len(confirmed) == len(set(confirmed))
    if session.state.is_open.any():  # the last images were held by others when somebody ended
        work(9)
    assert len(values(session)) == session.state.total
