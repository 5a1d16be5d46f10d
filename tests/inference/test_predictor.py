import shutil
import subprocess
import sys

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file

import aevlp
from aevlp.core.errors import UserError
from aevlp.data.images import BadImage, pixels_of
from aevlp.inference import predictor as trained
from aevlp.models.model_folder import load_classifier
from tests.trained_runs import CALIBRATION, CLASSES, write_run, write_thresholds


@pytest.fixture(scope="module")
def run(tmp_path_factory, backbone):
    return write_run(tmp_path_factory.mktemp("runs") / "run", backbone)


@pytest.fixture(scope="module")
def model(run):
    return aevlp.load(run, device="cpu")


@pytest.fixture(scope="module")
def paths(world):
    return sorted((world / "images").iterdir())[:13]


def table(found: list[dict[str, float]]) -> np.ndarray:
    return np.array([list(row.values()) for row in found])


def test_probabilities_are_those_of_the_saved_folder_on_its_own(run, model, paths):
    from transformers import pipeline

    classify = pipeline(
        "image-classification", model=str(run / "model"), function_to_apply="sigmoid", top_k=len(CLASSES), device="cpu"
    )
    for path, found in zip(paths, model.predict(paths), strict=True):
        theirs = {one["label"]: one["score"] for one in classify(str(path))}
        assert found == pytest.approx(theirs, abs=2e-3)  # pixels may differ by 1/255
    assert table(model.predict(paths)).std(0).max() > 0.05


@pytest.mark.parametrize("batch_size", [None, 1, 4, 64])
@pytest.mark.parametrize("workers", [1, 3])
def test_an_image_gets_the_same_whatever_is_beside_it(run, model, paths, batch_size, workers):
    classifier = load_classifier(run / "model").eval()
    with torch.inference_mode():
        alone = [classifier(torch.from_numpy(pixels_of(path, 32).copy())[None]).sigmoid()[0] for path in paths]
    found = table(model.predict(paths, batch_size=batch_size, workers=workers))
    np.testing.assert_allclose(found, torch.stack(alone).numpy(), atol=1e-5)


def test_names_paths_and_pil_images_mix(model, paths):
    images = [paths[0], str(paths[1]), Image.open(paths[2]), Image.open(paths[3]).convert("RGB")]
    np.testing.assert_allclose(table(model.predict(images)), table(model.predict(paths[:4])), atol=1e-6)
    twice = Image.open(paths[4])
    found = table(model.predict([twice] * 8, batch_size=2, workers=4))
    np.testing.assert_allclose(found, np.repeat(table(model.predict(paths[4:5])), 8, axis=0), atol=1e-6)


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "YCbCr", "I", "F", "I;16"])
def test_a_pil_image_of_any_mode_is_seen_as_its_file_is(model, paths, tmp_path, mode):
    source = Image.open(paths[0])
    image = Image.fromarray(np.asarray(source.convert("L")).astype(np.uint16) * 257) if mode == "I;16" else source.convert(mode)
    assert image.mode == mode
    file = tmp_path / ("x.tif" if mode not in ("P", "1") else "x.png")
    image.save(file)
    np.testing.assert_allclose(table(model.predict([image])), table(model.predict([file])), atol=1e-6)


def test_a_pil_image_is_turned_upright_and_left_as_it_was(model, paths, tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.open(paths[0]).save(tmp_path / "turned.png", exif=exif)
    turned = Image.open(tmp_path / "turned.png")
    before = turned.size
    found = table(model.predict([turned, tmp_path / "turned.png", paths[0]]))
    np.testing.assert_allclose(found[0], found[1], atol=1e-6)
    assert np.abs(found[0] - found[2]).max() > 1e-3
    assert turned.size == before


def test_the_full_image_is_decoded(model, tmp_path):
    """A JPEG read at a fraction of its size would lose this pattern's contrast."""
    stripes = np.zeros((512, 512, 3), np.uint8)
    stripes[:, :256:2] = 255
    Image.fromarray(stripes).save(tmp_path / "x.jpg", quality=95)
    decoded = Image.open(tmp_path / "x.jpg").convert("RGB").resize((32, 32), Image.Resampling.BICUBIC)
    np.testing.assert_allclose(table(model.predict([tmp_path / "x.jpg"])), table(model.predict([decoded])), atol=1e-6)


def test_labels_are_those_above_their_thresholds_the_surest_first(model, paths):
    found = model.predict(paths)
    for probabilities, labels in zip(found, model.labels(paths), strict=True):
        surest_first = sorted(CLASSES, key=lambda name: -probabilities[name])
        assert labels == [name for name in surest_first if probabilities[name] >= 0.5]


def test_calibrated_probabilities(model, paths):
    np.testing.assert_allclose(table(model.predict(paths, calibrated=True)), CALIBRATION(table(model.predict(paths))), rtol=1e-4)


def test_features_are_what_the_head_sees(run, model, paths):
    classifier = load_classifier(run / "model").eval()
    found = model.embed(paths, batch_size=4)
    pixels = torch.stack([torch.from_numpy(pixels_of(path, 32).copy()) for path in paths])
    with torch.inference_mode():
        np.testing.assert_allclose(found, classifier.features(pixels).numpy(), atol=1e-5)
    assert (found.dtype, found.shape) == (np.float32, (13, 16))
    assert model.embed([]).shape == (0, 16)
    np.testing.assert_allclose(model.embed(list(paths) * 20, batch_size=1), np.tile(found, (20, 1)), atol=1e-5)


def test_no_images_no_answers(model):
    assert model.predict([]) == []
    assert model.labels([]) == []


def test_a_broken_image_is_an_error_that_names_it(model, paths, tmp_path):
    (tmp_path / "broken.jpg").write_bytes(b"no image")
    for method in (model.predict, model.labels, model.embed):
        with pytest.raises(BadImage, match=r"broken\.jpg: not an image, or of an unknown format; replace or remove the file"):
            method([paths[0], tmp_path / "broken.jpg", paths[1]])
    whole = paths[0].read_bytes()
    (tmp_path / "half.png").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UserError, match=r"half\.png: cannot be decoded"):
        model.predict([Image.open(tmp_path / "half.png")])


def test_one_image_is_no_list_of_images(model, paths):
    for image in (str(paths[0]), paths[0], Image.open(paths[0])):
        with pytest.raises(TypeError, match="expected a list of images"):
            model.predict(image)
    with pytest.raises(ValueError, match="batch size must be at least 1, not 0"):
        model.predict(paths, batch_size=0)


def test_what_needs_thresholds_or_a_calibration_says_so(tmp_path, backbone, paths):
    run = write_run(tmp_path / "run", backbone, above=None)
    model = aevlp.load(str(run), device="cpu")
    assert model.thresholds is None
    assert len(model.predict(paths)) == 13
    for refused in (lambda: model.labels(paths), lambda: model.predict(paths, calibrated=True)):
        with pytest.raises(UserError) as caught:
            refused()
        assert str(caught.value) == f"{run}: no thresholds.json in it; make one with aevlp thresholds {run} DATA"
    write_thresholds(run / "thresholds.json", 0.5, calibration=None)
    model = aevlp.load(run, device="cpu")
    assert model.labels(paths)
    with pytest.raises(UserError, match=r"run: no calibration in its thresholds\.json, as that takes complete labels"):
        model.predict(paths, calibrated=True)


def test_a_model_folder_alone_is_enough_with_the_thresholds_that_lie_in_it(run, model, paths, tmp_path):
    copy = shutil.copytree(run / "model", tmp_path / "copy")
    alone = aevlp.load(copy, device="cpu")
    assert alone.thresholds is None
    np.testing.assert_array_equal(table(alone.predict(paths)), table(model.predict(paths)))
    write_thresholds(copy / "thresholds.json", 0.9)
    found = aevlp.load(copy, device="cpu").thresholds
    assert found is not None
    assert set(found.classes.values()) == {0.9}


def test_classes_and_thresholds(model):
    assert model.classes == CLASSES
    assert model.thresholds.classes == dict.fromkeys(CLASSES, 0.5)
    assert model.image_size == 32


def test_weights_whose_products_are_no_numbers_are_refused(run, paths, tmp_path):
    shutil.copytree(run, tmp_path / "run")
    file = tmp_path / "run" / "model" / "model.safetensors"
    weights = load_file(file)
    for name, tensor in weights.items():
        if tensor.ndim == 4:
            tensor.fill_(1e10)
        elif name.startswith("classifier") and tensor.ndim == 2:
            tensor[:, ::2], tensor[:, 1::2] = 3e38, -3e38
    save_file(weights, file, metadata={"format": "pt"})
    with pytest.raises(UserError, match="run: this model gives no finite numbers, so its weights are damaged"):
        aevlp.load(tmp_path / "run", device="cpu").predict(paths)


def test_what_cannot_be_loaded_is_refused(run, tmp_path):
    with pytest.raises(UserError, match="not a run folder"):
        aevlp.load(tmp_path)
    with pytest.raises(UserError, match="device tpu: this machine has none that torch can use; use auto"):
        aevlp.load(run, device="tpu")  # type: ignore[arg-type]
    with pytest.raises(UserError, match="precision fp16: a CPU cannot compute in it"):
        aevlp.load(run, device="cpu", precision="fp16")
    with pytest.raises(UserError, match="precision fp8: no such precision"):
        aevlp.load(run, device="cpu", precision="fp8")  # type: ignore[arg-type]


def test_another_precision_is_nearly_the_same_and_needs_no_fresh_process(run, model, paths):
    half = aevlp.load(run, device="cpu", precision="bf16")
    np.testing.assert_allclose(table(half.predict(paths)), table(model.predict(paths)), atol=0.1)
    assert (table(half.predict(paths)) != table(model.predict(paths))).any()


def test_on_a_device_batches_are_larger(model, monkeypatch):
    assert model.usual_batch == trained.CPU_BATCH
    monkeypatch.setattr(model, "_device", torch.device("meta"))
    assert model.usual_batch == trained.GPU_BATCH


def test_importing_the_package_loads_nothing_and_load_is_part_of_it():
    code = "import sys, aevlp; print('torch' in sys.modules); print(aevlp.load.__module__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "aevlp.inference.predictor"]
    with pytest.raises(AttributeError, match="no attribute 'lod'"):
        aevlp.lod  # noqa: B018


FAMILIES = [(kind, None) for kind in ("clip", "siglip", "dinov2", "vit", "resnet", "convnext")]


@pytest.mark.parametrize(("kind", "head"), [*FAMILIES, ("resnet", "boostlu"), ("dinov2", "boostlu"), ("resnet", "latent")])
def test_networks_of_any_family_may_be_asked_from_several_threads(kind, head, paths, tmp_path):
    from aevlp.models.classifier import build_classifier
    from aevlp.models.heads import HEADS
    from aevlp.models.model_folder import save_classifier
    from aevlp.models.options import ModelOptions
    from tests.models.heads.checkpoints import tiny, write_checkpoint

    backbone = write_checkpoint(tmp_path / "backbone", tiny(kind))
    classifier = build_classifier(ModelOptions(str(backbone), 32), CLASSES, 0, HEADS[head] if head else None)
    save_classifier(classifier, tmp_path / "model")
    pixels = torch.stack([torch.from_numpy(pixels_of(path, 32).copy()) for path in paths])
    with torch.inference_mode():
        expected = classifier.eval()(pixels).sigmoid().numpy()
    model = aevlp.load(tmp_path / "model", device="cpu")
    found = table(model.predict(list(paths) * 8, batch_size=1, workers=3))
    np.testing.assert_allclose(found, np.tile(expected, (8, 1)), atol=1e-4)
