import io
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from aevlp.data.images import BadImage, pixels_of
from aevlp.inference.serve.service import decode
from tests.data.test_images import png_header


def pictures():
    rng = np.random.default_rng(0)
    colour = Image.fromarray(rng.integers(0, 255, (40, 60, 3), dtype=np.uint8))
    turned = Image.Exif()
    turned[0x0112] = 6
    yield "turned.jpg", colour, {"exif": turned}
    yield "clear.png", colour.convert("RGBA"), {}
    yield "deep.png", Image.fromarray(rng.integers(0, 65535, (40, 60), dtype=np.uint16)), {}
    yield "few.gif", colour.convert("P"), {}
    yield "print.tif", colour.convert("CMYK"), {}
    yield "small.webp", colour, {}
    yield "plain.bmp", colour, {}


@pytest.mark.parametrize(
    ("name", "image", "options"), list(pictures()), ids=lambda value: value if isinstance(value, str) else ""
)
def test_a_model_sees_the_pixels_that_predict_shows_it(name, image, options, tmp_path):
    image.save(tmp_path / name, **options)
    seen = np.asarray(decode((tmp_path / name).read_bytes(), 32))
    assert seen.shape == (32, 32, 3)
    np.testing.assert_array_equal(seen, pixels_of(tmp_path / name, 32))


def reason(content: bytes) -> str:
    with pytest.raises(BadImage) as caught:
        decode(content, 32)
    return caught.value.reason


def saved(kind: str) -> bytes:
    into = io.BytesIO()
    Image.effect_noise((64, 64), 80).convert("RGB").save(into, kind)
    return into.getvalue()


def test_what_cannot_be_read_has_a_reason():
    assert reason(b"") == "an empty file"
    assert reason(b"GIF? no.") == "not an image, or of an unknown format"
    assert reason(saved("JPEG")[:-800]) == "truncated: the end of the file is missing"
    damaged = bytearray(saved("PNG"))
    damaged[60:90] = b"x" * 30
    assert reason(bytes(damaged)).startswith("damaged (")


@pytest.mark.parametrize("side", [10_000, 100_000])
def test_a_small_file_that_claims_many_pixels_is_not_decoded(side):
    assert reason(png_header(side, side)) == "too many pixels (more than 89,478,485)"


@pytest.mark.parametrize(("kind", "most"), [(np.float32, "22,369,621 of 4 bytes"), (np.uint16, "44,739,242 of 2 bytes")])
def test_pixels_of_several_bytes_count_for_as_many(kind, most):
    into = io.BytesIO()
    Image.fromarray(np.zeros((7000, 7000), kind)).save(into, "TIFF", compression="tiff_adobe_deflate")
    assert reason(into.getvalue()) == f"too many pixels (more than {most})"


@pytest.mark.skipif(sys.platform != "linux", reason="memory is given back on Linux alone")
def test_memory_is_given_back_after_a_large_request(run):
    """In a process of its own, which has not kept memory before."""
    code = (
        "import asyncio, io, sys; from pathlib import Path; from PIL import Image\n"
        "from aevlp.core.engine import keep_freed_memory; from aevlp.inference.predictor import load\n"
        "from aevlp.inference.serve.service import Service; from aevlp.inference.serve.uploads import Upload\n"
        "keep_freed_memory()\n"
        "resident = lambda: int(Path('/proc/self/statm').read_text().split()[1]) * 4096 // 10**6\n"
        "service, content = Service(load(Path(sys.argv[1]), device='cpu'), workers=2, cores=1), io.BytesIO()\n"
        "ask = lambda: asyncio.run(service.predict([Upload('a', content.getvalue())] * 2))\n"
        "Image.new('RGB', (8, 8)).save(content, 'PNG'); ask(); before = resident()\n"
        "large = io.BytesIO(); Image.new('RGB', (6000, 6000)).save(large, 'PNG'); content = large; ask()\n"
        "print(resident() - before); service.close()\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(run)], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 100  # MB; each of the two images has 144


def test_a_format_that_can_start_programs_is_not_read():
    assert reason(saved("EPS")) == "not an image, or of an unknown format"
