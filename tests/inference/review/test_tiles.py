import numpy as np
import pytest

from aevlp.config.config import build_config
from aevlp.core.engine import make_accelerator
from aevlp.core.errors import UserError
from aevlp.data.readers import read
from aevlp.inference.review.tiles import TeacherTiles
from tests.colours import COLOURS


@pytest.fixture
def config(tmp_path):
    options = {"teacher.name": "tests.colours:teacher", "damp.temperature": 0.1, "damp.augment": False, "damp.noise": False}
    return build_config("default", "aevlp", {**options, "store": str(tmp_path / "store"), "device": "cpu"})


def test_tiles_show_where_the_teacher_saw_what(world, config, tmp_path):
    table = read(world, None)
    tiles = TeacherTiles(config, table)
    with pytest.raises(UserError, match="no views of this image are stored for this teacher; aevlp score DATA stores them"):
        tiles.of(3, [])
    split = tiles._split(3)
    context = config.source_context(split, table.classes, tmp_path / "store", make_accelerator(config.engine))
    config.method.source.make(context, config.source).views.fill()

    tiles = TeacherTiles(config, table)
    shown = [column for column, name in enumerate(COLOURS) if table.labels[3, column] == 1]
    absent = [column for column in range(len(COLOURS)) if column not in shown]
    found = tiles.of(3, range(len(COLOURS)))
    assert len(found) == 1 + config.source.grid**2
    assert list(found[0].box) == [0, 0, 1, 1]
    assert all(0 <= left < right <= 1 and 0 <= top < bottom <= 1 for left, top, right, bottom in (each.box for each in found))
    best = np.array([[each.scores[column] for column in range(len(COLOURS))] for each in found]).max(0)
    assert best[shown].min() > best[absent].max()
    for each in found:
        assert each.top[0][1] == max(each.scores.values())
        assert len(each.top) == 3


def test_a_method_without_a_teacher_and_a_missing_store_are_named(world, config):
    table = read(world, None)
    with pytest.raises(UserError, match="the method an has no teacher"):
        TeacherTiles(build_config("default", "an", {}), table).of(0, [])
    with pytest.raises(UserError, match="without a store there are no views to show"):
        TeacherTiles(build_config("default", "aevlp", {"store": "none"}), table).of(0, [])
