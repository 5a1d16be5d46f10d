"""Image files as RGB pixels, whatever they are; and which of many cannot be read."""

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image

from aevlp.core.errors import UserError
from aevlp.core.threads import in_threads

ORIENTATION = 0x0112  # the EXIF tag

# For the whole process, since `catch_warnings` around each image is not safe in threads. What matters is in the error.
warnings.filterwarnings("ignore", module=r"PIL\.")


class BadImage(UserError):
    """An image file that cannot be read; `reason` is the message without the file's name and the advice."""

    # One argument must do: this is how an error comes back from another process.
    def __init__(self, message: str, reason: str | None = None) -> None:
        super().__init__(message)
        self.reason = message if reason is None else reason


def open_rgb(path: Path, *, at_least: int | None = None) -> Image.Image:
    """The image, upright (EXIF orientation), in mode RGB.

    `at_least`: a JPEG may be decoded at 1/2, 1/4 or 1/8 of its size, much faster, as long as both sides keep at least
    that many pixels (an image with a smaller side comes in full size). None: every pixel.
    """

    try:
        with Image.open(path) as image:
            if at_least is not None:
                image.draft(None, (at_least, at_least))  # does nothing but to a JPEG
            image.load()
            return upright_rgb(image)
    except Exception as error:  # decoders raise nearly anything on a broken file
        reason = _reason(path, error)
        raise BadImage(f"{path}: {reason}; replace or remove the file", reason) from error


def pixels_of(path: Path, size: int, *, flipped: bool = False) -> npt.NDArray[np.uint8]:
    """Return the whole image as the classifier takes it, uint8 [size, size, 3]: fully decoded, resized bicubically."""
    image = open_rgb(path).resize((size, size), Image.Resampling.BICUBIC)
    if flipped:
        image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    return np.asarray(image)


def bad_images(
    paths: Sequence[Path], workers: int | None = None, progress: Callable[[int], None] | None = None
) -> dict[int, str]:
    """Index -> reason for every file that cannot be read.

    Each is decoded to its end: a JPEG at 1/8 of its size, which is up to four times faster and still meets every byte.
    """

    def reason(path: Path) -> str | None:
        try:
            open_rgb(path, at_least=1)
        except BadImage as error:
            return error.reason
        return None

    reasons = in_threads(reason, paths, workers, progress)
    return {index: reason for index, reason in enumerate(reasons) if reason is not None}


def upright_rgb(image: Image.Image) -> Image.Image:
    """A loaded image of any mode, upright (EXIF orientation), in mode RGB."""
    upright = _upright(_rgb(image), _orientation(image))
    upright.info.clear()  # with the orientation still in it, the next program would turn the image once more
    return upright


def _rgb(image: Image.Image) -> Image.Image:

    if image.mode.startswith("I;16"):
        # PIL clips deep grey to 255, all but white; take the high byte, as it does for deep colour.
        return Image.fromarray((np.asarray(image) >> 8).astype(np.uint8)).convert("RGB")
    if image.mode in ("I", "F"):
        return Image.fromarray(_eight_bit(np.asarray(image, dtype=np.float64))).convert("RGB")
    # Transparency is dropped, not blended: what other image pipelines do, so that a model sees the same pixels there.
    return image.convert("RGB")


def _eight_bit(values: np.ndarray) -> np.ndarray:
    """Values of unstated range as uint8: 0 to the top of the smallest usual range that holds them becomes 0 to 255."""
    values = np.nan_to_num(values, nan=0.0, posinf=0.0, neginf=0.0).clip(0)
    peak = values.max(initial=0)
    top = next((top for top in (1, 255, 65535) if peak <= top), peak)
    return (values * (255 / top)).round().astype(np.uint8)


def _orientation(image: Image.Image) -> int:
    try:
        return int(image.getexif().get(ORIENTATION, 1))
    except Exception:  # the pixels are good: broken metadata is no reason to refuse them
        return 1


def _upright(image: Image.Image, orientation: int) -> Image.Image:
    from PIL.Image import Transpose

    turns = {
        2: Transpose.FLIP_LEFT_RIGHT,
        3: Transpose.ROTATE_180,
        4: Transpose.FLIP_TOP_BOTTOM,
        5: Transpose.TRANSPOSE,
        6: Transpose.ROTATE_270,
        7: Transpose.TRANSVERSE,
        8: Transpose.ROTATE_90,
    }
    return image.transpose(turns[orientation]) if orientation in turns else image


def _reason(path: Path, error: Exception) -> str:
    from PIL import Image, UnidentifiedImageError

    text = " ".join(str(error).split())
    if isinstance(error, FileNotFoundError):
        return "no such file"
    if isinstance(error, IsADirectoryError):
        return "a folder, not a file"
    if isinstance(error, PermissionError):
        return "no permission to read it"
    if isinstance(error, Image.DecompressionBombError):
        return f"too many pixels (more than {2 * (Image.MAX_IMAGE_PIXELS or 0):,})"
    if path.is_file() and path.stat().st_size == 0:
        return "an empty file"
    if isinstance(error, UnidentifiedImageError):
        return "not an image, or of an unknown format"
    if "truncated" in text.lower() or isinstance(error, EOFError):
        return "truncated: the end of the file is missing"
    return f"damaged ({text or type(error).__name__})"
