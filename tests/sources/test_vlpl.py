"""The vlpl source: one look at the whole image."""

import numpy as np
import pytest
import torch
from accelerate import Accelerator

from aevlp.config.config import build_config
from aevlp.data import prepare, read
from aevlp.data.images import open_rgb
from aevlp.sources.damp import Damp
from aevlp.sources.vlpl import Vlpl
from tests.colours import ColourTeacher

VALUES = {"teacher.name": "tests.colours:teacher", "vlpl.temperature": 0.2, "train.epochs": 3}


@pytest.fixture
def data(world):
    return prepare(read(world), observe="single")


@pytest.fixture
def make(data, tmp_path):
    def source(root="views", **values):
        config = build_config("test", "vlpl", {**VALUES, **values})
        root = None if root is None else tmp_path / root
        made = Vlpl(config.source_context(data.train, data.classes, root, Accelerator(cpu=True)), config.source)
        made.fill()
        return made

    return source


def test_a_class_is_positive_where_the_softmax_of_the_whole_image_is_above_the_threshold(make, data):
    from PIL import Image

    teacher = ColourTeacher()
    texts = torch.nn.functional.normalize(teacher.encode_texts([f"a photo of a {name}." for name in data.classes]), dim=1)
    found = make().table
    certain = 0
    for row, path in enumerate(data.train.paths):
        pixels = np.array(open_rgb(path).resize((16, 16), Image.Resampling.BICUBIC))
        view = torch.from_numpy(pixels).permute(2, 0, 1)[None].float() / 127.5 - 1
        seen = torch.nn.functional.normalize(teacher.encode_images(view), dim=1)
        scores = (seen @ texts.T / 0.2).softmax(1)[0]
        for c in range(len(data.classes)):
            if data.train.observed[row, c] != 0:
                assert found[row, c] == 0
            elif abs(scores[c] - 0.3) > 0.01:  # views are rounded to bytes and halves
                assert found[row, c] == int(scores[c] > 0.3)
                certain += int(found[row, c])
    assert certain > 5


def test_labels_do_not_change_and_cost_one_view_per_image(make, data):
    source = make()
    assert torch.equal(source.table, make().table)
    assert torch.equal(source.evidence(), source.table)
    assert source.views.scorer.settings.count == 1
    assert source.views.store is not None
    assert source.views.store.shape[0] == 1
    assert torch.equal(make(root=None).table, source.table)
    assert make(**{"vlpl.threshold": 0.9}).table.sum() < source.table.sum()


def test_its_store_is_not_that_of_damp_and_serves_another_threshold(make, data, tmp_path):
    first = make()
    assert first.views.scorer.forward_batches > 0
    assert make(**{"vlpl.threshold": 0.5, "seed": 3}).views.scorer.forward_batches == 0
    assert len(list((tmp_path / "views").glob("*/manifest.json"))) == 1
    config = build_config("test", "aevlp", {"teacher.name": "tests.colours:teacher", "damp.draws": 1})
    Damp(config.source_context(data.train, data.classes, tmp_path / "views", Accelerator(cpu=True)), config.source).fill()
    assert len(list((tmp_path / "views").glob("*/manifest.json"))) == 2
