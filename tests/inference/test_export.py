"""ONNX files say what PyTorch says, and bring along what is needed to use them."""

import errno
import json
import re
import subprocess
import sys

import numpy as np
import pytest
import torch
import transformers
from PIL import Image, ImageOps
from torch import nn

from aevlp import __version__
from aevlp.config.config import build_config
from aevlp.config.run_options import ThresholdOptions
from aevlp.core.errors import UserError
from aevlp.core.files import write_json
from aevlp.core.locks import hold_folder
from aevlp.data.images import pixels_of
from aevlp.inference import export
from aevlp.inference.export import export_onnx, usage
from aevlp.inference.model_location import ModelLocation, locate_model
from aevlp.models.classifier import Classifier, build_classifier
from aevlp.models.heads import HEADS
from aevlp.models.image_settings import ImageSettings
from aevlp.models.model_folder import load_classifier, save_classifier
from aevlp.models.options import ModelOptions
from aevlp.training.run_folder import RunFolder
from aevlp.training.thresholds import as_json, fit_thresholds
from tests.conftest import REPOSITORY
from tests.models.heads.checkpoints import IMAGE_SIZE, tiny, write_checkpoint

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

CLASSES = ["ant", "bee", 'größer als | "x"', "dog", "eel"]
DOCS = REPOSITORY / "docs" / "export.md"


def network(kind):
    """A tiny network; Swin's shifted windows need two blocks."""
    if kind != "swin":
        return tiny(kind)
    torch.manual_seed(0)
    config = transformers.SwinConfig(
        image_size=IMAGE_SIZE, patch_size=4, embed_dim=8, depths=[2], num_heads=[2], window_size=4, num_labels=3
    )
    return transformers.SwinForImageClassification(config)


def write_run(folder, kind="resnet", method="an", thresholds=True):
    """A finished run with a random model that is of very different minds about different images."""
    checkpoint = write_checkpoint(folder.parent / f"{folder.name} {kind}", network(kind))
    config = build_config("default", method, {"model.image_size": IMAGE_SIZE})
    classifier = build_classifier(ModelOptions(str(checkpoint), IMAGE_SIZE), CLASSES, 0, config.method.head, config.head)
    sharpen(classifier)
    run = RunFolder(folder)
    run.create(config, "aevlp train")
    save_classifier(classifier, run.model)
    if thresholds:
        rng = np.random.default_rng(0)
        found, labels = rng.random((20, len(CLASSES))), rng.integers(0, 2, (20, len(CLASSES))).astype(np.int8)
        write_json(run.thresholds, as_json(fit_thresholds(found, labels, CLASSES, ThresholdOptions(), is_complete=True)))
    return run


@torch.no_grad()
def sharpen(classifier):
    """Random features differ little from image to image: logits are made to vary by about 2 around 0."""
    last = [m for m in classifier.network.modules() if m._parameters.get("bias") is not None and len(m.bias) == len(CLASSES)][-1]
    for _ in range(30):  # slowly, as not all heads are linear
        logits = classifier.eval()(torch.from_numpy(pictures(64)))
        scale = 2 / logits.std(0)
        last.weight.mul_(scale[:, None])
        last.bias.copy_(scale * (last.bias - logits.mean(0) / 5))


def pictures(count, seed=0):
    """Patches of colour, [count, S, S, 3]."""
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (count, 4, 4, 3), dtype=np.uint8).repeat(IMAGE_SIZE // 4, 1).repeat(IMAGE_SIZE // 4, 2)


def torch_says(run, pixels):
    with torch.no_grad():
        return load_classifier(run.model).eval()(torch.tensor(pixels)).sigmoid().numpy()


def onnx_says(file, pixels):
    return onnxruntime.InferenceSession(file).run(None, {"pixels": pixels})[0]


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A run and its file, for tests that only look."""
    run = write_run(tmp_path_factory.mktemp("exported") / "run", method="gr")
    return run, export_onnx(locate_model(run.path), run.path / "model.onnx")


@pytest.fixture(scope="module")
def program(exported):
    run, _ = exported
    return export._program(export._Probabilities(load_classifier(run.model).eval()).eval(), run)


@pytest.mark.parametrize(
    ("kind", "method"),
    [
        *((kind, "an") for kind in ("vit", "convnext", "swin")),
        *(("resnet", f"{head}+an") for head in HEADS),
        ("vit", "boostlu+an"),
    ],
)
def test_a_file_says_what_pytorch_says_whatever_the_batch(kind, method, tmp_path):
    run = write_run(tmp_path / "run", kind, method)
    done = export_onnx(locate_model(run.path), tmp_path / "model.onnx")
    assert 0 <= done.difference <= 1e-4
    for count in (1, 2, 11):
        pixels = pictures(count, seed=count)
        expected, found = torch_says(run, pixels), onnx_says(tmp_path / "model.onnx", pixels)
        assert found.shape == (count, len(CLASSES))
        assert np.abs(found - expected).max() <= 1e-4
    assert expected.std(0).min() > 0.05  # there was something to get wrong


def test_hundred_pictures_of_odd_sizes_through_files_and_pillow(exported, tmp_path):
    run, done = exported
    rng = np.random.default_rng(1)
    ours, theirs = [], []
    for number in range(100):
        height, width = rng.integers(1, 200, 2)
        grid = rng.integers(0, 256, (*rng.integers(1, 6, 2), 3), dtype=np.uint8)
        exif = Image.Exif()
        exif[0x0112] = int(rng.integers(1, 9))
        file = tmp_path / f"{number}.{('png', 'jpg')[number % 2]}"
        Image.fromarray(grid).resize((int(width), int(height))).save(file, exif=exif)
        ours.append(pixels_of(file, IMAGE_SIZE))
        upright = ImageOps.exif_transpose(Image.open(file)).convert("RGB")
        theirs.append(np.asarray(upright.resize((IMAGE_SIZE, IMAGE_SIZE), Image.Resampling.BICUBIC)))
    expected, found = torch_says(run, np.stack(ours)), onnx_says(done.file, np.stack(theirs))
    assert np.abs(found - expected).max() <= 1e-4
    assert expected.std(0).min() > 0.05


def test_input_output_and_metadata(exported):
    run, done = exported
    session = onnxruntime.InferenceSession(done.file)
    (pixels,), (probabilities,) = session.get_inputs(), session.get_outputs()
    assert (pixels.name, pixels.type, pixels.shape[1:]) == ("pixels", "tensor(uint8)", [IMAGE_SIZE, IMAGE_SIZE, 3])
    assert (probabilities.name, probabilities.type, probabilities.shape[1:]) == ("probabilities", "tensor(float)", [len(CLASSES)])
    facts = session.get_modelmeta().custom_metadata_map
    fitted = json.loads(run.thresholds.read_text())
    assert json.loads(facts["classes"]) == CLASSES
    assert json.loads(facts["thresholds"]) == {"overall": fitted["overall"], "classes": fitted["classes"]}
    assert facts["image_size"] == str(IMAGE_SIZE)
    assert "bicubic" in facts["resize"]
    assert (facts["method"], facts["aevlp_version"]) == ("gr", __version__)
    assert done.weights is None
    assert {file.name for file in run.path.iterdir()} == {"config.yaml", "model", "model.onnx", "thresholds.json"}


def test_a_file_tells_nothing_of_the_machine_it_was_made_on(exported):
    content = exported[1].file.read_bytes()
    assert str(REPOSITORY).encode() not in content
    assert b"site-packages" not in content
    onnx.checker.check_model(onnx.load(exported[1].file), full_check=True)


def test_the_code_of_the_docs_runs_it_where_there_is_no_torch(exported, tmp_path):
    run, done = exported
    (code,) = re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.DOTALL)
    assert code.strip() == usage("model.onnx", has_thresholds=True).strip()
    assert without_torch(code, done.file, tmp_path) == {
        name: pytest.approx(p, abs=1e-4)
        for name, p in zip(CLASSES, torch_says(run, photo(tmp_path)[None])[0].tolist(), strict=True)
        if p >= json.loads(run.thresholds.read_text())["classes"][name]
    }
    everything = without_torch(usage("model.onnx", has_thresholds=False), done.file, tmp_path)
    assert [*everything] == CLASSES
    assert [*everything.values()] == pytest.approx(torch_says(run, photo(tmp_path)[None])[0].tolist(), abs=1e-4)


def photo(folder):
    """The pixels, as aevlp sees them, of folder/photo.jpg."""
    Image.fromarray(pictures(2, seed=5)[1]).resize((91, 57)).save(folder / "photo.jpg")
    return pixels_of(folder / "photo.jpg", IMAGE_SIZE)


def without_torch(code, file, folder):
    """What the code prints beside a photo, in a process that has neither torch nor transformers nor aevlp."""
    photo(folder)
    (folder / "model.onnx").write_bytes(file.read_bytes())
    block = "import sys; sys.modules.update(dict.fromkeys(['torch', 'transformers', 'aevlp'])); "
    with pytest.raises(subprocess.CalledProcessError):
        subprocess.run([sys.executable, "-c", block + "import torch"], check=True, capture_output=True)
    (folder / "snippet.py").write_text(code)
    run = block + "exec(compile(open('snippet.py').read(), 'snippet.py', 'exec'))"
    done = subprocess.run([sys.executable, "-c", run], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return eval(done.stdout, {"__builtins__": {}})


def test_without_thresholds_the_file_has_none_and_that_is_said(tmp_path, caplog):
    run = write_run(tmp_path / "run", thresholds=False)
    caplog.set_level("INFO", "aevlp")
    done = export_onnx(locate_model(run.path), tmp_path / "model.onnx")
    assert f"no thresholds yet, so the file has none; aevlp thresholds {run.path} DATA makes them" in caplog.text
    assert not done.has_thresholds
    assert "thresholds" not in onnxruntime.InferenceSession(done.file).get_modelmeta().custom_metadata_map


def test_weights_that_are_too_large_for_one_file_are_beside_it(tmp_path, monkeypatch):
    run = write_run(tmp_path / "run")
    monkeypatch.setattr(export, "ONE_FILE", 1000)
    done = export_onnx(locate_model(run.path), tmp_path / "out" / "big.onnx")
    assert done.weights == tmp_path / "out" / "big.onnx.data"
    assert {file.name for file in (tmp_path / "out").iterdir()} == {"big.onnx", "big.onnx.data"}
    (tmp_path / "out").rename(tmp_path / "elsewhere")
    pixels = pictures(3)
    assert np.abs(onnx_says(tmp_path / "elsewhere" / "big.onnx", pixels) - torch_says(run, pixels)).max() <= 1e-4


@pytest.mark.parametrize("change", [0.01, float("nan")])
def test_a_file_that_says_something_else_is_not_written(change, exported, program, tmp_path, monkeypatch):
    """As if the exporter had a bug."""
    save = export._save

    def save_wrongly(program, file):
        save(program, file)
        model = onnx.load(file)
        bias = next(tensor for tensor in model.graph.initializer if list(tensor.dims) == [len(CLASSES)])
        bias.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(bias) + np.float32(change), bias.name))
        onnx.save(model, file)

    monkeypatch.setattr(export, "_program", lambda *_: program)
    monkeypatch.setattr(export, "_save", save_wrongly)
    with pytest.raises(UserError, match=r"differs from PyTorch's by .* \(at most 1e-04 is allowed\), so nothing was written"):
        export_onnx(locate_model(exported[0].path), tmp_path / "out" / "model.onnx")
    assert [*(tmp_path / "out").iterdir()] == []


def test_a_full_disk_leaves_nothing(exported, program, tmp_path, monkeypatch):
    def full(program, file):
        file.write_bytes(b"half")
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(export, "_program", lambda *_: program)
    monkeypatch.setattr(export, "_save", full)
    with pytest.raises(UserError, match=r"model.onnx: the disk is full"):
        export_onnx(locate_model(exported[0].path), tmp_path / "out" / "model.onnx")
    assert [*(tmp_path / "out").iterdir()] == []


class Undecided(nn.Module):
    """A network whose way depends on what it sees, which no graph can hold."""

    def forward(self, pixel_values):
        if pixel_values.sum() > 0:
            return transformers.modeling_outputs.ImageClassifierOutput(logits=pixel_values.mean((2, 3)))
        return transformers.modeling_outputs.ImageClassifierOutput(logits=-pixel_values.mean((2, 3)))


def test_a_network_that_cannot_be_exported_is_refused_in_one_line(exported, tmp_path, monkeypatch):
    classifier = Classifier(Undecided(), ImageSettings(8, (0.5,) * 3, (0.5,) * 3))
    classifier.network.config = transformers.ResNetConfig(num_labels=3)
    monkeypatch.setattr(export, "load_classifier", lambda folder: classifier)
    without_thresholds = ModelLocation(exported[0].path, exported[0].model, None)
    with pytest.raises(UserError, match="torch cannot export a Undecided to ONNX") as refusal:
        export_onnx(without_thresholds, tmp_path / "model.onnx")
    assert "\n" not in str(refusal.value)
    assert [*tmp_path.iterdir()] == []


def test_what_killed_exports_left_is_removed(tmp_path):
    run = write_run(tmp_path / "run")
    killed, living = (tmp_path / f".model.onnx.{name}.part" for name in ("killed", "living"))
    killed.mkdir()
    living.mkdir()
    hold = hold_folder(living)
    assert hold is not None
    export_onnx(locate_model(run.path), tmp_path / "model.onnx")
    assert (killed.exists(), living.exists()) == (False, True)
    hold.release()
