"""aevlp review as a user starts, kills and ends it."""

import json
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
from http.client import HTTPException

import pytest

from aevlp.data.answers import AnswerStore, answers_file
from tests.cli.run import aevlp, refused, start
from tests.inference.review.made import write_set
from tests.inference.serve.talk import ask

JSON = {"Content-Type": "application/json"}
ADDRESS = re.compile(r"reviewing .* at (http://[^/\s]+)\S* \(Ctrl-C ends it\)\n")
KILLS = 12


def started(*words):
    """Start a review in a process of its own; return it with its address."""
    process = start("review", *words)
    assert process.stderr is not None
    lines = []
    for line in process.stderr:
        lines.append(line)
        if found := ADDRESS.fullmatch(line):
            return process, found[1], lines
    raise AssertionError("".join(lines))


class Client:
    """A window of one person."""

    def __init__(self, url):
        facts = json.loads(re.findall(r'id="facts">(.*?)</script>', ask(url).body.decode())[0])
        self.url, self.person = url, {"who": "anna", "holder": "window-of-anna", "set": facts["set"]}

    def post(self, path, **body):
        answer = ask(f"{self.url}/api/{path}", "POST", json.dumps({**self.person, **body}).encode(), JSON)
        assert answer.status == 200, answer.body
        return answer.json


@pytest.mark.soak
def test_nothing_confirmed_is_lost_when_the_server_is_killed(tmp_path):
    data = write_set(tmp_path / "set", images=500, classes=tuple(f"class {number:02d}" for number in range(14)))
    rng = random.Random(0)
    confirmed = {}
    for _ in range(KILLS):
        process, url, _ = started(data, "--port", 0, "--audit", 0, "--grid", 12)
        client = Client(url)
        threading.Timer(rng.uniform(0.0, 0.4), process.kill).start()
        try:
            while True:
                if (grid := client.post("grid")["grid"]) is None:  # a fast machine has answered everything
                    continue
                cells = grid["cells"]
                marked = [each["cell"] for each in cells if rng.random() < 0.2]
                client.post("settle", cells=[each["cell"] for each in cells], marked=marked, accepts=True, keys=1, seconds=0.1)
                for each in cells:
                    confirmed[each["file"], f"class {grid['label']:02d}"] = -1 if each["cell"] in marked else 1
        except (OSError, HTTPException):  # the connection breaks, or the answer does
            pass
        assert process.wait(30) == -signal.SIGKILL
        process.communicate()
        kept = {(each.image, each.label): each.value for each in AnswerStore(answers_file(data)).current()}
        assert confirmed.items() <= kept.items()
        assert len(kept) - len(confirmed) <= 12 * KILLS  # at most one grid of each process was kept and not confirmed
    assert len(confirmed) > 12 * 5


def test_the_page_goes_on_after_a_kill(tmp_path, open_page):
    from playwright.sync_api import expect

    data = write_set(tmp_path / "set")
    process, url, lines = started(data, "--port", 0, "--audit", 0)
    port = url.rpartition(":")[2]
    assert lines[:2] == [
        "120 labels to look at, 0 images in the audit\n",
        f"answers are kept in {data.parent / 'answers.sqlite'}\n",
    ]
    page = open_page(url)
    expect(page.locator(".cell").first).to_be_visible()
    expect(page.locator("#main")).to_have_attribute("aria-busy", "false")
    page.keyboard.press("Enter")
    expect(page.locator("#said")).to_have_text(re.compile("answers kept"))
    kept = len(AnswerStore(answers_file(data)).current())
    expect(page.locator("#main")).to_have_attribute("aria-busy", "false")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Space")
    process.kill()
    process.communicate()
    page.keyboard.press("Enter")
    expect(page.locator("#wrong")).to_have_text(re.compile("The server does not answer, so nothing was kept"))
    expect(page.locator(".cell[data-mark]")).to_have_count(1)  # nothing is lost on the page either
    files = page.locator(".cell .quiet").all_text_contents()

    process, again, _ = started(data, "--port", port, "--audit", 0)
    try:
        assert again == url
        page.keyboard.press("Enter")
        expect(page.locator("#wrong")).to_be_hidden()
        expect(page.locator("#said")).to_have_text(re.compile(f"^{len(files)} answers kept"))
        assert len(AnswerStore(answers_file(data)).current()) == kept + len(files)
        process.terminate()
        process.communicate(timeout=30)
        assert process.returncode == 0
    finally:
        process.kill()
        process.communicate()


def test_answers_serve_the_next_commands(capsys, tmp_path):
    data = write_set(tmp_path / "set")
    process, url, _ = started(data, "--port", 0, "--audit", 0, "--answers", tmp_path / "own.sqlite")
    try:
        client = Client(url)
        cells = [each["cell"] for each in client.post("grid")["grid"]["cells"]]
        client.post("settle", cells=cells, accepts=True)
    finally:
        process.kill()
        process.communicate()
    answer = aevlp(capsys, "check", data, "--answers", tmp_path / "own.sqlite")
    assert answer.code == 0
    assert f"answers of people: {len(cells)}, from {tmp_path / 'own.sqlite'}" in answer.err
    assert not (data.parent / "answers.sqlite").exists()


@pytest.fixture
def run(tmp_path):
    """The folder of a finished run, as far as a review looks at it."""
    data = write_set(tmp_path / "photos")
    run = tmp_path / "run"
    run.mkdir()
    (run / "config.yaml").write_text("method: an\n")
    (run / "result.json").write_text(json.dumps({"data": str(data.parent), "versions": {"aevlp": "0.7.0"}}))
    return run


def test_a_run_is_reviewed_by_its_completed_labels(capsys, run, tmp_path, monkeypatch):
    completed, photos = run / "completed.jsonl", tmp_path / "photos"
    message = refused(capsys, "review", run)
    assert message == f"{run}: no completed.jsonl to review; make it with aevlp label {photos} --run {run} --out {completed}"
    assert not (photos / "answers.sqlite").exists()
    completed.write_text((photos / "completed.jsonl").read_text().replace("images/", "../photos/images/"))
    shutil.copy(photos / "classes.txt", run)
    monkeypatch.setattr("aevlp.inference.review.app.serve_until_stopped", lambda app, listener: None)
    answer = aevlp(capsys, "review", run, "--port", 0, "--audit", 0)
    assert answer.code == 0, answer.err
    assert f"answers are kept in {photos / 'answers.sqlite'}\n" in answer.err
    (run / "result.json").unlink()
    assert refused(capsys, "review", run).startswith(f"{run}: this run is not finished; continue it with")


def test_what_is_wrong_is_said_in_one_line(capsys, tmp_path):
    data = write_set(tmp_path / "set")
    assert refused(capsys, "review", data, "--port", 0, "--host", "0.0.0.0") == (
        "--host 0.0.0.0: others can reach it, so they need a password; choose one with --token"
    )
    assert refused(capsys, "review", data, "--grid", 11) == "--grid must be from 12 to 48, not 11"
    assert refused(capsys, "review", data, "--token", "abc").startswith("--token: use at least 8 plain letters and digits")
    assert refused(capsys, "review", data, "--answers", "none").startswith("--answers none: a review needs a place")
    assert refused(capsys, "review", tmp_path / "nowhere").startswith(f"{tmp_path / 'nowhere'}: ")
    assert not (data.parent / "answers.sqlite").exists()
    (data.parent / "answers.sqlite").write_text("no database, but long enough to be taken for one" * 20)
    assert "cannot be used as a store of answers" in refused(capsys, "review", data, "--port", 0)


def test_a_token_is_not_printed(capsys, tmp_path, monkeypatch):
    data = write_set(tmp_path / "set")
    monkeypatch.setattr("aevlp.inference.review.app.serve_until_stopped", lambda app, listener: None)
    answer = aevlp(capsys, "review", data, "--port", 0, "--audit", 0, "--host", "0.0.0.0", "--token", "correcthorse")
    assert answer.code == 0
    assert "correcthorse" not in answer.err
    assert re.search(r"at http://0\.0\.0\.0:\d+/\?token=\.\.\. \(Ctrl-C ends it\)", answer.err)


def test_without_the_extra_it_says_how_to_get_it_before_torch_is_loaded():
    code = (
        "import sys\n"
        "sys.modules['uvicorn'] = None\n"
        "from aevlp.cli.main import main\n"
        "try: main(['review', 'nowhere'])\n"
        "except SystemExit as stop: print(stop.code, sorted({'torch', 'transformers', 'fastapi'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    wanted = "aevlp: aevlp review needs uvicorn; install what is missing with pip install 'aevlp[review]'\n"
    assert (done.stdout, done.stderr) == ("2 []\n", wanted)
