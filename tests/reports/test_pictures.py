import base64
import io

from PIL import Image

from aevlp.reports.pictures import SIDE, canvas, shapes, shortened, thumbnail
from tests.reports.made import example, picture


def test_a_thumbnail_is_a_small_jpeg(tmp_path):
    made = thumbnail(str(picture(tmp_path / "a.jpg", (800, 200))), SIDE)
    assert (made.width, made.height) == (SIDE, SIDE // 4)
    assert made.uri is not None
    head, _, content = made.uri.partition(",")
    assert head == "data:image/jpeg;base64"
    image = Image.open(io.BytesIO(base64.b64decode(content)))
    assert (image.format, image.size, image.mode) == ("JPEG", (SIDE, SIDE // 4), "RGB")
    assert not image.getexif()


def test_a_small_image_stays_small_and_is_drawn_large(tmp_path):
    made = thumbnail(str(picture(tmp_path / "a.png", (20, 40))), SIDE)
    assert (made.width, made.height) == (20, 40)
    assert canvas(made) == (SIDE // 2, SIDE)


def test_images_of_every_kind_have_one(tmp_path):
    for mode in ("1", "L", "LA", "P", "RGBA", "CMYK", "I;16"):
        path = tmp_path / f"{mode.replace(';', '')}.{'tiff' if mode == 'CMYK' else 'png'}"
        Image.new(mode, (30, 30)).save(path)
        assert thumbnail(str(path), SIDE).uri, mode


def test_a_file_that_cannot_be_read_gives_the_reason(tmp_path):
    (tmp_path / "a.jpg").write_bytes(b"no image")
    assert thumbnail(str(tmp_path / "a.jpg"), SIDE).reason == "not an image, or of an unknown format"
    assert thumbnail(str(tmp_path / "gone.jpg"), SIDE).reason == "no such file"


def test_there_is_room_for_what_is_written_in_a_tile(tmp_path):
    long = ("a name that is far too long for a tile", "b")
    for grid, width, height in ((1, 400, 400), (4, 400, 100), (5, 60, 400), (7, 400, 300)):
        found = shapes(example(tmp_path / "x.jpg", "b", long, grid=grid), width, height)
        assert len(found) == grid**2
        for shape in found:
            assert 0 < 3.4 * shape.size <= height / grid
            assert 0.6 * shape.size * len(shape.top_class) <= width / grid * 1.2
    assert all(shape.size == 0 for shape in shapes(example(tmp_path / "x.jpg", "b", long, grid=9), 400, 300))


def test_shortened_texts_say_that_they_are():
    assert shortened("umbrella", 8) == "umbrella"
    assert shortened("umbrellas", 8) == "umbrell…"
    assert shortened("a b", 2) == "a…"
