"""Names become local files, quickly or with one clear line; image settings are read in all their forms."""

import json
import logging
import os
import socket
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from aevlp.core.errors import UserError
from aevlp.models import pretrained as checkpoints
from aevlp.models.pretrained import Checkpoint, is_on_this_machine, local_checkpoint, quiet_loading

COMMIT = "0123456789abcdef0123456789abcdef01234567"
PROPOSED = "fedcba9876543210fedcba9876543210fedcba98"
FILES = {
    "config.json": b'{"model_type": "clip"}',
    "preprocessor_config.json": b'{"size": 32}',
    "tokenizer.json": b"{}",
    "model.safetensors": b"weights",
}


def write(folder: Path, files: dict[str, bytes]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


def without(*names: str) -> dict[str, bytes]:
    return {name: content for name, content in FILES.items() if name not in names}


def teacher(name: object) -> Checkpoint:
    return local_checkpoint(str(name), role="teacher")


class Hub:
    """A hub on this machine with one model, that counts what it is asked."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.proposals: list[dict[str, Any]] = []
        self.proposed: dict[str, bytes] = {}  # the files in the seventh proposal
        self.refusal: tuple[int, str] | None = None
        self.requests: list[str] = []
        hub = self

        class Handler(BaseHTTPRequestHandler):
            def do_HEAD(self) -> None:
                self.do_GET()

            def do_GET(self) -> None:
                hub.requests.append(self.path)
                is_proposed = PROPOSED in self.path or "refs%2Fpr%2F7" in self.path
                commit, files = (PROPOSED, hub.proposed) if is_proposed else (COMMIT, hub.files)
                if hub.refusal:
                    self.answer(b"", {"X-Error-Code": hub.refusal[1]}, hub.refusal[0])
                elif "/discussions" in self.path:
                    common = {"createdAt": "2024-01-01T00:00:00.000Z", "repo": {"name": "owner/model", "type": "model"}}
                    found = [{**common, "status": "open", "isPullRequest": True, **one} for one in hub.proposals]
                    self.answer(json.dumps({"discussions": found, "count": len(found), "start": 0}).encode())
                elif "/resolve/" in self.path:
                    content = files[self.path.split(f"/resolve/{commit}/")[1]]
                    self.answer(content, {"ETag": f'"{hash(content)}"', "X-Repo-Commit": commit})
                elif "/tree/" in self.path:
                    entries = [{"type": "file", "path": n, "size": len(c), "oid": n} for n, c in files.items()]
                    self.answer(json.dumps(entries).encode())
                else:
                    siblings = [{"rfilename": name} for name in files]
                    self.answer(json.dumps({"id": "owner/model", "sha": commit, "siblings": siblings}).encode())

            def answer(self, content: bytes, headers: dict[str, str] | None = None, code: int = 200) -> None:
                self.send_response(code)
                for key, value in {"Content-Length": str(len(content)), **(headers or {})}.items():
                    self.send_header(key, value)
                self.end_headers()
                if self.command == "GET":
                    self.wfile.write(content)

            def log_message(self, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def hub(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    hub = Hub()
    template = hub.address + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", hub.address)
    monkeypatch.setattr("huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr("huggingface_hub.file_download.HUGGINGFACE_CO_URL_TEMPLATE", template, raising=False)
    yield hub
    hub.server.shutdown()
    hub.server.server_close()


def put_in_cache(cache: Path, files: dict[str, bytes]) -> Path:
    model = cache / "models--owner--model"
    write(model / "refs", {"main": COMMIT.encode()})
    return write(model / "snapshots" / COMMIT, files)


# Folders


def test_a_folder_is_named_by_its_content_wherever_it_lies(tmp_path: Path):
    one, other = (teacher(write(tmp_path / name, FILES)) for name in ("one", "other"))
    assert one.folder == tmp_path / "one"
    assert one.fingerprint == other.fingerprint


@pytest.mark.parametrize("changed", ["model.safetensors", "config.json", "preprocessor_config.json"])
def test_what_an_embedding_depends_on_changes_the_fingerprint(tmp_path: Path, changed: str):
    one = teacher(write(tmp_path / "one", FILES))
    other = teacher(write(tmp_path / "other", FILES | {changed: b'{"other": 1}'}))
    assert one.fingerprint != other.fingerprint


def test_files_that_are_not_loaded_leave_the_fingerprint_alone(tmp_path: Path):
    one = teacher(write(tmp_path / "one", FILES))
    other = teacher(write(tmp_path / "other", FILES | {"pytorch_model.bin": b"same, pickled", "README.md": b"hello"}))
    assert one.fingerprint == other.fingerprint


def test_every_shard_counts(tmp_path: Path):
    index = json.dumps({"weight_map": {"x": "model-1-of-2.safetensors", "y": "model-2-of-2.safetensors"}}).encode()
    shards = {"model.safetensors.index.json": index, "model-1-of-2.safetensors": b"x"}
    folder = write(tmp_path / "sharded", without("model.safetensors") | shards)
    with pytest.raises(UserError, match=r"sharded lacks the weights file model-2-of-2\.safetensors"):
        teacher(folder)
    prints = {teacher(write(folder, {"model-2-of-2.safetensors": content})).fingerprint for content in (b"y", b"z")}
    assert len(prints) == 2


@pytest.mark.parametrize(
    ("files", "says"),
    [
        (without("config.json"), "has no config.json"),
        (FILES | {"config.json": b"{not json"}, r"config.json cannot be read as JSON \(JSONDecodeError"),
        (FILES | {"config.json": b"[]"}, "config.json is not a JSON object"),
        (without("model.safetensors"), r"has no weights \(model.safetensors\)$"),
        (
            without("model.safetensors") | {"pytorch_model.bin": b""},
            r"has only pickled weights .*never opened; if you trust them, convert them once: python -c \"from transformers ",
        ),
        (without("model.safetensors") | {"pytorch_model.bin.index.json": b"{}"}, "has only pickled weights"),
        (
            FILES | {"config.json": b'{"transformers_weights": "adapter_model.bin"}'},
            "names adapter_model.bin as its weights in config.json, which are never opened",
        ),
        (without("tokenizer.json"), "has no tokenizer"),
        (FILES | {"config.json": b'{"transformers_weights": "../x.safetensors"}'}, r"names \.\./x\.safetensors as its weights"),
        (without("model.safetensors") | {"model.safetensors.index.json": b"{}"}, "has no weight_map"),
        *(
            (
                without("model.safetensors")
                | {"model.safetensors.index.json": json.dumps({"weight_map": {"x": "m.safetensors", "y": elsewhere}}).encode()},
                "index.json names .* as weights; only files in the same folder are read",
            )
            for elsewhere in ("/etc/hostname", "../other.safetensors", "sub/m.safetensors", 5)
        ),
        (FILES | {"adapter_config.json": b"{}"}, r"holds an adapter \(adapter_config\.json\)"),
        (
            FILES | {"config.json": b'{"vision_config": {"attn_implementation": "someone/kernel"}}'},
            "asks for the code of someone/kernel in config.json",
        ),
    ],
)
def test_a_folder_that_is_no_checkpoint_is_refused_in_one_line(tmp_path: Path, files: dict[str, bytes], says: str):
    folder = write(tmp_path / "folder", files)
    with pytest.raises(UserError, match=says) as caught:
        teacher(folder)
    assert str(folder) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_backbone_needs_no_tokenizer(tmp_path: Path):
    folder = write(tmp_path / "backbone", without("tokenizer.json"))
    assert local_checkpoint(str(folder), role="backbone").folder == folder


def test_demo_is_the_folder_in_the_package_even_beside_a_folder_of_that_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(checkpoints, "DEMO_CLIP", tmp_path / "package" / "demo" / "clip")
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "demo", FILES)
    with pytest.raises(UserError, match=r"--teacher demo: the folder .*package/demo/clip does not exist"):
        teacher("demo")
    inside = write(tmp_path / "package" / "demo" / "clip", FILES)
    assert teacher("demo").folder == inside


@pytest.mark.parametrize("name", ["/no/such/place", "./nothing", "a/b/c", "~/no/such/place", "C:\\models\\clip"])
def test_a_path_that_is_not_there_never_reaches_the_hub(hub: Hub, name: str):
    with pytest.raises(UserError, match="there is no such folder"):
        teacher(name)
    assert hub.requests == []


@pytest.mark.parametrize(
    ("name", "shown"),
    [("a" * 5000, "a" * 40 + "... (5,000 characters)"), ("~nobody-of-this-name/clip", "~nobody-of-this-name/clip")],
)
def test_a_name_that_no_file_can_have_is_refused_by_its_option(hub: Hub, name: str, shown: str):
    for find in (local_checkpoint, is_on_this_machine):
        with pytest.raises(UserError) as refused:
            find(name, role="teacher")
        assert str(refused.value).startswith(f"--teacher {shown}: no file or model can have this name (")
        assert len(str(refused.value)) < 300
    assert hub.requests == []


def test_a_file_and_an_impossible_name_are_refused(tmp_path: Path, hub: Hub):
    with pytest.raises(UserError, match="this is a file; give the folder"):
        teacher(write(tmp_path, {"model.safetensors": b""}) / "model.safetensors")
    with pytest.raises(UserError, match="neither a folder nor a name on the hub"):
        teacher("two words")
    assert hub.requests == []


# The hub


def test_a_cached_model_is_found_without_a_request(hub: Hub, cache: Path):
    folder = put_in_cache(cache, FILES)
    assert teacher("owner/model") == Checkpoint(folder, f"owner/model@{COMMIT}")
    assert hub.requests == []


def test_a_download_takes_only_what_a_checkpoint_needs_and_happens_once(hub: Hub, cache: Path, capfd: pytest.CaptureFixture[str]):
    unneeded = {"pytorch_model.bin": b"", "open_clip_model.safetensors": b"", "onnx/config.json": b"", "README.md": b""}
    hub.files = FILES | unneeded
    checkpoint = teacher("owner/model")
    assert {file.name: file.read_bytes() for file in checkpoint.folder.iterdir()} == FILES
    assert checkpoint.fingerprint == f"owner/model@{COMMIT}"
    hub.requests.clear()
    capfd.readouterr()
    assert teacher("owner/model") == checkpoint
    assert hub.requests == []
    assert capfd.readouterr() == ("", "")


PICKLED = without("model.safetensors") | {"pytorch_model.bin": b"pickled"}
CONVERSION = {"title": "Adding `safetensors` variant of this model", "num": 7, "author": {"name": "SFconvertbot"}}


def test_of_pickled_weights_the_hubs_own_conversion_is_taken_and_found_again(hub: Hub):
    hub.files, hub.proposed = PICKLED, FILES | {"pytorch_model.bin": b"pickled"}
    hub.proposals = [{"title": "Add a licence", "num": 5, "author": {"name": "SFconvertbot"}}, CONVERSION]
    checkpoint = teacher("owner/model")
    assert {file.name: file.read_bytes() for file in checkpoint.folder.iterdir()} == FILES
    assert checkpoint.fingerprint == f"owner/model@{PROPOSED}"
    hub.requests.clear()
    assert teacher("owner/model") == checkpoint
    assert hub.requests == []


@pytest.mark.parametrize("proposals", [[], [CONVERSION | {"author": {"name": "somebody"}}]])
def test_pickled_weights_on_the_hub_are_refused_and_never_fetched(hub: Hub, cache: Path, proposals: list[dict[str, Any]]):
    hub.files, hub.proposed, hub.proposals = PICKLED, FILES, proposals
    with pytest.raises(UserError, match=r"--teacher owner/model: the model on the hub has only pickled weights .*`hf download"):
        teacher("owner/model")
    assert not list(cache.rglob("pytorch_model.bin"))


def test_a_half_cached_model_is_completed(hub: Hub, cache: Path):
    put_in_cache(cache, without("tokenizer.json"))
    hub.files = FILES
    assert (teacher("owner/model").folder / "tokenizer.json").is_file()


def test_a_model_on_the_hub_that_is_no_checkpoint_is_refused(hub: Hub):
    hub.files = without("model.safetensors")
    with pytest.raises(UserError, match="--teacher owner/model: the model on the hub has no weights"):
        teacher("owner/model")


@pytest.mark.parametrize(
    ("code", "kind", "says"),
    [
        (401, "RepoNotFound", "no such folder here and no such model on the hub"),
        (403, "GatedRepo", "access must be requested at https://huggingface.co/owner/model"),
        (503, "", "could not be fetched from the hub"),
    ],
)
def test_what_the_hub_refuses_is_said_after_one_request(hub: Hub, code: int, kind: str, says: str):
    hub.refusal = (code, kind)
    with pytest.raises(UserError, match=says):
        teacher("owner/model")
    assert len(hub.requests) == 1


def ways_out(message: str, role: str) -> bool:
    named = ("give a folder with the checkpoint", "set HF_HOME to a cache that has it", f"--{role} demo")
    return all(way in message for way in named) and "\n" not in message


@pytest.mark.parametrize("role", ["teacher", "backbone"])
def test_without_network_one_attempt_and_three_ways_out(cache: Path, monkeypatch: pytest.MonkeyPatch, role: str):
    attempts = []

    def refuse(address: Any, *args: Any, **kwargs: Any) -> None:
        attempts.append(address)
        raise ConnectionRefusedError("no network")

    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(socket, "create_connection", refuse)
    with pytest.raises(UserError) as caught:
        local_checkpoint("owner/model", role=role)
    assert str(caught.value).startswith(f"--{role} owner/model: not in the cache {cache}")
    assert ways_out(str(caught.value), role)
    assert len(attempts) == 1


def test_a_hub_that_never_answers_is_not_waited_for(cache: Path, monkeypatch: pytest.MonkeyPatch):
    release = threading.Event()
    monkeypatch.setattr("huggingface_hub.HfApi.model_info", lambda *args, **kwargs: release.wait())
    monkeypatch.setattr("aevlp.models.hub.PROBE_SECONDS", 0.05)
    with pytest.raises(UserError, match="TimeoutError") as caught:
        teacher("owner/model")
    release.set()
    assert ways_out(str(caught.value), "teacher")


def test_the_environment_alone_decides_offline_and_cache(tmp_path: Path):
    put_in_cache(tmp_path / "hub", FILES)
    program = (
        "from aevlp.models.pretrained import local_checkpoint\n"
        "for name in ('owner/model', 'owner/other'):\n"
        "    try: print(local_checkpoint(name, role='teacher').fingerprint)\n"
        "    except Exception as error: print(error)\n"
    )
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("HF_", "HUGGINGFACE_"))}
    environment |= {"HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    found, other = done.stdout.splitlines()
    assert found == f"owner/model@{COMMIT}"
    assert "HF_HUB_OFFLINE" in other
    assert ways_out(other, "teacher")
    assert done.stderr == ""


# Quietness


def test_what_libraries_say_while_loading_goes_to_the_debug_log_and_only_then(caplog: pytest.LogCaptureFixture):
    from transformers.utils import logging as transformers_logging

    caplog.set_level(logging.DEBUG, logger="aevlp")
    theirs = logging.getLogger("transformers.some.module")
    before = (logging.getLogger("transformers").handlers, transformers_logging.is_progress_bar_enabled())

    def load() -> None:
        with quiet_loading():
            theirs.warning("a load report")
            warnings.warn("a deprecation", UserWarning, stacklevel=1)
            assert not transformers_logging.is_progress_bar_enabled()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        load()
    assert (logging.getLogger("transformers").handlers, transformers_logging.is_progress_bar_enabled()) == before
    assert [(record.name, record.levelname) for record in caplog.records] == [("aevlp", "DEBUG")] * 2
    assert "transformers.some.module: a load report" in caplog.text
    assert "a deprecation" in caplog.text
