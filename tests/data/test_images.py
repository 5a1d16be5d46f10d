import io
import os
import pickle
import socket
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageOps

from aevlp.data.image_files import digests
from aevlp.data.images import BadImage, bad_images, open_rgb
from aevlp.inference.completion.formats.coco import upright_size

RNG = np.random.RandomState(0)
NOISE = RNG.randint(0, 256, (90, 160, 3), dtype=np.uint8)
"""Hard to compress, so that a JPEG of it is long."""


def pixels(image: Image.Image) -> np.ndarray:
    assert image.mode == "RGB"
    return np.asarray(image)


def corners(size: tuple[int, int] = (48, 32)) -> Image.Image:
    """Four plain quarters: red, green, blue, white from the top left, row by row."""
    image = Image.new("RGB", size)
    half = (size[0] // 2, size[1] // 2)
    for i, colour in enumerate(["red", "lime", "blue", "white"]):
        image.paste(Image.new("RGB", half, colour), (half[0] * (i % 2), half[1] * (i // 2)))
    return image


@pytest.mark.parametrize("suffix", ["jpg", "png", "tif"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation(tmp_path: Path, orientation: int, suffix: str) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = tmp_path / f"turned.{suffix}"
    corners().save(path, exif=exif)
    with Image.open(path) as image:
        expected = ImageOps.exif_transpose(image).convert("RGB")
    upright = open_rgb(path)
    assert upright.size == ((48, 32) if orientation < 5 else (32, 48))
    assert np.array_equal(pixels(upright), np.asarray(expected))
    # A second program that honours the orientation must not turn it again.
    assert np.array_equal(np.asarray(ImageOps.exif_transpose(upright)), pixels(upright))


def special(folder: Path) -> list[Path]:
    """A pipe, a socket and a device, called like images."""
    os.mkfifo(folder / "pipe.jpg")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "socket.jpg"))
    (folder / "device.jpg").symlink_to("/dev/zero")
    return [folder / f"{name}.jpg" for name in ("pipe", "socket", "device")]


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    paths = special(tmp_path)
    assert bad_images(paths) == dict.fromkeys(range(3), "a pipe, a socket or a device, not a regular file")
    assert digests(paths).tolist() == [b"", b"", b""]
    for path in paths:
        with pytest.raises(BadImage, match="a pipe, a socket or a device"):
            upright_size(path)


def test_postscript_is_never_run(tmp_path: Path) -> None:
    path = tmp_path / "drawing.jpg"
    path.write_text("%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\nshowpage\n")
    with pytest.raises(BadImage, match="PostScript is a program, and is never run"):
        open_rgb(path)


def test_a_quarter_turn_by_hand(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    corners().save(tmp_path / "turned.png", exif=exif)
    upright = pixels(open_rgb(tmp_path / "turned.png"))
    assert upright[0, 0].tolist() == [0, 0, 255]
    assert upright[0, -1].tolist() == [255, 0, 0]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("suffix", ["jpg", "png"])
@pytest.mark.parametrize(
    "exif",
    [
        b"",
        b"neither TIFF nor anything",
        b"MM\0*\xff\xff\xff\xff\0\1",  # points past the end
        b"MM\0*\0\0\0\x08\0\1\x01\x12\0\2\0\0\0\4abc\0\0\0\0\0",  # an orientation of "abc"
    ],
)
def test_broken_exif_is_no_reason_to_refuse(tmp_path: Path, exif: bytes, suffix: str) -> None:
    path = tmp_path / f"a.{suffix}"
    corners().save(path, exif=b"Exif\0\0" + exif)
    assert open_rgb(path).size == (48, 32)


@pytest.mark.parametrize("mode", ["1", "L", "P", "CMYK", "YCbCr", "RGB"])
def test_modes_are_what_pil_makes_of_them(tmp_path: Path, mode: str) -> None:
    path = tmp_path / ("a.jpg" if mode in ("CMYK", "YCbCr") else "a.png")
    corners().convert(mode).save(path)
    with Image.open(path) as image:
        assert mode == "YCbCr" or image.mode == mode
        expected = np.asarray(image.convert("RGB"))
    assert np.array_equal(pixels(open_rgb(path)), expected)


def test_a_cmyk_jpeg_keeps_its_colours(tmp_path: Path) -> None:
    corners().convert("CMYK").save(tmp_path / "a.jpg", quality=100)
    seen = pixels(open_rgb(tmp_path / "a.jpg")).astype(int)
    assert np.abs(seen[8, 12] - [255, 0, 0]).max() < 12
    assert np.abs(seen[24, 36] - 255).max() < 12


@pytest.mark.parametrize("mode", ["LA", "RGBA"])
def test_transparency_is_dropped(tmp_path: Path, mode: str) -> None:
    image = Image.new(mode, (4, 4), (200, 0) if mode == "LA" else (200, 200, 200, 0))
    image.save(tmp_path / "a.png")
    assert (pixels(open_rgb(tmp_path / "a.png")) == 200).all()


def transparent_palette(path: Path) -> None:
    """A file at which PIL warns."""
    image = Image.new("P", (4, 4), 1)
    image.putpalette([10, 20, 30, 40, 50, 60])
    image.save(path, transparency=bytes([100, 0]))


@pytest.mark.filterwarnings("ignore")
def test_a_palette_with_transparency(tmp_path: Path) -> None:
    transparent_palette(tmp_path / "a.png")
    assert pixels(open_rgb(tmp_path / "a.png"))[0, 0].tolist() == [40, 50, 60]


def test_no_warning_reaches_the_screen(tmp_path: Path) -> None:
    transparent_palette(tmp_path / "a.png")
    head = "import sys, pathlib, warnings; path = pathlib.Path(sys.argv[1])\n"
    loud = head + "from PIL import Image; Image.open(path).convert('RGB')"
    quiet = head + "from aevlp.data.images import open_rgb, bad_images; open_rgb(path); bad_images([path] * 20, 4)"

    def screen(code: str) -> str:
        run = [sys.executable, "-W", "always", "-c", code, str(tmp_path / "a.png")]
        done = subprocess.run(run, capture_output=True, text=True, check=True)
        return done.stdout + done.stderr

    assert "UserWarning" in screen(loud)
    assert screen(quiet) == ""


@pytest.mark.parametrize("suffix", ["png", "tif"])
def test_16_bits_are_scaled_not_clipped(tmp_path: Path, suffix: str) -> None:
    deep = np.array([[0, 255, 256, 32768, 65535]], dtype=np.uint16)
    Image.fromarray(deep).save(tmp_path / f"a.{suffix}")
    assert pixels(open_rgb(tmp_path / f"a.{suffix}"))[0, :, 1].tolist() == [0, 0, 1, 128, 255]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0, 100, 255], [0, 100, 255]),
        ([0, 257, 65535], [0, 1, 255]),
        ([0, 1_000_000, 2_000_000], [0, 128, 255]),
        ([-5, 128, 255], [0, 128, 255]),
        ([0, 0, 0], [0, 0, 0]),
    ],
)
def test_32_bit_integers(tmp_path: Path, values: list[int], expected: list[int]) -> None:
    Image.fromarray(np.array([values], dtype=np.int32)).save(tmp_path / "a.tif")
    assert pixels(open_rgb(tmp_path / "a.tif"))[0, :, 2].tolist() == expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0.0, 0.5, 1.0], [0, 128, 255]),
        ([0.0, 99.6, 255.0], [0, 100, 255]),
        ([float("nan"), float("inf"), 1.0], [0, 0, 255]),
    ],
)
def test_floats(tmp_path: Path, values: list[float], expected: list[int]) -> None:
    Image.fromarray(np.array([values], dtype=np.float32)).save(tmp_path / "a.tif")
    assert pixels(open_rgb(tmp_path / "a.tif"))[0, :, 0].tolist() == expected


@settings(max_examples=40, deadline=None)
@given(width=st.integers(1, 500), height=st.integers(1, 500), at_least=st.integers(1, 300))
def test_draft_decoding_keeps_both_sides(
    tmp_path_factory: pytest.TempPathFactory, width: int, height: int, at_least: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "draft.jpg"
    Image.new("RGB", (width, height), "teal").save(path)
    small = open_rgb(path, at_least=at_least)
    for side, full in zip(small.size, (width, height), strict=True):
        assert side >= min(at_least, full)
    if min(width, height) < at_least:
        assert small.size == (width, height)


def test_draft_decoding_makes_large_jpegs_small_and_nothing_else(tmp_path: Path) -> None:
    for name in ("a.jpg", "a.png"):
        corners((800, 480)).save(tmp_path / name)
        assert open_rgb(tmp_path / name).size == (800, 480)
    assert open_rgb(tmp_path / "a.jpg", at_least=224).size == (400, 240)
    assert open_rgb(tmp_path / "a.jpg", at_least=60).size == (100, 60)
    assert open_rgb(tmp_path / "a.png", at_least=60).size == (800, 480)


def jpeg(**options: bool) -> bytes:
    file = io.BytesIO()
    Image.fromarray(NOISE).save(file, "JPEG", **options)
    return file.getvalue()


def png_header(width: int, height: int) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0" * 100)) + chunk(b"IEND", b"")


def png() -> bytes:
    file = io.BytesIO()
    Image.fromarray(NOISE).save(file, "PNG")
    return file.getvalue()


BAD: dict[str, tuple[Callable[[], bytes], str]] = {
    "half.jpg": (lambda: jpeg()[: len(jpeg()) // 2], "truncated: the end of the file is missing"),
    "nearly.jpg": (lambda: jpeg()[:-2], "truncated: the end of the file is missing"),
    "progressive.jpg": (lambda: jpeg(progressive=True)[:-100], "truncated: the end of the file is missing"),
    "half.png": (lambda: png()[: len(png()) // 2], "truncated: the end of the file is missing"),
    "text.jpg": (lambda: b"this is not an image", "not an image, or of an unknown format"),
    "empty.jpg": (lambda: b"", "an empty file"),
    "huge.png": (lambda: png_header(30_000, 30_000), "too many pixels (more than 178,956,970)"),
    "flipped.png": (lambda: png()[:60] + b"\xff" * 8 + png()[68:], "damaged ("),
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("at_least", [None, 1, 64])
def test_unreadable_files_say_why(tmp_path: Path, name: str, at_least: int | None) -> None:
    make, reason = BAD[name]
    path = tmp_path / name
    path.write_bytes(make())
    with pytest.raises(BadImage) as caught:
        open_rgb(path, at_least=at_least)
    assert caught.value.reason.startswith(reason)
    assert str(caught.value) == f"{path}: {caught.value.reason}; replace or remove the file"
    assert "\n" not in str(caught.value)


def test_a_missing_file_and_a_folder(tmp_path: Path) -> None:
    with pytest.raises(BadImage, match="no such file; replace"):
        open_rgb(tmp_path / "a.png")
    with pytest.raises(BadImage, match="a folder, not a file; replace"):
        open_rgb(tmp_path)


def test_the_error_survives_the_way_from_another_process() -> None:
    error = pickle.loads(pickle.dumps(BadImage("a.png: empty; replace it", "empty")))
    assert (str(error), error.reason) == ("a.png: empty; replace it", "empty")
    assert BadImage("only a message").reason == "only a message"


@pytest.mark.parametrize("workers", [1, 3])
def test_bad_images_finds_each_and_tells_progress(tmp_path: Path, workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = []
    for i, (name, (make, _)) in enumerate(BAD.items()):
        corners().save(tmp_path / f"good{i}.jpg")
        (tmp_path / name).write_bytes(make())
        paths += [tmp_path / f"good{i}.jpg", tmp_path / name]
    told: list[int] = []
    totals: list[int | None] = []

    @contextmanager
    def progress(what: str, total: int | None) -> Iterator[Callable[[int], None]]:
        totals.append(total)
        yield told.append

    monkeypatch.setattr("aevlp.data.images.progress", progress)
    bad = bad_images(paths, workers)
    assert list(bad) == list(range(1, len(paths), 2))
    for (_, reason), found in zip(BAD.values(), bad.values(), strict=True):
        assert found.startswith(reason)
    assert (totals, told) == ([len(paths)], [1] * len(paths))


def test_bad_images_of_nothing() -> None:
    assert bad_images([], 2) == {}
