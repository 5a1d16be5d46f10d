"""Pictures of a review as JPEGs of bounded size, the last ones kept in memory."""

import io
import threading
from collections import OrderedDict

from aevlp.data.dataset import Paths
from aevlp.data.images import open_rgb

SIZES = (256, 512, 1600)  # pixels of the longer side
QUALITY = 85
MOST_BYTES = 64_000_000  # of pictures in memory
AT_ONCE = 4  # images decoded at the same time: each may take its full size in memory


class Pictures:
    """The images of a set, by their row."""

    def __init__(self, paths: Paths, most_bytes: int = MOST_BYTES) -> None:
        self.paths, self.most_bytes, self.bytes = paths, most_bytes, 0
        self._kept: OrderedDict[tuple[int, int], bytes] = OrderedDict()
        self._lock, self._decoders = threading.Lock(), threading.Semaphore(AT_ONCE)

    def jpeg(self, row: int, size: int) -> bytes:
        """Return an image whose longer side is at most the next of `SIZES`. Raise BadImage if it cannot be read."""
        side = next((each for each in SIZES if each >= size), SIZES[-1])
        with self._lock:
            if (found := self._kept.get((row, side))) is not None:
                self._kept.move_to_end((row, side))
                return found
        with self._decoders:
            content = self._encoded(row, side)
        with self._lock:
            self.bytes += len(content) - len(self._kept.pop((row, side), b""))
            self._kept[row, side] = content
            while self.bytes > self.most_bytes:
                self.bytes -= len(self._kept.popitem(last=False)[1])
        return content

    def _encoded(self, row: int, side: int) -> bytes:
        image = open_rgb(self.paths[row], at_least=side)
        image.thumbnail((side, side))
        content = io.BytesIO()
        image.save(content, "JPEG", quality=QUALITY)
        return content.getvalue()
