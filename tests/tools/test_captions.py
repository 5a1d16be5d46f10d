"""Captions name some of the things there; the tokenizer reads them."""

import re

import numpy as np
from tools.demo_models.captions import LONGEST, caption, save_tokenizer, vocabulary
from tools.demo_models.others import ALL_THINGS


def test_captions_name_some_of_what_is_there_and_use_the_common_prompt():
    rng = np.random.default_rng(0)
    texts = [caption(rng, {"apple": 0.2, "boat": 0.01, "key": 0.1, "tent": 0.1}) for _ in range(600)]
    words = [set(re.findall(r"\w+", text)) for text in texts]
    named = [len(found & {"apple", "boat", "ship", "key", "tent"}) for found in words]
    assert set(named) == {1, 2, 3}
    assert np.mean(named) < 2
    assert "a photo of a apple." in texts
    assert sum("apple" in found for found in words) > sum(bool({"boat", "ship"} & found) for found in words)


def test_a_caption_of_nothing_names_nothing():
    rng = np.random.default_rng(0)
    assert not any(set(caption(rng, {}).strip(".").split()) & set(ALL_THINGS) for _ in range(50))


def test_every_caption_is_in_the_vocabulary_and_fits(tmp_path):
    tokenizer = save_tokenizer(tmp_path)
    rng = np.random.default_rng(1)
    for _ in range(500):
        areas = {str(name): float(rng.random()) for name in rng.choice(sorted(ALL_THINGS), 4, replace=False)}
        ids = tokenizer(caption(rng, areas))["input_ids"]
        assert tokenizer.unk_token_id not in ids
        assert len(ids) <= LONGEST
    assert set(ALL_THINGS) <= set(vocabulary())
