import http.client
import json
import re
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from urllib.parse import urlsplit

import numpy as np
import pytest
from jsonschema import Draft202012Validator
from PIL import Image

from aevlp import __version__
from aevlp.core.files import write_json
from aevlp.inference.predictor import BatchOutput, TrainedModel, load
from tests.inference.serve.talk import FORM, ask, form, send, send_paths, served
from tests.trained_runs import CALIBRATION, CLASSES, write_run


def test_answers_are_those_of_the_model(url, run, images):
    answer = send_paths(url, images[:20])
    assert answer.status == 200
    model = load(run, device="cpu")
    expected, labels = model.predict(images[:20]), model.labels(images[:20])
    assert answer.json["errors"] == []
    assert [one["name"] for one in answer.json["images"]] == [path.name for path in images[:20]]
    assert [one["labels"] for one in answer.json["images"]] == labels
    assert len({tuple(one) for one in labels}) > 2
    for one, probabilities in zip(answer.json["images"], expected, strict=True):
        assert list(one["probabilities"]) == CLASSES
        assert one["probabilities"] == pytest.approx(probabilities, abs=1e-5)


def test_a_broken_image_is_no_failure_of_the_others(url, images):
    good = images[3].read_bytes()
    sent = [("1.png", good), ("2.png", b"nothing"), ("1.png", images[4].read_bytes()), ("4.png", good[:90]), ("5.png", b"")]
    found = send(url, sent).json
    alone = [send_paths(url, [path]).json["images"][0]["probabilities"] for path in images[3:5]]
    assert [one["name"] for one in found["images"]] == ["1.png", "1.png"]
    for one, probabilities in zip(found["images"], alone, strict=True):
        assert one["probabilities"] == pytest.approx(probabilities, abs=1e-5)
    assert found["errors"] == [
        {"name": "2.png", "reason": "not an image, or of an unknown format"},
        {"name": "4.png", "reason": "truncated: the end of the file is missing"},
        {"name": "5.png", "reason": "an empty file"},
    ]
    assert send(url, [("a", b"")]).json == {"images": [], "errors": [{"name": "a", "reason": "an empty file"}]}


def test_calibrated_probabilities_come_with_the_same_labels(url, images):
    plain, calibrated = (send_paths(url, images[:6], query).json["images"] for query in ("?calibrated=false", "?calibrated=true"))
    assert [one["labels"] for one in plain] == [one["labels"] for one in calibrated]
    raw, shown = (np.array([list(one["probabilities"].values()) for one in found]) for found in (plain, calibrated))
    np.testing.assert_allclose(shown, CALIBRATION(raw), rtol=1e-3)
    assert np.abs(raw - shown).max() > 0.05


def test_without_thresholds_there_are_no_labels(backbone, tmp_path, images):
    with served(write_run(tmp_path / "bare", backbone, above=None)) as url:
        assert [one["labels"] for one in send_paths(url, images[:2]).json["images"]] == [None, None]
        refused = send_paths(url, images[:1], "?calibrated=1")
        assert (refused.status, refused.json) == (
            422,
            {"detail": "this model has no calibration; ask without calibrated=true"},
        )
        about = ask(f"{url}/api/model").json
        assert (about["thresholds"], about["calibration"]) == (None, None)
        assert "This model has no thresholds, so no labels are given" in ask(url).body.decode()


def test_what_the_model_is(url, run):
    about = ask(f"{url}/api/model").json
    assert (about["name"], about["method"], about["classes"], about["image_size"]) == ("squares", "an", CLASSES, 32)
    assert about["thresholds"] == dict.fromkeys(CLASSES, 0.5)
    assert about["calibration"] == {"slope": 2.0, "offset": -1.0}
    pixels = {"pixels": 89_478_485, "request_pixels": 400_000_000}
    assert about["limits"] == {"files": 32, "file_bytes": 1_000_000, "request_bytes": 5_000_000, **pixels}
    assert about["version"] == __version__
    assert str(run.parent) not in str(about)
    assert ask(f"{url}/health").json == {"status": "ok"}


def test_a_model_that_its_run_warns_of_does_not_look_like_a_good_one(url, backbone, tmp_path):
    assert ask(f"{url}/api/model").json["warnings"] == []
    assert "Warning." not in ask(url).body.decode()
    run = write_run(tmp_path / "run", backbone)
    write_json(
        run / "result.json", {"versions": {"aevlp": "0.1.0"}, "warnings": ["This model is <worse> than its teacher alone."]}
    )
    with served(run) as warned:
        assert ask(f"{warned}/api/model").json["warnings"] == ["This model is <worse> than its teacher alone."]
        assert "This model is &lt;worse&gt; than its teacher alone." in ask(warned).body.decode()


def test_wrong_requests_are_told_why_in_one_line(url, images):
    def told(answer):
        assert list(answer.json) == ["detail"]
        assert "\n" not in answer.json["detail"]
        return answer.status, answer.json["detail"]

    one = [("a.png", images[0].read_bytes())]
    assert told(ask(f"{url}/api/predict")) == (405, "Method Not Allowed")
    assert told(ask(f"{url}/nowhere")) == (404, "Not Found")
    assert told(ask(f"{url}/docs"))[0] == 404  # it would load scripts from elsewhere
    assert told(ask(f"{url}/api/predict", "POST", b"{}", {"Content-Type": "application/json"}))[0] == 415
    assert told(ask(f"{url}/api/predict", "POST", b"no form", FORM))[0] == 400
    assert told(send(url, one, field="file")) == (422, "unknown field 'file'; send images in the field files")
    assert told(send(url, [])) == (422, "no image was sent; send images in the field files")
    status, detail = told(send(url, one, "?calibrated=perhaps"))
    assert status == 422
    assert re.fullmatch(r"calibrated: .*, not 'perhaps'", detail)


def test_too_large_requests_are_refused_and_the_next_is_answered(url, images):
    small, large = images[0].read_bytes(), bytes(1_000_001)
    refused = send(url, [("a.png", small), ("large.png", large), ("b.png", small)])
    assert (refused.status, refused.json) == (413, {"detail": "large.png: has more than 1 MB; send it smaller"})
    refused = send(url, [("a.png", small)] * 33)
    assert (refused.status, refused.json) == (413, {"detail": "more than 32 images in one request; send fewer at once"})
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=30)
    connection.putrequest("POST", "/api/predict")
    for name, value in {**FORM, "Content-Length": "10000000"}.items():
        connection.putheader(name, value)
    connection.endheaders()  # and none of the ten million bytes is ever sent
    answer = connection.getresponse()
    assert (answer.status, answer.read()) == (
        413,
        b'{"detail":"the request has more than 5 MB; send fewer images at once"}',
    )
    connection.close()
    assert send(url, [("a.png", small)] * 32).status == 200


def test_large_images_never_touch_the_disk(run, tmp_path, monkeypatch):
    noise = np.random.default_rng(0).integers(0, 255, (1000, 1000, 3), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / "noise.png")
    content = (tmp_path / "noise.png").read_bytes()
    assert len(content) > 2_500_000
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    with served(run, megabytes=4) as url:
        assert send(url, [("noise.png", content)]).json["images"][0]["name"] == "noise.png"


def test_requests_at_the_same_time_get_their_own_answers(url, images):
    alone = [send_paths(url, [path]).json["images"][0]["probabilities"] for path in images[:12]]
    with ThreadPoolExecutor(6) as pool:
        together = list(pool.map(lambda path: send_paths(url, [path] * 3).json["images"], images[:12]))
    for expected, found in zip(alone, together, strict=True):
        assert len(found) == 3
        for one in found:
            assert one["probabilities"] == pytest.approx(expected, abs=1e-5)


class Patient:
    """A model that waits until it is told to go on."""

    classes, thresholds, image_size, usual_batch = CLASSES, None, 32, 16
    labels_and_probabilities = TrainedModel.labels_and_probabilities

    def __init__(self):
        self.is_asked, self.may_go_on = threading.Event(), threading.Event()

    def stream(self, batches, workers):
        self.is_asked.set()
        assert self.may_go_on.wait(30)
        for batch in batches:
            yield BatchOutput(batch, np.zeros((len(batch), 6), np.float32), [])


def test_a_busy_model_does_not_hold_up_other_requests(run, images, monkeypatch):
    monkeypatch.setattr("aevlp.inference.serve.app.MOST_REQUESTS", 1)
    model = Patient()
    with served(run, model=model) as url, ThreadPoolExecutor(1) as pool:
        try:
            first = pool.submit(send_paths, url, images[:2])
            assert model.is_asked.wait(30)
            assert ask(f"{url}/health").status == 200
            refused = send_paths(url, images[:1])
            assert (refused.status, refused.json) == (503, {"detail": "too many requests at once; try again in a moment"})
        finally:
            model.may_go_on.set()
        assert len(first.result().json["images"]) == 2
        assert send_paths(url, images[:1]).status == 200


def stalled_upload(url):
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=30)
    connection.putrequest("POST", "/api/predict")
    for name, value in {**FORM, "Content-Length": "1000"}.items():
        connection.putheader(name, value)
    connection.endheaders()
    connection.send(form([("a.png", b"x" * 900)])[:100])  # and no more
    return connection


def test_stalled_uploads_hold_up_nobody_and_are_cut_off(run, images, monkeypatch):
    monkeypatch.setattr("aevlp.inference.serve.app.MOST_REQUESTS", 1)
    monkeypatch.setattr("aevlp.inference.serve.uploads.PATIENCE", 3.0)
    with served(run) as url:
        stalled = [stalled_upload(url) for _ in range(3)]
        assert send_paths(url, images[:1]).status == 200
        for connection in stalled:
            answer = connection.getresponse()
            assert (answer.status, answer.read()) == (408, b'{"detail":"the upload stalls or is too slow; send it again"}')
            assert answer.getheader("connection") == "close"
            connection.close()


def test_an_upload_that_drips_is_cut_off(run, monkeypatch):
    monkeypatch.setattr("aevlp.inference.serve.uploads.PATIENCE", 1.0)
    with served(run) as url:
        connection = stalled_upload(url)
        with ThreadPoolExecutor(1) as pool:
            answer = pool.submit(connection.getresponse)
            while not answer.done():
                with suppress(OSError):
                    connection.sock.sendall(b"x")
                time.sleep(0.2)
        assert answer.result().status == 408
        connection.close()


def test_other_names_are_not_answered(url):
    """A page elsewhere can give its own name this machine's address (DNS rebinding)."""
    for path in ("/", "/health", "/api/model", "/api/predict"):
        refused = ask(f"{url}{path}", headers={"Host": "elsewhere.example"})
        assert (refused.status, refused.json) == (
            403,
            {"detail": "this server is not reached by that name; use the address that it printed"},
        )
    assert ask(f"{url}/health", headers={"Host": "localhost:1"}).status == 200


def test_the_pixels_of_a_request_are_limited(url, images, monkeypatch):
    monkeypatch.setattr("aevlp.inference.serve.service.REQUEST_PIXELS", 3 * 48 * 48)
    sent = [("broken", b"no image"), *((path.name, path.read_bytes()) for path in images[:5])]
    found = send(url, sent).json
    assert [one["name"] for one in found["images"]] == [path.name for path in images[:3]]
    assert [one["reason"] for one in found["errors"]] == [
        "not an image, or of an unknown format",
        *["the request has too many pixels (more than 6,912); send fewer images at once"] * 2,
    ]


def test_who_breaks_off_does_no_harm(url, images, caplog):
    body = form([("a.png", images[0].read_bytes())])
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=30)
    connection.putrequest("POST", "/api/predict")
    for name, value in {**FORM, "Content-Length": str(len(body))}.items():
        connection.putheader(name, value)
    connection.endheaders()
    connection.send(body[:100])
    connection.close()
    assert send_paths(url, images[:1]).status == 200
    assert "Traceback" not in caplog.text


def test_the_interface_is_described(url):
    described = ask(f"{url}/openapi.json").json
    assert set(described["paths"]) == {"/health", "/api/model", "/api/predict", "/api/answers", "/api/answers/file"}
    for path in ("/api/answers", "/api/answers/file"):
        operation = described["paths"][path]["post"]
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        Draft202012Validator.check_schema(schema)
        validator = Draft202012Validator(schema)
        assert validator.is_valid({"corrections": [{"image": "a.jpg", "present": ["red"], "complete": True}]})
        assert not validator.is_valid({"corrections": [{"image": "a.jpg", "labels": ["red"]}]})
        assert {"200", "400", "403", "408", "413", "415", "422", "503"} <= set(operation["responses"])
    assert list(described["paths"]["/api/answers/file"]["post"]["responses"]["200"]["content"]) == ["application/vnd.sqlite3"]
    references = set(re.findall(r"#/components/schemas/(\w+)", json.dumps(described)))
    assert references == set(described["components"]["schemas"])
    body = described["paths"]["/api/predict"]["post"]["requestBody"]["content"]["multipart/form-data"]["schema"]
    assert body["properties"]["files"]["items"]["format"] == "binary"
    assert "probabilities" in described["components"]["schemas"]["ImagePrediction"]["properties"]


def test_the_page_is_complete_in_itself(url):
    page = ask(url)
    text = page.body.decode()
    assert "<title>squares: an, 6 classes</title>" in text
    assert re.findall(r"https?:|@import|url\(|\bsrc=|<link(?! rel=\"icon\" href=\"data:,\">)", text) == []
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "connect-src 'self'" in policy
