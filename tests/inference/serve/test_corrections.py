"""Corrections that people send: kept as answers, or refused in one sentence."""

import json
import threading

import pytest

from aevlp.core.errors import UserError
from aevlp.data.annotations import COMPLETE
from aevlp.data.answers import ACCEPTED, REJECTED, AnswerStore
from aevlp.inference.serve import app
from aevlp.inference.serve.corrections import MOST_BYTES
from tests.inference.serve.talk import ask, served

JSON = {"Content-Type": "application/json"}
DOG = {"image": "dog.jpg", "present": ["red"], "absent": ["blue"]}


def post(url, body, headers=JSON, path="/api/answers"):
    return ask(f"{url}{path}", "POST", body if isinstance(body, bytes) else json.dumps(body).encode(), headers)


def answers(path):
    return {(each.image, each.label, each.value, each.who) for each in AnswerStore(path, must_exist=True).current()}


@pytest.fixture(scope="module")
def kept(run, tmp_path_factory):
    """The address of a service with a file of answers, and the file."""
    path = tmp_path_factory.mktemp("kept") / "answers.sqlite"
    with served(run, answers=path) as url:
        yield url, path


def test_corrections_are_answers(run, tmp_path):
    path = tmp_path / "answers.sqlite"
    with served(run, answers=path) as url:
        said = post(url, {"who": "anna", "corrections": [DOG, {"image": "sub/b.jpg", "present": ["red"], "complete": True}]})
        assert (said.status, said.json) == (200, {"kept": 4})
        assert post(url, {"corrections": [{"image": "dog.jpg", "absent": ["red"]}]}).json == {"kept": 1}
    assert answers(path) == {
        ("dog.jpg", "red", REJECTED, "somebody"),  # the last one counts
        ("dog.jpg", "blue", REJECTED, "anna"),
        ("sub/b.jpg", "red", ACCEPTED, "anna"),
        ("sub/b.jpg", COMPLETE, ACCEPTED, "anna"),
    }


def test_many_may_send_at_once(kept):
    url, path = kept
    bodies = [{"corrections": [{"image": f"{number}.jpg", "present": ["green"]}]} for number in range(12)]
    threads = [threading.Thread(target=post, args=(url, body)) for body in bodies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {image for image, *_ in answers(path)} >= {f"{number}.jpg" for number in range(12)}


def test_without_a_file_of_answers_they_come_back_as_one(url, tmp_path):
    said = post(url, {"corrections": [DOG]})
    assert said.status == 409
    assert said.json["detail"] == "this service keeps no answers; start it with --answers FILE, or ask api/answers/file"
    said = post(url, {"who": "ben", "corrections": [DOG]}, path="/api/answers/file")
    assert said.status == 200
    assert said.headers["content-disposition"] == 'attachment; filename="answers.sqlite"'
    (tmp_path / "saved.sqlite").write_bytes(said.body)
    assert answers(tmp_path / "saved.sqlite") == {("dog.jpg", "red", ACCEPTED, "ben"), ("dog.jpg", "blue", REJECTED, "ben")}


@pytest.mark.parametrize(
    ("body", "status", "detail"),
    [
        (b"{", 400, "the corrections cannot be read as JSON; send them again"),
        (b"\xff\xfe", 400, "the corrections cannot be read as JSON; send them again"),
        (b"[" * 100_000, 400, "the corrections cannot be read as JSON; send them again"),
        (b"[]", 422, "the request: Input should be an object"),
        ({"corrections": []}, 422, "corrections: List should have at least 1 item after validation, not 0"),
        ({"corrections": [DOG], "more": 1}, 422, "more: Extra inputs are not permitted"),
        ({"corrections": [{**DOG, "image": "../dog.jpg"}]}, 422, "does not lead out of the folder of the answers"),
        ({"corrections": [{**DOG, "image": "/etc/passwd"}]}, 422, "an image is named as its file is, relative to the folder"),
        ({"corrections": [{**DOG, "image": "C:\\dog.jpg"}]}, 422, "an image is named as its file is, relative to the folder"),
        ({"corrections": [{**DOG, "image": "a\0b"}]}, 422, "an image is named as its file is, relative to the folder"),
        ({"corrections": [{**DOG, "image": ""}]}, 422, "corrections.0.image: String should have at least 1 character"),
        ({"corrections": [{**DOG, "present": ["zebra"]}]}, 422, "dog.jpg: 'zebra' is not a class of this model"),
        ({"corrections": [{**DOG, "absent": ["red"]}]}, 422, "dog.jpg: 'red' cannot be both present and absent"),
        ({"corrections": [{"image": "dog.jpg"}]}, 422, "dog.jpg: nothing is said about its labels"),
        ({"corrections": [{**DOG, "complete": "perhaps"}]}, 422, "corrections.0.complete: Input should be a valid boolean"),
        ({"who": "a;b", "corrections": [DOG]}, 422, "who: a name has 1 to 40 printable letters and none of ;|=@"),
        (b" " * (MOST_BYTES + 1), 413, "the corrections have more than 500,000 bytes; send fewer at once"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_sentence(kept, body, status, detail):
    url, path = kept
    before = answers(path)
    for address in ("/api/answers", "/api/answers/file"):
        said = post(url, body, path=address)
        assert said.status == status, said
        assert detail in said.json["detail"]
        assert "\n" not in said.json["detail"]
    assert answers(path) == before


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Content-Type": "text/plain"}, 415),  # what a form of another page can send without asking
        ({}, 415),
        ({**JSON, "Origin": "https://elsewhere.example"}, 403),
        ({**JSON, "Origin": "null"}, 403),
        ({**JSON, "Sec-Fetch-Site": "cross-site"}, 403),
        ({**JSON, "Host": "elsewhere.example"}, 403),
    ],
)
def test_another_page_cannot_send_corrections(kept, headers, status):
    url, path = kept
    before = answers(path)
    assert post(url, {"corrections": [DOG | {"image": "never.jpg"}]}, headers).status == status
    assert answers(path) == before


def test_behind_a_proxy_the_page_has_another_name(kept):
    """Browsers say themselves that the page and the service are one, since a proxy may not pass the name on."""
    headers = {**JSON, "Origin": "https://labels.example.org", "Sec-Fetch-Site": "same-origin"}
    assert post(kept[0], {"corrections": [DOG]}, headers).status == 200


def test_a_file_that_cannot_be_written_is_no_bug_of_the_client(kept, monkeypatch):
    def fail(store, found):
        raise UserError("the disk is full")

    monkeypatch.setattr(app, "keep", fail)
    said = post(kept[0], {"corrections": [DOG]})
    assert said.status == 503
    assert said.json["detail"] == "the answers cannot be written now; try again, or tell whoever runs this service"
