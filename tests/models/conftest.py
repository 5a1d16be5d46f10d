import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tests.models.tiny_teachers import TINY, save, save_siglip, siglip_text_config, write_json


@pytest.fixture(scope="session")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny CLIP in half precision, with a tokenizer of single characters."""
    from tokenizers.pre_tokenizers import ByteLevel
    from transformers import CLIPConfig, CLIPModel

    torch.manual_seed(0)
    letters = sorted(ByteLevel.alphabet())
    vocabulary = [*letters, *(letter + "</w>" for letter in letters), "<|startoftext|>", "<|endoftext|>"]
    start, end = len(vocabulary) - 2, len(vocabulary) - 1
    ids = {"vocab_size": len(vocabulary), "bos_token_id": start, "eos_token_id": end, "pad_token_id": end}
    text = {**TINY, **ids, "max_position_embeddings": 24}
    config = CLIPConfig(text_config=text, vision_config={**TINY, "image_size": 32, "patch_size": 16}, projection_dim=8)
    mean, std = [0.48145466, 0.4578275, 0.40821073], [0.26862954, 0.26130258, 0.27577711]
    size = {"size": {"shortest_edge": 32}, "do_center_crop": True, "crop_size": 32}
    folder = tmp_path_factory.mktemp("clip")
    save(CLIPModel(config).half(), folder, {**size, "image_mean": mean, "image_std": std})
    write_json(folder / "vocab.json", {token: i for i, token in enumerate(vocabulary)})
    (folder / "merges.txt").write_text("#version: 0.2\n")
    write_json(folder / "tokenizer_config.json", {"tokenizer_class": "CLIPTokenizer"})
    return folder


@pytest.fixture(scope="session")
def siglip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_siglip(tmp_path_factory.mktemp("siglip"), "PreTrainedTokenizerFast")


@pytest.fixture(scope="session")
def siglip2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """SigLIP2 of free aspect ratio, whose images come as lists of patches."""
    from transformers import Siglip2Config, Siglip2Model, Siglip2Tokenizer

    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("siglip2")
    config = Siglip2Config(text_config=siglip_text_config(), vision_config={**TINY, "num_patches": 4, "patch_size": 16})
    save(Siglip2Model(config), folder, {"image_mean": [0.5] * 3, "image_std": [0.5] * 3, "max_num_patches": 4})
    characters = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>", "▁", ".", *"abcdefghijklmnopqrstuvwxyz"]
    Siglip2Tokenizer(vocab={token: i for i, token in enumerate(characters)}).save_pretrained(folder)
    return folder


@pytest.fixture
def copy(tmp_path: Path) -> Callable[[Path], Path]:
    return lambda folder: Path(shutil.copytree(folder, tmp_path / "copy"))
