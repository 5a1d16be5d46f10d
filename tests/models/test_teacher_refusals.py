"""A teacher whose files are damaged, incomplete or hostile is refused, in one line that names it."""

import contextlib
import io
import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from aevlp.core.errors import UserError
from aevlp.models.teacher import load_teacher
from tests.models.tiny_teachers import CPU, TEXTS, teacher_of, write_json


def test_pickled_weights_are_refused_and_the_advice_converts_them(
    clip: Path, copy: Callable[[Path], Path], monkeypatch: pytest.MonkeyPatch
):
    from safetensors.torch import load_file

    folder = copy(clip)
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    with monkeypatch.context() as patch:
        patch.setattr(torch, "load", lambda *_, **__: pytest.fail("something was unpickled"))
        with pytest.raises(UserError, match=r"--teacher .* has only pickled weights \(pytorch_model.bin\)") as caught:
            load_teacher(str(folder), CPU)
    advice = str(caught.value).split("convert them once: ")[1]
    exec(advice.removeprefix('python -c "').removesuffix('"'))
    torch.testing.assert_close(teacher_of(folder).encode_texts(TEXTS), teacher_of(clip).encode_texts(TEXTS))


def test_weights_that_cannot_be_read_are_refused_with_a_traceback_in_the_log(
    clip: Path, copy: Callable[[Path], Path], caplog: pytest.LogCaptureFixture
):
    folder = copy(clip)
    (folder / "model.safetensors").write_bytes(b"no weights")
    caplog.set_level(logging.DEBUG, logger="aevlp")
    with pytest.raises(UserError, match="cannot be loaded as a teacher"):
        load_teacher(str(folder), CPU)
    assert "Traceback" in caplog.text


def change_weights(folder: Path, change: Callable[[dict[str, torch.Tensor]], object]) -> Path:
    from safetensors.torch import load_file, save_file

    weights = load_file(folder / "model.safetensors")
    change(weights)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda weights: weights.pop("text_projection.weight"), r"1 of .* missing or superfluous .* text_projection\.weight"),
        (lambda weights: weights.update(foreign=torch.ones(2)), r"1 of .* missing or superfluous .* foreign"),
        (lambda weights: weights["text_projection.weight"][0].fill_(torch.nan), r"text_projection\.weight are not all finite"),
    ],
)
def test_weights_that_do_not_fit_are_refused(clip: Path, copy: Callable[[Path], Path], change: Any, says: str):
    with pytest.raises(UserError, match=says):
        load_teacher(str(change_weights(copy(clip), change)), CPU)


def test_positions_in_older_checkpoints_are_no_weights(clip: Path, copy: Callable[[Path], Path]):
    positions = {"text_model.embeddings.position_ids": torch.arange(24)[None]}
    older = change_weights(copy(clip), lambda weights: weights.update(positions))
    torch.testing.assert_close(teacher_of(older).encode_texts(TEXTS), teacher_of(clip).encode_texts(TEXTS))


def test_code_in_the_folder_is_never_run(
    clip: Path, copy: Callable[[Path], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("sys.stdin", io.StringIO("y\ny\n"))
    folder = copy(clip)
    (folder / "code.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    write_json(folder / "tokenizer_config.json", {"auto_map": {"AutoTokenizer": ["code.Tokens", None]}, "tokenizer_class": "X"})
    with contextlib.suppress(UserError):  # where transformers has a tokenizer for the model, that one is used
        load_teacher(str(folder), CPU)
    write_json(folder / "config.json", {"model_type": "own", "auto_map": {"AutoConfig": "code.C", "AutoModel": "code.M"}})
    with pytest.raises(
        UserError, match=r"cannot be loaded as a teacher \(it needs code of its own \(auto_map\), which is never run"
    ):
        load_teacher(str(folder), CPU)
    assert not (tmp_path / "ran").exists()


def test_a_model_of_one_tower_is_refused(tmp_path: Path, clip: Path):
    from transformers import ResNetConfig, ResNetModel

    config = ResNetConfig(embedding_size=8, hidden_sizes=[8, 8, 8, 8], depths=[1, 1, 1, 1], layer_type="basic")
    ResNetModel(config).save_pretrained(tmp_path)
    shutil.copy(clip / "merges.txt", tmp_path)
    with pytest.raises(UserError, match="a resnet model does not embed both images and texts") as caught:
        load_teacher(str(tmp_path), CPU)
    assert str(tmp_path) in str(caught.value)


@pytest.mark.parametrize("file", ["model.safetensors", "vocab.json", "config.json"])
def test_broken_files_are_one_line_that_names_the_folder(clip: Path, copy: Callable[[Path], Path], file: str):
    folder = copy(clip)
    (folder / file).write_bytes(b'{"model_type": "no-such-architecture"}')
    with pytest.raises(UserError) as caught:
        load_teacher(str(folder), CPU).encode_texts(TEXTS)
    assert str(folder) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_size_that_the_model_cannot_take_is_refused(clip: Path, copy: Callable[[Path], Path]):
    folder = copy(clip)
    write_json(folder / "preprocessor_config.json", {"size": 48})
    with pytest.raises(UserError, match="the preprocessor asks for images of 48 pixels, the model for 32"):
        load_teacher(str(folder), CPU)


# Tokens


def test_a_tokenizer_without_its_files_is_refused_by_its_folder(clip: Path, copy: Callable[[Path], Path]):
    folder = copy(clip)
    (folder / "vocab.json").unlink()
    (folder / "merges.txt").unlink()
    with pytest.raises(UserError, match="has no tokenizer"):
        load_teacher(str(folder), CPU)


def test_an_empty_tokenizer_is_refused_whatever_the_texts(clip: Path):
    from transformers import CLIPTokenizer

    teacher = teacher_of(clip)
    teacher._tokenizer = CLIPTokenizer()
    for texts in (["a dog", "a cat"], ["a dog", "a horse"], ["a dog"]):
        with pytest.raises(UserError, match=r"has no tokens for 'a dog': its files .* are likely missing") as caught:
            teacher.encode_texts(texts)
        assert str(clip) in str(caught.value)


def test_a_tokenizer_that_cannot_fill_up_short_texts_is_refused_by_its_folder(
    clip: Path, copy: Callable[[Path], Path], monkeypatch
):
    from transformers import AutoTokenizer

    load = AutoTokenizer.from_pretrained

    def without_padding(*given: Any, **options: Any) -> Any:
        tokenizer = load(*given, **options)
        tokenizer.pad_token = None
        return tokenizer

    monkeypatch.setattr(AutoTokenizer, "from_pretrained", without_padding)
    with pytest.raises(UserError, match=r"cannot be loaded as a teacher \(ValueError: Asking to pad"):
        load_teacher(str(clip), CPU)
