"""Uploaded bytes as the small pictures that a model looks at."""

from __future__ import annotations

from functools import cache
from io import BytesIO

from PIL import Image, UnidentifiedImageError

from aevlp.data.images import BadImage, upright_rgb

# Formats that are pixels only: others let a stranger start programs (EPS) or are not photographs.
FORMATS = ("AVIF", "BMP", "GIF", "JPEG", "JPEG2000", "PNG", "PPM", "TIFF", "WEBP")
MOST_PIXELS = Image.MAX_IMAGE_PIXELS or 89_478_485
"""Where PIL begins to suspect a small file that is made to fill the memory."""


def picture(content: bytes, size: int) -> Image.Image:
    """RGB, size x size: the pixels that `aevlp predict` sees of the same file; BadImage if it cannot be read."""
    try:
        with Image.open(BytesIO(content), formats=_formats()) as image:
            if image.width * image.height > MOST_PIXELS:
                raise Image.DecompressionBombError
            image.load()
            return upright_rgb(image).resize((size, size), Image.Resampling.BICUBIC)
    except Exception as error:  # decoders raise nearly anything on a broken file
        raise BadImage(_reason(content, error)) from error


@cache
def _formats() -> tuple[str, ...]:
    """Those that this installation of PIL knows."""
    Image.init()
    return tuple(name for name in FORMATS if name in Image.OPEN)


def _reason(content: bytes, error: Exception) -> str:
    text = " ".join(str(error).split())
    if not content:
        return "an empty file"
    if isinstance(error, Image.DecompressionBombError):
        return f"too many pixels (more than {MOST_PIXELS:,})"
    if isinstance(error, UnidentifiedImageError):
        return "not an image, or of an unknown format"
    if "truncated" in text.lower() or isinstance(error, EOFError):
        return "truncated: the end of the file is missing"
    return f"damaged ({text or type(error).__name__})"
