"""The steps of `aevlp doctor`, in this process, on the CPU or on a device without hardware."""

import json

import numpy as np
import pytest
import torch

from aevlp.experiments.doctor.checks import CHECKS, SURVEY
from aevlp.experiments.doctor.steps import STEPS, Patient, Wrong
from aevlp.training.checkpoint import load_checkpoint, save_checkpoint
from tests.fake_device import OPERATIONS, fake_device

REFERENCES = [check for check in CHECKS.values() if check.reference == check.name]
NEEDS_HARDWARE = {"bf16", "fp16", "int8"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the scenes, and with what a CPU computes in fp32."""
    found = tmp_path_factory.mktemp("doctor")
    patient = Patient("cpu", found)
    STEPS[SURVEY.function](patient, "")
    for check in REFERENCES:
        STEPS[check.steps[-1].function](patient, check.steps[-1].argument)
    return found


def test_every_step_of_a_check_is_there():
    assert {step.function for check in CHECKS.values() for step in check.steps} | {SURVEY.function} == set(STEPS)


def test_the_survey_names_the_devices(folder):
    found = json.loads((folder / "survey.json").read_text())
    assert "cores" in found["devices"]["cpu"]
    assert found["threads"] == torch.get_num_threads()


class Gpu(Patient):
    """A second device, which `fake_device` puts in the place of the CPU."""

    @property
    def device(self):
        return "cpu"


@pytest.mark.parametrize(
    "name",
    [
        name
        for name, check in CHECKS.items()
        if "mps" in check.devices and not any(step.argument in NEEDS_HARDWARE for step in check.steps)
    ],
)
def test_a_check_passes_on_another_device(folder, name):
    patient = Gpu("cuda:1", folder)
    with fake_device(resizes=True):
        seen = [STEPS[step.function](patient, step.argument) for step in CHECKS[name].steps]
        assert OPERATIONS
    assert seen[-1].count("\n") == 0
    if name in ("repeat", "resume"):
        assert seen[-1].endswith("the weights are the same to the bit")
        assert (folder / "cuda-1" / "whole").is_dir()


def test_a_wrong_loss_is_seen(folder, tmp_path):
    (tmp_path / "world").symlink_to(folder / "world")
    (tmp_path / "references").mkdir()
    (tmp_path / "references" / "loss.json").write_text('{"loss": 0.5}')
    with fake_device(resizes=True), pytest.raises(Wrong, match=r"^loss 0\.\d+, .*; on a CPU in fp32 the loss is 0.5000$"):
        STEPS["train"](_Other("cuda:0", tmp_path), "fp32")


class _Other(Gpu):
    """Its results are compared with the reference and do not replace it."""

    device = "cuda"

    def accelerator(self, *arguments, **options):
        return Patient("cpu", self.folder).accelerator(*arguments, **options)

    def config(self, *arguments, **values):
        return Patient("cpu", self.folder).config(*arguments, **values)


def test_wrong_embeddings_are_seen(folder, tmp_path):
    (tmp_path / "world").symlink_to(folder / "world")
    (tmp_path / "references").mkdir()
    right = np.load(folder / "references" / "embeddings.npy")
    np.save(tmp_path / "references" / "embeddings.npy", np.roll(right, 1, axis=-1))
    with fake_device(resizes=True), pytest.raises(Wrong, match=r"least cosine .*; expected at least 0.999$"):
        STEPS["embed"](_Other("cuda:0", tmp_path), "fp32")


def test_other_weights_are_seen(folder, tmp_path):
    (tmp_path / "world").symlink_to(folder / "world")
    patient = Patient("cpu", tmp_path)
    STEPS["train_whole"](patient, "whole")
    path = tmp_path / "cpu" / "whole" / "checkpoints" / "last.pt"
    saved = load_checkpoint(path)
    assert saved is not None
    save_checkpoint(path, {**saved, "model": {name: values + 1 for name, values in saved["model"].items()}})
    STEPS["train_begin"](patient, "resumed")
    with pytest.raises(Wrong, match=r"epoch 2 after a resume: the weights differ .*largest difference 1.0e"):
        STEPS["train_again"](patient, "resumed")
