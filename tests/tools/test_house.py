import pytest

from tests.test_rooms import ROOMS
from tools import house


def test_the_picture_of_the_house_is_current():
    house.main(["--check"])


def test_it_shows_every_room_in_its_order():
    drawn = house.draw()
    assert tuple(house.ROOMS) == ROOMS
    heights = [drawn.index(f'class="room">{room}</text>') for room in ROOMS]
    assert heights == sorted(heights)


def test_an_old_picture_is_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(house, "PICTURE", tmp_path / "house.svg")
    with pytest.raises(SystemExit, match="is not current; draw it again"):
        house.main(["--check"])
    house.main([])
    house.main(["--check"])
    house.PICTURE.write_text(house.PICTURE.read_text().replace("core", "cellar", 1))
    with pytest.raises(SystemExit, match="is not current"):
        house.main(["--check"])


@pytest.fixture
def known(tmp_path):
    """A package of three modules: the first imports the second, the third registers itself."""
    contents = {
        "cli.train": "from aevlp.data.load import load\n",
        "data.load": "",
        "sources.damp": "@register_source('damp')\nclass Damp: ...\n",
    }
    for name, text in contents.items():
        (tmp_path / name).write_text(text)
    return {name: tmp_path / name for name in contents}


START = house.Step("cli.train", None, "")


@pytest.mark.parametrize(
    ("step", "mistakes"),
    [
        (house.Step("data.load", "cli.train", ""), []),
        (house.Step("sources.damp", "cli.train", "", registered=True), []),
        (house.Step("data.save", "cli.train", ""), ["data.save: no such module"]),
        (house.Step("data.load", "sources.damp", ""), ["data.load: sources.damp is not an earlier step"]),
        (house.Step("sources.damp", "cli.train", ""), ["sources.damp: cli.train does not import it"]),
        (house.Step("data.load", "cli.train", "", registered=True), ["data.load: registers nothing"]),
    ],
)
def test_a_step_that_the_code_does_not_take_is_found(known, step, mistakes):
    assert house.mistakes([START, step], known) == mistakes


def test_imports_inside_functions_and_for_types_alone_are_counted(tmp_path):
    file = tmp_path / "one.py"
    file.write_text(
        "from typing import TYPE_CHECKING\n"
        "from aevlp.core import files\n"
        "import aevlp.data.load\n"
        "if TYPE_CHECKING:\n    from aevlp.damp.labels import rank\n"
        "def f():\n    from aevlp.models.teacher import Teacher\n"
    )
    assert sorted(house.imports(file, house.modules())) == ["core.files", "damp.labels", "data.load", "models.teacher"]
