"""WebDataset: samples in tar archives, their labels, and what is refused."""

import io
import json
import tarfile

import pytest
from PIL import Image

from aevlp.core.errors import UserError
from aevlp.data import read
from aevlp.data.images import bad_images, open_rgb
from aevlp.data.readers import ChosenColumns


def picture(number=0, format="PNG", **options):
    content = io.BytesIO()
    Image.new("RGB", (12, 8), (number, 10, 100)).save(content, format, **options)
    return content.getvalue()


@pytest.fixture
def tar(tmp_path):
    """Writes an archive of (name, content) or of members, and returns it."""

    def write(*members, name="train-000.tar"):
        with tarfile.open(tmp_path / name, "w") as archive:
            for each in members:
                member, content = (each, b"") if isinstance(each, tarfile.TarInfo) else (tarfile.TarInfo(each[0]), each[1])
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
        return tmp_path / name

    return write


def labels_of(table):
    return [[table.classes[column] for column in row.nonzero()[0] if row[column] == 1] for row in table.labels]


@pytest.mark.parametrize(
    ("suffix", "first", "second"),
    [
        ("json", b'{"labels": ["cat", "dog"], "id": 1}', b'{"label": "dog", "labels": ["dog"]}'),
        ("json", b'["cat", "dog"]', b'["dog"]'),
        ("txt", b"cat\ndog\n", b"dog"),
        ("txt", b"cat;dog", b"dog\n"),
        ("cls", b"cat;dog", b"dog"),
    ],
)
def test_labels_are_in_json_cls_or_txt(tar, suffix, first, second):
    file = tar(("a/1.png", picture(1)), (f"a/1.{suffix}", first), ("a/2.jpg", picture(2, "JPEG")), (f"a/2.{suffix}", second))
    for path in (file, file.parent):
        table = read(path)
        assert labels_of(table) == [["cat", "dog"], ["dog"]]
        assert (table.kind, table.names) == ("webdataset", ("train-000.tar/a/1.png", "train-000.tar/a/2.jpg"))
        assert bad_images(table.paths) == {}


def test_numbers_of_classes(tar, refusal):
    file = tar(("1.png", picture(1)), ("1.cls", b"2"), ("2.png", picture(2)), ("2.cls", b"10\n"), ("3.png", picture(3)))
    assert read(file).classes == ("2", "10")
    (file.parent / "classes.txt").write_text("cat\ndog\nelk\n")
    assert refusal(file) == f"{file}, sample 2: the label 10 is out of the range of 3 of the classes; correct it"
    file = tar(("1.png", picture(1)), ("1.cls", b"2"), ("2.png", picture(2)), ("2.cls", b"0"))
    assert labels_of(read(file)) == [["elk"], ["cat"]]


def test_what_is_not_obvious_is_asked_for(tar, refusal):
    both = {"caption": "a cat", "tags": ["cat", "dog"]}
    file = tar(("1.png", picture()), ("1.json", json.dumps(both).encode()), ("1.txt", b"a cat"), ("1.mask.png", picture(9)))
    assert refusal(file) == (
        f"{file}: which column holds the labels is not obvious; name it with --label-column (there are: caption, tags, txt)"
    )
    assert labels_of(read(file, chosen=ChosenColumns(label="tags"))) == [["cat", "dog"]]
    with pytest.raises(UserError, match=r"^--label-column tag: .* has no such column of labels \(did you mean 'tags'\?\)"):
        read(file, chosen=ChosenColumns(label="tag"))
    file = tar(("1.png", picture(1)), ("1.jpg", picture(2, "JPEG")), ("1.txt", b"cat;dog"))
    assert (
        refusal(file)
        == f"{file}: which column holds the images is not obvious; name it with --image-column (there are: jpg, png)"
    )
    assert read(file, chosen=ChosenColumns(image="jpg")).names == ("train-000.tar/1.jpg",)


def test_archives_tell_their_splits_and_one_key_may_be_in_several(tar, tmp_path):
    for name in ("train-000.tar", "train-001.tar", "val-000.tar", "test.tar"):
        tar(("1.png", picture()), ("1.txt", b"cat;dog"), name=name)
    table = read(tmp_path)
    assert dict(zip(table.names, table.splits, strict=True)) == {
        "test.tar/1.png": "test",
        "train-000.tar/1.png": "train",
        "train-001.tar/1.png": "train",
        "val-000.tar/1.png": "val",
    }


def test_an_image_in_an_archive_is_decoded_as_one_in_a_folder(tar, tmp_path):
    turned = Image.Exif()
    turned[0x0112] = 6
    content = picture(7, "JPEG", exif=turned)
    (tmp_path / "1.jpg").write_bytes(content)
    table = read(tar(("1.jpg", content), ("1.txt", b"cat;dog")))
    assert open_rgb(table.paths[0]).tobytes() == open_rgb(tmp_path / "1.jpg").tobytes()
    assert open_rgb(table.paths[0]).size == (8, 12)


def test_two_samples_with_one_key(tar, refusal):
    file = tar(("1.png", picture()), ("2.png", picture(2)), ("1.txt", b"cat;dog"))
    assert refusal(file) == f"{file}: two samples have the key '1'; give each a key of its own"
    file = tar(("1.png", picture()), ("1.png", picture(2)), ("1.txt", b"cat;dog"))
    assert refusal(file) == f"{file}: two members are called '1.png'; make the archive again, with one of them"


@pytest.mark.parametrize("name", ["../1.png", "a/../../1.png", "/etc/1.png", "a\n.png"])
def test_a_name_that_leads_out_of_the_archive(tar, refusal, name):
    file = tar((name, picture()), ("1.txt", b"cat;dog"))
    assert refusal(file).startswith(f"{file}: the name {name!r} leads out of the archive, or is no readable text")


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE])
def test_links_and_devices_are_refused(tar, refusal, kind):
    member = tarfile.TarInfo("1.png")
    member.type, member.linkname = kind, "/etc/passwd"
    file = tar(member, ("1.txt", b"cat;dog"))
    assert refusal(file) == f"{file}: '1.png' is a link or a device, not a regular file; make the archive again, without it"


@pytest.mark.parametrize("suffix", ["pyd", "pickle", "pkl", "pth"])
def test_pickles_are_never_loaded(tar, refusal, suffix, tmp_path):
    evil = f"cos\nsystem\n(S'touch {tmp_path}/ran'\ntR.".encode()
    file = tar(("1.png", picture()), (f"1.{suffix}", evil))
    assert refusal(file).startswith(
        f"{file}: '1.{suffix}' is a pickle, which may run any program when it is opened; leave it out"
    )
    assert not (tmp_path / "ran").exists()


def test_a_damaged_archive(tar, refusal):
    file = tar(("1.png", picture()), ("1.txt", b"cat;dog"), ("2.png", picture(2)), ("2.txt", b"cat"))
    content = file.read_bytes()
    spoilt = [b"no archive at all" * 60, content[:700], content[:1024] + b"\xff" * 512 + content[1536:], b""]
    for each in spoilt:
        file.write_bytes(each)
        assert refusal(file).startswith(f"{file}: damaged, or no plain tar archive ("), each[:20]
    import gzip

    file.write_bytes(gzip.compress(content))
    assert refusal(file).endswith("make it again, without compression")


def test_a_member_that_is_no_image_is_a_bad_image(tar):
    table = read(tar(("1.png", b"nothing"), ("1.txt", b"cat;dog"), ("2.png", picture()[:40]), ("2.txt", b"cat")))
    assert sorted(bad_images(table.paths)) == [0, 1]


@pytest.mark.parametrize(
    ("content", "what"), [(b"{", "is not valid JSON"), (b"[" * 100_000, "is not valid JSON"), (b"\xff", "is not UTF-8 text")]
)
def test_labels_that_cannot_be_read(tar, refusal, content, what):
    assert f"'1.json' {what}" in refusal(tar(("1.png", picture()), ("1.json", content)))


def test_a_label_that_is_none(tar, refusal):
    file = tar(("1.png", picture()), ("1.json", b'{"labels": [{"a": 1}]}'))
    assert refusal(file).startswith(f"{file}, sample 1: the label \"{{'a': 1}}\" is neither a name nor the number of a class")


def test_an_archive_beside_class_folders_is_not_the_set(tar, pictures):
    root = pictures(["dog/1.png", "cat/1.png"])
    tar(("1.png", picture()), ("1.txt", b"cat;dog"), name="backup.tar")
    assert read(root).kind == "folder"
    assert read(root, "webdataset").kind == "webdataset"


def test_samples_without_an_image_are_counted(tar):
    table = read(tar(("index.json", b"{}"), ("1.png", picture()), ("1.txt", b"cat;dog"), ("2.txt", b"cat")))
    assert table.notes == ("samples without an image, left out: 2",)
    assert len(table.names) == 1


def test_no_images(tar, refusal):
    file = tar(("1.txt", b"cat;dog"))
    assert refusal(file) == f"{file}: no images in it; its members end in: txt"
