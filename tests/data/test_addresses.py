"""Image files are found by the end of their addresses, whatever stands before it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from aevlp.core.errors import UserError
from aevlp.data.addresses import find_images

Pictures = Callable[[list[str]], Path]


@pytest.mark.parametrize(
    "address",
    [
        "photos/1 b.jpg",
        "../set/photos/1 b.jpg",
        "/data/local-files/?d=photos/1%20b.jpg",
        "/data/local-files/?d=photos%2F1+b.jpg",
        "/data/local-files/?d=set/photos/1%20b.jpg",
        "s3://bucket/photos/1 b.jpg",
        "s3://bucket/deep/photos/1%20b.jpg",
        "gs://bucket/1 b.jpg",
        "https://host/x/photos/1%20b.jpg?signature=a/b.jpg",
        "https://host:8080/1%20b.jpg#top",
        "file:///somewhere/photos/1%20b.jpg",
        "/home/another/photos/1 b.jpg",
        "C:\\Users\\me\\photos\\1 b.jpg",
        "/data/upload/3/1a2b3c4d-1 b.jpg",
        "/data/upload/3/1a2b3c4d-1%20b.jpg",
        "upload/12/1a2b3c4d-1%20b.jpg",
        "https://host/data/upload/3/1a2b3c4d-1%20b.jpg",
    ],
)
@pytest.mark.parametrize("place", ["set", "labels"])
def test_every_spelling_leads_to_the_image(pictures: Pictures, address: str, place: str) -> None:
    root = pictures(["set/photos/1 b.jpg", "set/photos/other.jpg"])
    (root / "labels").mkdir()
    expected = {"set": "photos/1 b.jpg", "labels": "../set/photos/1 b.jpg"}[place]
    [found] = find_images([address], root / place / "tasks.json")
    assert found == expected
    assert (root / place / found).samefile(root / "set/photos/1 b.jpg")


def test_an_absolute_path_of_this_machine_leads_anywhere(pictures: Pictures, tmp_path_factory: pytest.TempPathFactory) -> None:
    root = pictures(["far/1.jpg"])
    folder = tmp_path_factory.mktemp("elsewhere")
    [found] = find_images([str(root / "far/1.jpg")], folder / "labels.json")
    assert (folder / found).samefile(root / "far/1.jpg")


def test_the_longest_end_wins(pictures: Pictures) -> None:
    root = pictures(["set/dog/1.jpg", "set/cat/1.jpg", "set/x/cat/1.jpg", "set/1.jpg"])
    addresses = ["/other/dog/1.jpg", "s3://b/x/cat/1.jpg", "/other/y/cat/1.jpg"]
    assert find_images(addresses[:2], root / "set/l.json") == ["dog/1.jpg", "x/cat/1.jpg"]
    with pytest.raises(UserError, match=r"1 of 1 images may be several files .*/other/y/cat/1.jpg': cat/1.jpg, x/cat/1.jpg"):
        find_images(addresses[2:], root / "set/l.json")


def test_of_equal_ends_the_one_in_the_folder_of_the_file_wins(pictures: Pictures) -> None:
    root = pictures(["set/a/1.jpg", "copy/a/1.jpg"])
    assert find_images(["/other/a/1.jpg"], root / "set/l.json") == ["a/1.jpg"]
    (root / "labels").mkdir()
    with pytest.raises(UserError, match=r"may be several files .*: \.\./copy/a/1.jpg, \.\./set/a/1.jpg\); put more of the path"):
        find_images(["/other/a/1.jpg"], root / "labels/l.json")


def test_images_beside_the_folder_are_all_in_one_place(pictures: Pictures) -> None:
    """A missing image is not replaced by one of another project."""
    root = pictures(["photos/1.jpg", "photos/2.jpg", "another/1.jpg", "another/3.jpg"])
    (root / "labels").mkdir()
    assert find_images(["s3://b/1.jpg", "s3://b/2.jpg"], root / "labels/l.json") == ["../photos/1.jpg", "../photos/2.jpg"]
    with pytest.raises(UserError, match=r"1 of 2 images are not found \(s3://b/3.jpg\)"):
        find_images(["s3://b/2.jpg", "s3://b/3.jpg"], root / "photos/l.json")


def test_a_name_that_several_folders_share_is_not_enough(pictures: Pictures) -> None:
    root = pictures(["set/dog/1.jpg", "set/dog/2.jpg"])
    with pytest.raises(UserError, match=r"1 of 2 images are not found \(/x/cat/1.jpg\)"):
        find_images(["/x/dog/1.jpg", "/x/cat/1.jpg"], root / "set/l.json")
    assert find_images(["/x/dogs/2.jpg"], root / "set/l.json") == ["dog/2.jpg"]


def test_a_name_that_looks_encoded_is_taken_as_it_is(pictures: Pictures) -> None:
    root = pictures(["set/a%20b.jpg", "set/a b.jpg", "set/1a2b3c4d-c.jpg", "set/c.jpg"])
    assert find_images(["a%20b.jpg", "x/1a2b3c4d-c.jpg"], root / "set/l.json") == ["a%20b.jpg", "1a2b3c4d-c.jpg"]
    assert find_images(["https://h/a%20b.jpg"], root / "set/l.json") == ["a b.jpg"]


def test_names_without_a_suffix(pictures: Pictures) -> None:
    root = pictures(["set/data/1.v2.jpg", "set/data/2.png"])
    assert find_images(["1.v2", "/x/data/2"], root / "set/labels.json", has_suffixes=False) == ["data/1.v2.jpg", "data/2.png"]
    with pytest.raises(UserError, match="2 of 2 images are not found"):
        find_images(["1.v2", "/x/data/2"], root / "set/labels.json")


def test_missing_images_are_listed_in_one_line(pictures: Pictures) -> None:
    root = pictures(["set/1.jpg"])
    lost = ["s3://b/2.jpg", "", "\0.jpg", "\ud800.jpg", "http://[::1/3.jpg", ".."]
    with pytest.raises(UserError) as caught:
        find_images(["1.jpg", *lost], root / "set/l.json")
    assert str(caught.value).startswith(f"{root}/set/l.json: 6 of 7 images are not found (s3://b/2.jpg, , ")
    assert f"they are looked for in {root}/set and beside it" in str(caught.value)


def test_two_addresses_of_one_image_are_refused(pictures: Pictures) -> None:
    root = pictures(["set/1.jpg"])
    with pytest.raises(UserError, match=r"several entries are about one image \(1.jpg, s3://b/1.jpg\)"):
        find_images(["1.jpg", "s3://b/1.jpg"], root / "set/l.json")


def test_links_are_followed_as_the_system_does(pictures: Pictures) -> None:
    root = pictures(["real/deep/1.jpg"])
    (root / "photos").symlink_to(root / "real" / "deep")
    (root / "out").symlink_to(root / "real")
    assert find_images(["/data/local-files/?d=photos/1.jpg"], root / "x.json") == ["photos/1.jpg"]
    [found] = find_images(["/elsewhere/deep/1.jpg"], root / "out" / "x.json")
    assert (root / "out" / found).is_file()
