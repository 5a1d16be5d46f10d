"""The whole path on a device other than the CPU, which no machine needs to have: see `tests/fake_device.py`.

Every command gives the same figures as on the CPU, and nothing mixes tensors of both.
"""

import inspect
import json
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from accelerate import Accelerator
from PIL import Image
from torch import Tensor

import aevlp as package
from aevlp.cli.main import main
from aevlp.config.methods import METHODS
from aevlp.damp.augment import augmented
from aevlp.damp.scoring import Scorer
from aevlp.damp.views import ViewSettings
from aevlp.data.image_files import digests
from aevlp.models.teacher import load_teacher
from aevlp.store.fill import Job
from aevlp.training.loop import _global_batch
from tests.cli.run import aevlp
from tests.fake_device import DEVICE, OPERATIONS, FakeTensor, fake_device

TEACHER = ["--teacher", "tests.colours:teacher", "--damp.temperature", "0.1", "--damp.grid", "2"]
SAME_DEVICE = "Expected all tensors to be on the same device"


@pytest.fixture
def device():
    """A device that resizes images, as CUDA does."""
    with fake_device(resizes=True) as found:
        yield found


def options_of(method: str) -> list[str]:
    asks = METHODS[method].source.asks_teacher
    own = TEACHER if "damp" in METHODS[method].sections else TEACHER[:2]
    return ["--method", method, *(own if asks else [])]


def losses_of(run: Path) -> list[float]:
    return [json.loads(line)["loss"] for line in (run / "metrics.jsonl").read_text().splitlines()]


def result_of(run: Path) -> dict:
    return json.loads((run / "result.json").read_text())


# The device itself


@pytest.mark.parametrize(
    "mix",
    [
        lambda here, there: here + there,
        lambda here, there: there @ here.T,
        lambda here, there: torch.cat([here, there]),
        lambda here, there: here.where(there > 0, here),
        lambda here, there: there[here[0].long()],
        lambda here, there: here.index_copy(0, torch.arange(2), here),
        lambda here, there: here.__setitem__(torch.tensor([0, 1]), there),
        lambda here, there: torch.addcmul(here, here, here, out=there),
        lambda here, there: torch.nn.Linear(3, 1)(here),
    ],
)
def test_mixed_devices_are_refused(device, mix):
    here, there = torch.ones(2, 3, device=device), torch.ones(2, 3)
    with pytest.raises(RuntimeError, match=SAME_DEVICE):
        mix(here, there)


def test_other_things_that_a_gpu_refuses_are_refused(device):
    here = torch.ones(1, 3, 4, 4, device=device)
    with pytest.raises((TypeError, RuntimeError), match="numpy"):
        here.numpy()
    with pytest.raises(RuntimeError, match="generator"):
        torch.rand(3, generator=torch.Generator(), device=device)
    with pytest.raises(RuntimeError, match="not implemented for 'Byte'"):
        torch.nn.functional.interpolate(here.byte(), (2, 2), mode="bicubic", antialias=True)


def test_what_a_gpu_allows_is_allowed(device):
    here = torch.zeros(2, 3, device=device)
    here[0] = torch.ones(3)  # a copy
    here[torch.tensor([1])] = torch.tensor(2.0)  # an index on the CPU, and a number
    here *= torch.tensor(2.0)
    assert here.device == DEVICE
    assert here.tolist() == [[2, 2, 2], [4, 4, 4]]


def test_gradients_are_those_of_a_cpu(device):
    found = []
    for place in (torch.device("cpu"), device):
        torch.manual_seed(0)
        network = torch.nn.Sequential(
            torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.Flatten(), torch.nn.Linear(16, 2)
        )
        network.to(place)(torch.rand(5, 3, 4, 4).to(place)).square().sum().backward()
        found.append([parameter.grad.cpu() for parameter in network.parameters() if parameter.grad is not None])
    assert all(isinstance(parameter.grad, FakeTensor) for parameter in network.parameters())
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))


# Training


@pytest.mark.parametrize("method", METHODS)
def test_every_method_trains_as_on_a_cpu(capsys, world, plain, tmp_path, method):
    words = [*plain, *options_of(method), "--epochs", "2"]
    with fake_device(resizes=True):
        answer = aevlp(capsys, "train", world, "--out", tmp_path / "device", *words)
        assert answer.code == 0, answer.err
        used = OPERATIONS.copy()
    assert aevlp(capsys, "train", world, "--out", tmp_path / "cpu", *words).code == 0  # on the same embeddings
    if METHODS[method].loss is not None:
        assert used["convolution_backward"]
        assert losses_of(tmp_path / "device") == losses_of(tmp_path / "cpu")
    assert result_of(tmp_path / "device")["mAP"] == pytest.approx(result_of(tmp_path / "cpu")["mAP"])


WAYS = {
    "linear": ["--train.mode", "linear"],
    "linear, no store": ["--train.mode", "linear", "--store", "none"],
    "linear, then full": ["--train.mode", "linear-then-full", "--train.linear_init", "1"],
    "no store": ["--store", "none"],
    "tuned": ["--damp.tune", "true"],
    "released code": ["--compat", "released-code"],
    "agreed negatives": ["--damp.negatives", "agreed"],
    "class map": ["--method", "boostlu+aevlp"],
    "random labels": ["--method", "gpr+random"],
    "adamax": ["--train.optimizer", "adamax"],
    "with a report": ["--report", "true"],
}


@pytest.mark.parametrize("way", WAYS)
def test_every_way_to_train_works_on_the_device(device, capsys, world, plain, tmp_path, way):
    words = [*plain, *([] if "--method" in WAYS[way] else ["--method", "aevlp"]), *WAYS[way], "--epochs", "2"]
    words += [] if way == "random labels" else TEACHER
    answer = aevlp(capsys, "train", world, "--out", tmp_path / "run", *words)
    assert answer.code == 0, answer.err
    assert OPERATIONS["convolution" if way.startswith("linear") else "convolution_backward"]
    assert OPERATIONS["addmm"] or OPERATIONS["bmm"] or OPERATIONS["mm"]  # the head


@pytest.mark.parametrize("method", ["consensus", "role", "smile", "mime"])
def test_a_resumed_run_is_the_same_to_the_bit(device, capsys, world, plain, tmp_path, method, monkeypatch):
    words = ["train", world, *plain, *options_of(method), "--epochs", "3", "--train.patience", "null"]
    assert aevlp(capsys, *words, "--out", tmp_path / "whole").code == 0

    def stop(self, record: dict) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("aevlp.training.tracking.RunTrackers.log_epoch", stop)  # called after the first checkpoint
        aevlp(capsys, *words, "--out", tmp_path / "resumed")
    assert len(losses_of(tmp_path / "resumed")) == 1
    answer = aevlp(capsys, "train", world, "--out", tmp_path / "resumed", "--resume")
    assert answer.code == 0, answer.err
    assert losses_of(tmp_path / "resumed") == losses_of(tmp_path / "whole")
    one, other = (torch.load(tmp_path / run / "checkpoints" / "last.pt", weights_only=True) for run in ("whole", "resumed"))
    assert all(torch.equal(one["model"][name], other["model"][name]) for name in one["model"])


# Several processes, as far as one can play them


def test_the_batch_of_two_processes_is_put_together_on_the_device(device):
    """This is the second process of two, whose batch of 5 has one image repeated at its end."""
    ours = torch.randn(3, 4, device=device, requires_grad=True)
    theirs = torch.randn(3, 4, device=device)

    def gather(part: Tensor) -> Tensor:
        assert part.device == device
        return torch.cat([theirs if part.is_floating_point() else part + 10, part])

    process = SimpleNamespace(num_processes=2, process_index=1, gather=gather)
    cells, index = _global_batch(ours, torch.tensor([7, 8, 9]), 5, process)
    assert cells.device == device
    assert index.tolist() == [17, 18, 19, 7, 8]
    cells.sum().backward()
    assert ours.grad is not None
    assert ours.grad.tolist() == [[1.0] * 4, [1.0] * 4, [0.0] * 4]
    assert torch.equal(cells.detach().cpu(), torch.cat([theirs, ours.detach()])[:5].cpu())


@pytest.mark.parametrize("method", ["consensus", "aevlp", "role", "ll-cp", "em-apl", "smile", "mime"])
def test_a_process_of_two_computes_on_the_device(device, capsys, world, plain, tmp_path, monkeypatch, method):
    """What the other process sends is made up, so that only devices and shapes are checked."""
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setattr(Accelerator, "num_processes", 2)
    monkeypatch.setattr(Accelerator, "process_index", 1)
    monkeypatch.setattr(Accelerator, "gather", lambda self, part: torch.cat([part, part]) if part.device == DEVICE else None)
    words = [*plain, *options_of(method), "--epochs", "2"]
    answer = aevlp(capsys, "train", world, "--out", tmp_path / "run", *words)
    assert answer.code == 0, answer.err
    assert len(losses_of(tmp_path / "run")) == 2


# Scoring


@pytest.mark.parametrize("resizes", [True, False])
@pytest.mark.parametrize("released_code", [True, False])
def test_embeddings_are_those_of_a_cpu(tmp_path, resizes, released_code):
    """The demo's CLIP sees images of several sizes with every augmentation; a device may resize by floats."""
    rng = np.random.default_rng(0)
    paths = [tmp_path / f"{number}.png" for number in range(6)]
    for number, path in enumerate(paths):
        coarse = rng.integers(0, 256, (5, 4 + number, 3), np.uint8)
        Image.fromarray(coarse).resize((90 + 30 * number, 100), Image.Resampling.BICUBIC).save(path)
    job = Job(paths, digests(paths), 0)

    def embeddings() -> np.ndarray:
        accelerator = Accelerator(cpu=True)
        teacher = load_teacher("demo", accelerator.device)
        settings = ViewSettings(teacher.image_size, grid=3, overlap=0.2, augment=True, seed=0, released_code=released_code)
        scorer = Scorer(teacher, settings, mean=teacher.mean, std=teacher.std, accelerator=accelerator)
        assert scorer.cuts_on == (accelerator.device if resizes else torch.device("cpu"))
        return next(found for _, found in scorer.embed([job]))

    with fake_device(resizes=resizes):
        found = embeddings()
    resizes = True  # a CPU does
    cosines = (found.astype(np.float32) * embeddings().astype(np.float32)).sum(-1)
    assert cosines.min() > 0.999


@pytest.mark.parametrize("augmentation", [1, 2, 3, 4])
def test_every_augmentation_is_that_of_a_cpu(device, augmentation):
    view = torch.randint(0, 256, (16, 16, 3), dtype=torch.uint8)
    amounts = [0.7, -0.5, 0.3, 0.6]
    found = augmented(view.to(device), augmentation, amounts)
    assert found.device == device
    assert torch.equal(found.cpu(), augmented(view, augmentation, amounts))


def test_texts_are_those_of_a_cpu(device):
    texts = ["a photo of a cat", "a photo of a car"]
    found = load_teacher("demo", device).encode_texts(texts)
    assert found.device == device
    # Attention has another kernel on a CPU, which rounds otherwise.
    assert torch.allclose(found.cpu(), load_teacher("demo", torch.device("cpu")).encode_texts(texts), atol=1e-4)


# The commands after a training


@pytest.fixture(scope="module")
def run(world, plain, tmp_path_factory) -> Path:
    """A run that was trained on the CPU."""
    folder = tmp_path_factory.mktemp("trained")
    words = ["train", world, "--out", folder / "run", *plain, "--method", "aevlp", *TEACHER, "--store", folder / "store"]
    main([str(word) for word in words])
    return folder / "run"


COMMANDS = {
    "eval": ["eval", "RUN", "WORLD", "--probabilities", "OUT.csv"],
    "predict": ["predict", "RUN", "IMAGES", "--out", "OUT.csv"],
    "label by both": ["label", "WORLD", "--run", "RUN", "--out", "OUT.csv"],
    "label by the teacher": ["label", "WORLD", "--observe", "single", *TEACHER, "--out", "OUT.csv"],
    "label with folds": ["label", "WORLD", "--run", "RUN", "--folds", "2", "--out", "OUT.csv"],
    "tune": ["tune", "WORLD", *TEACHER[:2], "--out", "OUT.csv"],
    "score": ["score", "WORLD", *TEACHER],
    "thresholds": ["thresholds", "RUN", "WORLD"],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_says_the_same_as_on_a_cpu(capsys, world, run, tmp_path, command):
    def answer(folder: Path) -> tuple[str, str]:
        folder.mkdir()
        names = {"WORLD": world, "RUN": run, "IMAGES": world / "images", "OUT.csv": folder / "out.csv"}
        found = aevlp(capsys, *(names.get(word, word) for word in COMMANDS[command]))
        assert found.code == 0, found.err
        written = (folder / "out.csv").read_text() if "OUT.csv" in COMMANDS[command] else ""
        return found.out.replace(str(folder), ""), written.replace(str(folder), "")

    with fake_device(resizes=True):
        on_device = answer(tmp_path / "device")
        assert OPERATIONS
    assert on_device == answer(tmp_path / "cpu")


def test_a_loaded_model_computes_on_the_best_device(world, run):
    images = sorted((world / "images").glob("*.png"))
    with fake_device(resizes=False):
        model = package.load(run)
        found = model.predict(images), model.embed(images)
        assert OPERATIONS["convolution"]
    model = package.load(run)
    OPERATIONS.clear()
    assert model.predict(images) == found[0]
    assert np.array_equal(model.embed(images), found[1])
    assert not OPERATIONS  # the device is gone


# The suite notices what it is for

FORGOTTEN = {
    "pixels of a batch": ("aevlp.training.inputs:ImageBatches.__iter__", ".to(self.device)", "", ["--method", "an"]),
    "labels of a batch": ("aevlp.training.loop:train_epoch", ".to(cells.device)", "", ["--method", "an"]),
    "features of a batch": (
        *("aevlp.training.inputs:_FeatureBatches.__iter__", ".to(self.device)", ""),
        ["--method", "an", "--train.mode", "linear"],
    ),
    "classes of DAMP": ("aevlp.sources.damp:Damp.labels", ".to(self.context.accelerator.device)", "", options_of("aevlp")),
    "observed labels of DAMP": ("aevlp.sources.damp:Damp.labels", ".to(embeddings.device)", "", options_of("aevlp")),
    "opinion from the CPU": (
        *("aevlp.damp.view_embeddings:ViewEmbeddings._table", ".to(table)", ".to(kind)"),
        options_of("consensus"),
    ),
    "large losses": ("aevlp.sources.ll_ct:LlCt.rows", ".cpu()", "", options_of("ll-ct")),
}


@pytest.mark.parametrize("what", FORGOTTEN)
def test_a_forgotten_move_is_found(device, capsys, world, plain, tmp_path, monkeypatch, what):
    place, move, instead, words = FORGOTTEN[what]
    module_name, _, name = place.partition(":")
    module = sys.modules[module_name]
    owner = getattr(module, name.rpartition(".")[0]) if "." in name else module
    function = getattr(owner, name.rpartition(".")[2])
    text = textwrap.dedent(inspect.getsource(function))
    assert move in text
    changed = dict(vars(module))
    exec("from __future__ import annotations\n" + text.replace(move, instead), changed)  # in a copy of the module's names
    monkeypatch.setattr(owner, function.__name__, changed[function.__name__])
    with pytest.raises(RuntimeError, match=SAME_DEVICE):
        aevlp(capsys, "train", world, "--out", tmp_path / "run", *plain, *words, "--epochs", "2")
