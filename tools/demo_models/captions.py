"""Captions for drawn scenes, which name only some of the things there, and the word-level tokenizer that reads them."""

import re
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer, normalizers, pre_tokenizers, processors
from tokenizers.models import WordLevel
from transformers import PreTrainedTokenizerFast

from tools.demo_models.others import ALL_THINGS

LONGEST = 16
"""Most tokens in a text, with the start and the end."""

PAD, UNKNOWN, START, END = "<pad>", "<unk>", "<|startoftext|>", "<|endoftext|>"

_PROMPT = "a photo of a {}."
_ONE = (
    "a picture of a {}.", "a drawing of a {}.", "a {}.", "there is a {} here.", "the {}.", "a photo of the {}.",
    "one {} in a scene.", "a nice {}.", "{}", "look at this {}!", "part of a {}.",
)  # fmt: skip
_SMALL = ("a small {}.", "a photo of a small {}.", "a {} far away.", "a tiny {} in the corner.")
_LARGE = ("a large {}.", "a photo of a large {}.", "a close {}.", "a big {} in the middle.")
_TWO = (
    "a photo of a {} and a {}.", "a {} and a {}.", "a {} with a {}.", "a {} next to a {}.", "a picture of a {} near a {}.",
    "a {} in front of a {}.",
)  # fmt: skip
_THREE = ("a {}, a {} and a {}.", "a photo of a {}, a {} and a {}.", "a {} and a {} with a {}.")
_NONE = ("an empty scene.", "a photo of nothing.", "a plain background.", "only colours and lines.", "a photo of a pattern.")
_SYNONYMS = {
    "boat": "ship", "car": "automobile", "cat": "kitten", "cup": "mug", "flower": "blossom", "house": "home", "lamp": "light",
    "mushroom": "toadstool", "umbrella": "parasol", "clock": "watch", "envelope": "letter", "turtle": "tortoise",
}  # fmt: skip
_MORE_WORDS = [
    "photo",
    "image",
    "of",
    "an",
    "one",
    "two",
    "three",
    "some",
    "many",
    "red",
    "green",
    "blue",
    "yellow",
    "black",
    "white",
    "bright",
    "dark",
    "on",
    "under",
    "behind",
    "over",
]


def caption(rng: np.random.Generator, areas: dict[str, float]) -> str:
    """Return a caption with one to three of the classes, larger ones more often (`areas`: class -> share of the picture)."""
    if not areas:
        return str(rng.choice(_NONE))
    names = list(areas)
    weights = np.array([areas[name] for name in names]) ** 0.5
    named = 1 + int(rng.random() < 0.35) + int(rng.random() < 0.1)
    chosen = [names[i] for i in rng.choice(len(names), min(named, len(names)), replace=False, p=weights / weights.sum())]
    words = [_SYNONYMS[name] if name in _SYNONYMS and rng.random() < 0.15 else name for name in chosen]
    if len(chosen) == 1:
        if rng.random() < 0.4:
            return _PROMPT.format(*words)
        area = areas[chosen[0]]
        fitting = _SMALL if area < 0.02 else _LARGE if area > 0.3 else _ONE
        return str(rng.choice(fitting if rng.random() < 0.4 else _ONE)).format(*words)
    return str(rng.choice(_TWO if len(chosen) == 2 else _THREE)).format(*words)


def vocabulary() -> list[str]:
    """Return every word and sign of the captions, in alphabetical order."""
    sentences = [_PROMPT, *_ONE, *_SMALL, *_LARGE, *_TWO, *_THREE, *_NONE, *ALL_THINGS, *_SYNONYMS.values(), *_MORE_WORDS]
    return sorted({word for text in sentences for word in re.findall(r"\w+|[^\w\s]+", text.replace("{}", " "))})


def save_tokenizer(folder: Path) -> Any:
    """Write a word-level tokenizer that `AutoTokenizer` loads; return it."""
    tokens = {word: i for i, word in enumerate([PAD, UNKNOWN, START, END, *vocabulary()])}
    reader = Tokenizer(WordLevel(tokens, unk_token=UNKNOWN))
    reader.normalizer = normalizers.Lowercase()
    reader.pre_tokenizer = pre_tokenizers.Whitespace()
    reader.post_processor = processors.TemplateProcessing(
        single=f"{START} $A {END}", special_tokens=[(START, tokens[START]), (END, tokens[END])]
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=reader,
        pad_token=PAD,
        unk_token=UNKNOWN,
        bos_token=START,
        eos_token=END,
        model_max_length=LONGEST,
        model_input_names=["input_ids", "attention_mask"],
    )
    tokenizer.save_pretrained(folder)
    return tokenizer
