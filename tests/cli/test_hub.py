"""`aevlp push` and `hub:NAME`, against a hub on this machine."""

import json
from pathlib import Path

import pytest
from huggingface_hub import ModelCard
from PIL import Image

import aevlp
from aevlp.models.hub import MODEL_FILES
from tests.cli.run import aevlp as command
from tests.cli.run import refused
from tests.fake_hub import Repository


@pytest.fixture(scope="module")
def run(tmp_path_factory, world, plain) -> Path:
    """A finished run."""
    from aevlp.cli.main import main

    folder = tmp_path_factory.mktemp("trained") / "birds"
    words = ["train", world, "--out", folder, *plain, "--method", "an", "--report", "true", "--track", "none"]
    main([str(word) for word in words])
    return folder


@pytest.fixture
def photo(tmp_path) -> Path:
    Image.new("RGB", (40, 40), "red").save(tmp_path / "photo.png")
    return tmp_path / "photo.png"


def test_a_pushed_model_predicts_what_it_did(capsys, run, hub, photo, monkeypatch):
    answer = command(capsys, "push", run, "me/birds")
    assert answer.code == 0, answer.err
    assert answer.out == f"pushed: {hub.address}/me/birds (private)\nnext: aevlp predict hub:me/birds PATH\n"
    pushed = hub.models["me/birds"]
    assert pushed.private
    assert set(pushed.files) == {*MODEL_FILES, "README.md", "report.html"}
    assert pushed.files["model.safetensors"] == (run / "model" / "model.safetensors").read_bytes()
    assert pushed.files["thresholds.json"] == (run / "thresholds.json").read_bytes()

    pushed.files["evil.bin"] = b"never asked for"
    hub.requests.clear()
    here, there = (command(capsys, "predict", model, photo, "--device", "cpu") for model in (run, "hub:me/birds"))
    assert there.code == 0, there.err
    assert there.out == here.out
    fetched = {request.rpartition("/")[2] for request in hub.requests if "/resolve/" in request}
    assert fetched == set(MODEL_FILES)
    hub.requests.clear()
    assert aevlp.load("hub:me/birds", device="cpu").predict([photo]) == aevlp.load(run, device="cpu").predict([photo])
    assert not any("/resolve/" in request for request in hub.requests)  # nothing has changed

    hub.broken = True  # the cache is enough
    assert command(capsys, "predict", "hub:me/birds", photo, "--device", "cpu").out == here.out
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert command(capsys, "predict", "hub:me/birds", photo, "--device", "cpu").out == here.out


def threshold(model: str, name: str) -> float:
    found = aevlp.load(model, device="cpu").thresholds
    assert found is not None
    return found.classes[name]


def test_a_second_push_is_another_commit_that_later_commands_take(capsys, run, hub, tmp_path):
    assert command(capsys, "push", run, "birds", "--without-report").code == 0  # the owner is that of the token
    first = hub.models["me/birds"].commit
    assert "report.html" not in hub.models["me/birds"].files
    (tmp_path / "model").mkdir()
    for file in (run / "model").iterdir():
        (tmp_path / "model" / file.name).write_bytes(file.read_bytes())
    values = json.loads((tmp_path / "model" / "thresholds.json").read_text())
    name = next(iter(values["classes"]))
    values["classes"][name] = 0.123
    (tmp_path / "model" / "thresholds.json").write_text(json.dumps(values))
    assert threshold("hub:me/birds", name) != 0.123
    assert command(capsys, "push", tmp_path / "model", "me/birds").code == 0  # a model alone
    assert hub.models["me/birds"].commit != first
    assert threshold("hub:me/birds", name) == 0.123


def test_only_public_makes_a_model_public(capsys, run, hub):
    hub.models["me/open"] = Repository(private=False)
    said = refused(capsys, "push", run, "me/open")
    assert said == "me/open: exists and is public; say --public if that is meant, or choose another name"
    assert hub.models["me/open"].files == {}
    assert "(public)" in command(capsys, "push", run, "me/open", "--public").out
    hub.models["me/closed"] = Repository(private=True)
    assert command(capsys, "push", run, "me/closed", "--public").code == 0
    assert not hub.models["me/closed"].private


def test_what_the_hub_refuses_is_said_in_one_line(capsys, run, hub, photo, monkeypatch, tmp_path):
    hub.models["me/closed"] = Repository(private=True, files={"config.json": b"{}"})
    login = "run `hf auth login`, or set HF_TOKEN"
    missing = f"no such model on the hub, or a private one that your token may not read; check the name, or {login}"
    assert refused(capsys, "predict", "hub:me/nothing", photo) == f"hub:me/nothing: {missing}"
    assert refused(capsys, "predict", "hub:me/closed", photo).startswith(
        "hub:me/closed: no model that aevlp can read (model.safeten"
    )
    assert refused(capsys, "push", run, "they/birds") == (
        "they/birds: your token may not do this; take one that may write there, or a name of your own"
    )
    monkeypatch.setenv("HF_TOKEN", "wrong")
    assert refused(capsys, "predict", "hub:me/closed", photo) == f"hub:me/closed: {missing}"
    assert refused(capsys, "push", run, "me/birds") == f"me/birds: the hub does not accept your token; {login}"
    monkeypatch.delenv("HF_TOKEN")
    assert refused(capsys, "push", run, "me/birds") == f"me/birds: the hub takes models from those it knows; {login}"
    assert not (tmp_path / "hub-cache").exists() or not [file for file in (tmp_path / "hub-cache").rglob("*") if file.is_file()]


@pytest.mark.parametrize("name", ["a/b/c", "me/bi rds", "", "../up"])
def test_a_wrong_name_is_refused_without_a_request(capsys, run, hub, photo, name):
    assert "not a name on the hub; it is OWNER/NAME" in refused(capsys, "predict", f"hub:{name}", photo)
    assert "not a name on the hub" in refused(capsys, "push", run, name)
    assert hub.requests == []


def test_without_a_network_the_line_says_so_at_once(capsys, run, hub, photo, monkeypatch):
    hub.close()
    said = refused(capsys, "predict", "hub:me/birds", photo)
    assert said.startswith("hub:me/birds: not in the cache, and the hub cannot be reached (")
    assert said.endswith("connect to it, or set HF_HOME to a cache that has the model")
    assert refused(capsys, "push", run, "me/birds").startswith("me/birds: the hub cannot be reached (")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert "not in the cache, and the hub cannot be reached" in refused(capsys, "predict", "hub:me/birds", photo)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"attn_implementation": "owner/kernels"}, "asks for the code of owner/kernels in config.json"),
        ({"transformers_weights": "pytorch_model.bin"}, "names pytorch_model.bin as its weights in config.json"),
    ],
)
def test_a_model_of_the_hub_runs_no_code(capsys, run, hub, photo, change, said):
    files = {file.name: file.read_bytes() for file in (run / "model").iterdir()}
    config = json.loads(files["config.json"])
    hub.models["they/evil"] = Repository(private=False, files={**files, "config.json": json.dumps({**config, **change}).encode()})
    assert said in refused(capsys, "predict", "hub:they/evil", photo, "--device", "cpu")


def test_commands_that_need_a_run_say_so(capsys, world, hub):
    for words in (["eval", "hub:me/birds", world], ["report", "hub:me/birds"], ["thresholds", "hub:me/birds", world]):
        assert refused(capsys, *words) == (
            "hub:me/birds: a model on the hub is not a run, which this needs; predict, serve, export and aevlp.load take one"
        )
    assert refused(capsys, "push", "hub:me/birds", "me/other") == (
        "hub:me/birds: this model is on the hub already; give a folder on this machine"
    )


def test_a_run_without_a_model_is_not_pushed(capsys, run, hub, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.yaml").write_text("method: an\n")
    assert refused(capsys, "push", tmp_path / "run", "me/birds") == (
        f"{tmp_path / 'run'}: no trained model here (config.json is missing); is the training finished?"
    )
    assert hub.requests == []


def test_the_card_is_one_that_the_hub_reads(run):
    """The hub's own check of a card (`ModelCard.validate`) needs a network; its parser does not."""
    card = ModelCard.load(run / "model" / "README.md")
    assert card.data.pipeline_tag == "image-classification"
    assert card.data.to_dict()["inference"] == {"parameters": {"function_to_apply": "sigmoid"}}
    assert {result.metric_type for result in card.data.eval_results} == {"mean_average_precision", "f1"}
    again = ModelCard(str(card))
    assert again.data.to_dict() == card.data.to_dict()
    assert "aevlp" in card.data.tags


def test_a_model_of_the_hub_and_a_model_alone_are_exported(capsys, run, hub, tmp_path):
    assert command(capsys, "push", run, "me/birds").code == 0
    for model, out in (("hub:me/birds", tmp_path / "hub.onnx"), (run / "model", tmp_path / "alone.onnx")):
        answer = command(capsys, "export", model, "--out", out)
        assert answer.code == 0, answer.err
        assert out.is_file()
