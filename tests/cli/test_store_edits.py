"""A store survives every edit: after a folder was scored, each change of the set costs a teacher pass per new content."""

import csv
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from aevlp.cli.main import main
from aevlp.store.embedding_store import EmbeddingStore
from tests.cli.run import aevlp
from tests.colours import ColourTeacher, write_world

DRAWS, VIEWS = 2, 17


def photo(path: Path, seed: int) -> None:
    """A photo that nobody has seen."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.random.default_rng(seed).integers(0, 256, (40, 48, 3), dtype=np.uint8)).save(path)


def write_table(file: Path, rows) -> Path:
    with file.open("w", newline="") as opened:
        csv.writer(opened).writerows([["image", "labels", "split"], *rows])
    return file


def rows_of(photos: Path, base: Path):
    return [[path.relative_to(base).as_posix(), path.parent.name, "train"] for path in sorted(photos.glob("*/*.png"))]


@pytest.fixture
def options(small):
    """Two draws; labels as they are given."""
    words = [*small, "--epochs", "2", "--damp.draws", "2"]
    words[words.index("single")] = "given"
    return words


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """A folder of photos per class."""
    place = tmp_path_factory.mktemp("places")
    world = write_world(place / "world", train=45, test=0)
    for row in csv.DictReader((world / "labels.csv").open()):
        if row["labels"]:
            folder = place / "photos" / row["labels"].split(";")[0]
            folder.mkdir(parents=True, exist_ok=True)
            (world / row["image"]).rename(folder / Path(row["image"]).name)
    return place


@pytest.fixture
def scored(places, options, tmp_path):
    """A copy of the folder whose photos the teacher has seen, elsewhere; and the copy of the store."""
    if not (places / "views").exists():
        main(["score", str(places / "photos"), *options, "--store", str(places / "views")])
    for name in ("photos", "views"):
        shutil.copytree(places / name, tmp_path / name)
    return tmp_path


@pytest.fixture
def shown(monkeypatch):
    """The number of views that the teacher was shown, one entry per pass."""
    counts: list[int] = []
    encode = ColourTeacher.encode_images

    def count(self, pixels):
        counts.append(len(pixels))
        return encode(self, pixels)

    monkeypatch.setattr(ColourTeacher, "encode_images", count)
    return counts


def as_table(place, capsys, words):
    return write_table(place / "table.csv", rows_of(place / "photos", place)), 0


def as_renamed(place, capsys, words):
    first = next(iter(sorted(place.glob("photos/*/*.png"))))
    first.rename(first.with_name("my cat.png"))
    (place / "photos").rename(place / "renamed")
    return place / "renamed", 0


def as_added(place, capsys, words):
    photo(place / "photos" / "red" / "new.png", 1)
    return place / "photos", 1


def as_marked(place, capsys, words):
    rows = rows_of(place / "photos", place)
    for row in rows[::3]:
        row[2] = "val"
    return write_table(place / "table.csv", rows), 0


def as_subset(place, capsys, words):
    return write_table(place / "table.csv", rows_of(place / "photos", place)[3::2]), 0


def as_second(place, capsys, words):
    photos = sorted(place.glob("photos/*/*.png"))
    for number, path in enumerate(photos):
        copy = place / "second" / path.parent.name / f"copy of {path.name}"
        copy.parent.mkdir(parents=True, exist_ok=True)
        if number % 2:
            shutil.copy(path, copy)
        else:
            photo(copy, number)
    return place / "second", len(photos[::2])


def as_completed(place, capsys, words):
    answer = aevlp(capsys, "label", place / "photos", *words, "--out", place / "photos" / "completed.csv")
    assert answer.code == 0, answer.err
    assert "no teacher pass" in answer.err
    return place / "photos" / "completed.csv", 0


EDITS = [as_table, as_renamed, as_added, as_marked, as_subset, as_second, as_completed]


@pytest.mark.parametrize("edit", EDITS, ids=[edit.__name__ for edit in EDITS])
def test_an_edit_costs_a_teacher_pass_per_new_content(capsys, scored, options, shown, edit):
    words = [*options, "--store", scored / "views"]
    data, new = edit(scored, capsys, words)
    before = sum(shown)
    answer = aevlp(capsys, "score", data, *words)
    assert answer.code == 0, answer.err
    assert sum(shown) - before == new * DRAWS * VIEWS


def test_equal_photos_are_looked_at_once(capsys, options, shown, tmp_path):
    for number in range(12):
        photo(tmp_path / "photos" / "red" / f"{number}.png", number % 4)
        photo(tmp_path / "photos" / "blue" / f"{number}.png", number % 4)
    assert aevlp(capsys, "score", tmp_path / "photos", *options, "--store", tmp_path / "views").code == 0
    assert sum(shown) == 4 * DRAWS * VIEWS


def test_another_content_under_the_same_name_is_looked_at(capsys, scored, options, shown):
    """Also if the file has the same size."""
    path = next(iter(sorted(scored.glob("photos/*/*.png"))))
    words = ["score", scored / "photos", *options, "--store", scored / "views"]
    assert aevlp(capsys, *words).code == 0
    content = path.read_bytes()
    photo(path, 3)
    path.write_bytes(path.read_bytes() + content[: max(0, len(content) - path.stat().st_size)])
    assert aevlp(capsys, *words).code == 0
    assert sum(shown) == DRAWS * VIEWS


def test_known_files_are_not_read_again(capsys, scored, options, monkeypatch):
    words = ["score", scored / "photos", *options, "--store", scored / "views"]
    assert aevlp(capsys, *words).code == 0  # files of another path than those that were scored: read once
    hashed: list[Path] = []

    def note(paths, **_):
        hashed.extend(paths)
        return np.zeros(len(paths), "S16")

    monkeypatch.setattr("aevlp.data.load.digests", note)
    assert aevlp(capsys, *words).code == 0
    assert hashed == []
    one = next(iter(sorted(scored.glob("photos/*/*.png"))))
    one.touch()
    assert aevlp(capsys, *words).code in (0, 2)
    assert hashed == [one]


def test_features_of_a_frozen_backbone_survive_the_same_edits(capsys, scored, plain, monkeypatch):
    """All edits after each other: no image is shown to the backbone twice in the same way, and no known one as it is."""
    written: list[tuple[int, bytes]] = []
    write = EmbeddingStore.write

    def note(self, draw, digests, embeddings):
        written.extend((draw, digest) for digest in digests.tolist())
        write(self, draw, digests, embeddings)

    monkeypatch.setattr(EmbeddingStore, "write", note)
    words = [*plain, "--train.mode", "linear", "--method", "an", "--epochs", "1", "--store", scored / "features"]
    words[words.index("single")] = "given"
    run_of = iter(range(10))

    def train(data) -> int:
        """The number of contents that the backbone had not seen before."""
        before = {digest for _, digest in written}
        answer = aevlp(capsys, "train", data, "--out", scored / f"run-{next(run_of)}", *words)
        assert answer.code == 0, answer.err
        assert len(written) == len(set(written))
        return len({digest for _, digest in written} - before)

    assert train(scored / "photos") == len(list(scored.glob("photos/*/*.png")))
    for edit in (as_table, as_marked, as_second, as_added, as_renamed):
        data, new = edit(scored, capsys, words)
        assert train(data) == new
