"""A teacher of the user's own is taken as it is, and what it lacks is said."""

import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import ViTConfig, ViTModel

from aevlp.core.errors import UserError
from aevlp.models.teacher import load_teacher

CPU = torch.device("cpu")

PLUGIN = """
import torch

class Own:
    image_size = 8
    mean = std = (0.5, 0.5, 0.5)
    fingerprint = "own-1"
    device = None
    def encode_images(self, pixels): return pixels.flatten(1)
    def encode_texts(self, texts): return torch.ones(len(texts), 192)
    def to(self, device): self.device = device

class Net(torch.nn.Linear, Own):
    def __init__(self): super().__init__(2, 2)

class Half:
    image_size = 8
    mean = std = (0.5, 0.5, 0.5)
    def encode_images(self, pixels): return pixels

def changed(**members): return lambda: type("Changed", (Own,), members)()

text_size, short_mean, zero_std = changed(image_size="8"), changed(mean=(0.5,)), changed(std=(1, 0, 1))
no_function, no_name = changed(encode_texts=None), changed(fingerprint="")
def loads():
    from transformers import ViTModel
    own = Own()
    own.model = ViTModel.from_pretrained("vit")
    return own
def fails(): raise RuntimeError("first line\\nsecond line")
"""


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module in the current folder, which is not on the path as it would not be for a command."""
    name = f"plugin_{tmp_path.name}".replace("-", "_").replace("[", "_").replace("]", "_")
    (tmp_path / f"{name}.py").write_text(PLUGIN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    return name


def test_a_teacher_of_ones_own_is_made_and_moved(plugin: str):
    teacher: Any = load_teacher(f"{plugin}:Own", CPU)
    assert (teacher.image_size, teacher.fingerprint, teacher.device) == (8, "own-1", CPU)


def test_what_transformers_prints_while_a_teacher_of_ones_own_is_made_is_kept_away(plugin: str, capsys):
    small = ViTConfig(hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8, image_size=8, patch_size=4)
    ViTModel(small).save_pretrained("vit")
    capsys.readouterr()
    teacher: Any = load_teacher(f"{plugin}:loads", CPU)
    assert sum(parameter.numel() for parameter in teacher.model.parameters()) > 0
    assert capsys.readouterr() == ("", "")


def test_a_module_of_ones_own_is_frozen(plugin: str):
    teacher: Any = load_teacher(f"{plugin}:Net", CPU)
    assert not teacher.training
    assert not any(parameter.requires_grad for parameter in teacher.parameters())


@pytest.mark.parametrize(
    ("factory", "says"),
    [
        ("Half", "the Half it returns has no encode_texts, fingerprint"),
        ("text_size", "image_size must be a positive int, not '8'"),
        ("short_mean", r"mean must be three numbers, not \(0.5,\)"),
        ("zero_std", r"std must be three positive numbers, not \(1, 0, 1\)"),
        ("no_function", "encode_texts must be a function, not None"),
        ("no_name", "fingerprint must be a text that names the weights"),
        ("nothing", r"could not be made \(AttributeError: .* has no attribute 'nothing'\)"),
        ("fails", r"could not be made \(RuntimeError: first line\)"),
    ],
)
def test_what_is_wrong_with_a_teacher_of_ones_own_is_said(plugin: str, factory: str, says: str):
    with pytest.raises(UserError, match=says) as caught:
        load_teacher(f"{plugin}:{factory}", CPU)
    assert str(caught.value).startswith(f"--teacher {plugin}:{factory}: ")
    assert "\n" not in str(caught.value)


def test_a_module_that_is_not_there_is_said(plugin: str):
    with pytest.raises(UserError, match="No module named 'no_such_module'"):
        load_teacher("no_such_module:make", CPU)
