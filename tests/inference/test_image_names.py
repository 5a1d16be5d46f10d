"""What PATHs stand for."""

import io
import os
import sys
from itertools import islice
from pathlib import Path

import pytest

from aevlp.core.errors import UserError
from aevlp.inference.image_names import count_images, image_names, require_images


@pytest.fixture(autouse=True)
def photos(tmp_path, monkeypatch):
    """Names are looked at, no image is read."""
    monkeypatch.chdir(tmp_path)
    for name in ("b/2.jpg", "b/10.JPG", "b/deep/1.png", "a/3.webp", "z.jpg", "c.jpg", "notes.txt", ".hidden.jpg", ".cache/x.jpg"):
        path = tmp_path / "photos" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return tmp_path / "photos"


ALL = ["c.jpg", "z.jpg", "a/3.webp", "b/10.JPG", "b/2.jpg", "b/deep/1.png"]


@pytest.mark.parametrize("given", ["photos", "photos/", "./photos"])
def test_a_folder_is_its_images_at_any_depth_sorted_within_each_folder(given):
    assert list(image_names([given])) == [f"photos/{name}" for name in ALL]


def test_images_are_counted_where_that_reads_nothing_away(photos):
    assert count_images(["photos", "photos/*.jpg"]) == len(ALL) + 2
    assert count_images(["photos", "-"]) is None
    assert count_images(["memory://photos"]) is None


def test_the_folder_one_is_in(photos, monkeypatch):
    monkeypatch.chdir(photos)
    assert list(image_names(["."])) == ALL


def test_a_file_is_itself_as_it_was_given_whatever_its_name():
    assert list(image_names(["./photos/../photos/z.jpg", "photos/notes.txt"])) == [
        "./photos/../photos/z.jpg",
        "photos/notes.txt",
    ]


def test_paths_follow_each_other_and_may_repeat():
    assert list(image_names(["photos/z.jpg", "photos/a", "photos/z.jpg"])) == ["photos/z.jpg", "photos/a/3.webp", "photos/z.jpg"]


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("photos/*.jpg", ["c.jpg", "z.jpg"]),
        ("photos/*", ["c.jpg", "z.jpg"]),
        ("photos/?/*", ["a/3.webp", "b/10.JPG", "b/2.jpg"]),
        ("photos/[bc]*/*.jpg", ["b/2.jpg"]),
        ("photos/**/*.jpg", ["c.jpg", "z.jpg", "b/2.jpg"]),
        ("photos/**", ALL),
        ("p*s/b/**/1.png", ["b/deep/1.png"]),
        ("photos/*/../c.jpg", ["a/../c.jpg", "b/../c.jpg"]),
    ],
)
def test_a_pattern_is_what_matches_it(pattern, names):
    assert list(image_names([pattern])) == [f"photos/{name}" for name in names]


def test_a_pattern_may_be_absolute_or_below_the_home_folder(photos, monkeypatch):
    monkeypatch.setenv("HOME", str(photos.parent))
    expected = [str(photos / "c.jpg"), str(photos / "z.jpg")]
    assert list(image_names([f"{photos}/*.jpg"])) == expected
    assert list(image_names(["~/photos/*.jpg"])) == expected


def test_what_is_there_is_no_pattern(photos):
    (photos / "x[1]").mkdir()
    (photos / "x[1]" / "a[1].jpg").touch()
    assert list(image_names(["photos/x[1]/a[1].jpg"])) == ["photos/x[1]/a[1].jpg"]
    assert list(image_names(["photos/x[1]/*.jpg"])) == ["photos/x[1]/a[1].jpg"]


def test_links_to_folders_are_followed_but_not_in_a_circle(photos, tmp_path):
    (photos / "a" / "round").symlink_to(photos)
    assert list(image_names(["photos"])) == [f"photos/{name}" for name in ALL]
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "9.jpg").touch()
    (photos / "linked").symlink_to(tmp_path / "elsewhere")
    assert list(image_names(["photos"])) == [f"photos/{name}" for name in [*ALL, "linked/9.jpg"]]
    assert list(image_names(["photos/a/round/*.jpg"])) == ["photos/a/round/c.jpg", "photos/a/round/z.jpg"]
    assert "photos/a/round/c.jpg" in list(image_names(["photos/a/r*/*.jpg"]))


def test_a_link_to_nothing_is_named_so_that_it_can_be_complained_of(photos):
    (photos / "a" / "gone.jpg").symlink_to(photos / "gone.jpg")
    assert list(image_names(["photos/a"])) == ["photos/a/3.webp", "photos/a/gone.jpg"]


def test_a_table_is_the_images_that_it_names(photos):
    (photos / "list.csv").write_text("image,labels\nb/2.jpg,dog\nnot there.jpg,\n/abs/x.jpg,\n")
    assert list(image_names(["photos/list.csv"])) == ["photos/b/2.jpg", "photos/not there.jpg", "/abs/x.jpg"]


def test_names_on_standard_input_need_not_be_text(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a.jpg\n\n with space.jpg \r\nb\xff.jpg")))
    assert list(image_names(["photos/z.jpg", "-"])) == ["photos/z.jpg", "a.jpg", " with space.jpg ", os.fsdecode(b"b\xff.jpg")]


def test_names_come_as_they_are_asked_for(monkeypatch):
    class Endless(io.RawIOBase):
        def readable(self):
            return True

        def readinto(self, buffer):
            buffer[:4] = b"a.j\n"
            return 4

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(Endless())))
    assert list(islice(image_names(["-"]), 3)) == ["a.j"] * 3


def refusal(*paths: str) -> str:
    with pytest.raises(UserError) as caught:
        require_images(paths)
    return str(caught.value)


def test_what_has_no_image_is_refused(photos):
    (photos / "empty" / "deep").mkdir(parents=True)
    (photos / "empty" / "notes.txt").touch()
    (photos / "list.csv").write_text("image\n")
    assert refusal("photos", "nowhere.jpg") == "nowhere.jpg: no such file or folder; check the path"
    assert refusal("photos/empty") == "photos/empty: no images in this folder; add some, or check the path"
    assert refusal("photos/*.gif") == (
        "photos/*.gif: no image matches this pattern; check it, or name a folder to take all of its images"
    )
    assert refusal("nowhere/*.jpg").startswith("nowhere/*.jpg: no image matches")
    assert refusal("photos/list.csv") == "photos/list.csv: no images in this table; add some rows, or check the path"
    assert refusal("").startswith("an empty PATH")
    require_images(["photos", "photos/z.jpg", "photos/**/*.png", "-"])  # nothing is read from standard input here


def test_a_folder_that_may_not_be_read_is_an_error_of_the_user(photos, monkeypatch):
    def denied(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "scandir", denied)
    with pytest.raises(UserError, match=r"photos: cannot be read \(Permission denied\); check its permissions"):
        list(image_names(["photos"]))


def test_a_large_folder_costs_its_names_alone(tmp_path, monkeypatch):
    """No name is looked at twice: the folder's listing is what there is."""
    many = tmp_path / "many"
    many.mkdir()
    for number in range(300):
        (many / f"{number:04d}.jpg").touch()
    asked, stat = [], Path.stat

    def asking(path, **options):
        asked.append(path)
        return stat(path, **options)

    monkeypatch.setattr(Path, "stat", asking)
    assert len(list(image_names([str(many)]))) == 300
    assert len(asked) < 10
