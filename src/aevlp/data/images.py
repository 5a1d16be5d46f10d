"""Image files of any mode and orientation as RGB pixels, and the search for files that cannot be read."""

import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image, UnidentifiedImageError
from PIL.Image import Transpose

from aevlp.core.errors import UserError
from aevlp.core.files import SPECIAL
from aevlp.core.progress import progress
from aevlp.core.threads import in_threads
from aevlp.data.image_files import NO_IMAGE, open_image, unchanged

ORIENTATION = 0x0112  # the EXIF tag
BAND = 64  # rows that are converted at a time
UPRIGHT = {
    2: Transpose.FLIP_LEFT_RIGHT,
    3: Transpose.ROTATE_180,
    4: Transpose.FLIP_TOP_BOTTOM,
    5: Transpose.TRANSPOSE,
    6: Transpose.ROTATE_270,
    7: Transpose.TRANSVERSE,
    8: Transpose.ROTATE_90,
}
"""EXIF orientation -> the turn that makes an image upright."""

# For the whole process, since `catch_warnings` around each image is not safe in threads. Anything that matters is an error.
warnings.filterwarnings("ignore", module=r"PIL\.")


class BadImage(UserError):
    """An image file that cannot be read; `reason` is the message without the file's name and the advice."""

    # `reason` has a default because unpickling, which brings an error back from another process, passes one argument.
    def __init__(self, message: str, reason: str | None = None) -> None:
        super().__init__(message)
        self.reason = message if reason is None else reason


def open_rgb(path: Path, *, at_least: int | None = None, digest: bytes | None = None) -> Image.Image:
    """Return the image, upright (EXIF orientation), in mode RGB. A file that has not the `digest` any more is refused.

    `at_least`: a JPEG may be decoded at 1/2, 1/4 or 1/8 of its size, much faster, as long as both sides keep at least
    that many pixels (an image with a smaller side comes in full size). None: every pixel.
    """
    try:
        with open_image(path) as file, Image.open(file if digest is None else unchanged(path, file, digest)) as image:
            if image.format == "EPS":
                raise ValueError("PostScript is a program, and is never run")
            if at_least is not None:
                image.draft(None, (at_least, at_least))  # affects JPEGs only
            image.load()
            return upright_rgb(image)
    except UserError:
        raise  # about something else than this image: no network, a damaged archive
    except Exception as error:  # decoders raise nearly anything on a broken file
        reason = _reason(path, error)
        raise BadImage(f"{path}: {reason}; replace or remove the file", reason) from error


def pixels_of(path: Path, size: int, *, flipped: bool = False, digest: bytes | None = None) -> npt.NDArray[np.uint8]:
    """Return the whole image as the classifier takes it, uint8 [size, size, 3]: fully decoded, resized bicubically."""
    image = open_rgb(path, digest=digest).resize((size, size), Image.Resampling.BICUBIC)
    if flipped:
        image = image.transpose(Transpose.FLIP_LEFT_RIGHT)
    return np.asarray(image)


def bad_images(paths: Sequence[Path], workers: int | None = None) -> dict[int, str]:
    """Return index -> reason for every file that cannot be read; show progress.

    Each file is decoded to its end. A JPEG is decoded at 1/8 of its size, which still reads every byte, up to four times faster.
    """

    def reason(path: Path) -> str | None:
        try:
            open_rgb(path, at_least=1)
        except BadImage as error:
            return error.reason
        return None

    with progress("reading every image", len(paths)) as advance:
        reasons = in_threads(reason, paths, workers, lambda _: advance(1))
    return {index: reason for index, reason in enumerate(reasons) if reason is not None}


def upright_rgb(image: Image.Image) -> Image.Image:
    """Return a loaded image of any mode, upright (EXIF orientation), in mode RGB."""
    upright = _rgb(image)
    if (orientation := _orientation(image)) in UPRIGHT:
        upright = upright.transpose(UPRIGHT[orientation])
    upright.info.clear()  # the next program would apply an orientation that is still in it once more
    return upright


def _rgb(image: Image.Image) -> Image.Image:
    if image.mode.startswith("I;16"):
        # PIL clips 16-bit grey to 255, which leaves nearly everything white; take the high byte, as it does for 16-bit colour.
        return Image.fromarray((np.asarray(image) >> 8).astype(np.uint8)).convert("RGB")
    if image.mode in ("I", "F"):
        return Image.fromarray(_eight_bit(np.asarray(image))).convert("RGB")
    # Transparency is dropped, not blended, as in other image pipelines: a model sees the same pixels there.
    return image.convert("RGB")


def _eight_bit(values: np.ndarray) -> np.ndarray:
    """Scale values of unstated range to uint8: the smallest usual range [0, top] that holds them becomes [0, 255]."""
    # In bands: several copies of a large image in numbers of 8 bytes would take gigabytes.
    bands = [values[row : row + BAND] for row in range(0, len(values), BAND)]
    peak = max((_not_negative(band).max(initial=0) for band in bands), default=0)
    top = next((top for top in (1, 255, 65535) if peak <= top), peak)
    eight_bit = np.empty(values.shape, np.uint8)
    for row, band in zip(range(0, len(values), BAND), bands, strict=True):
        eight_bit[row : row + BAND] = (_not_negative(band) * (255 / top)).round()
    return eight_bit


def _not_negative(values: np.ndarray) -> np.ndarray:
    return np.nan_to_num(values.astype(np.float64), nan=0.0, posinf=0.0, neginf=0.0).clip(0)


def _orientation(image: Image.Image) -> int:
    try:
        return int(image.getexif().get(ORIENTATION, 1))
    except Exception:  # the pixels are good: broken metadata is no reason to refuse them
        return 1


def _reason(path: Path, error: Exception) -> str:
    text = " ".join(str(error).split())
    if isinstance(error, FileNotFoundError):
        return "no such file"
    if isinstance(error, IsADirectoryError):
        return "a folder, not a file"
    if isinstance(error, PermissionError):
        return "no permission to read it"
    if isinstance(error, Image.DecompressionBombError):
        return f"too many pixels (more than {2 * (Image.MAX_IMAGE_PIXELS or 0):,})"
    if isinstance(error, OSError) and error.strerror in (SPECIAL, NO_IMAGE):
        return error.strerror
    if path.is_file() and path.stat().st_size == 0:
        return "an empty file"
    if isinstance(error, UnidentifiedImageError):
        return "not an image, or of an unknown format"
    if "truncated" in text.lower() or isinstance(error, EOFError):
        return "truncated: the end of the file is missing"
    return f"damaged ({text or type(error).__name__})"
