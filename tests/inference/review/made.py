"""Small image sets with proposed labels, reviews of them, and servers in this process."""

import json
import threading
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import uvicorn
from PIL import Image

from aevlp.config.config import build_config
from aevlp.data.answers import AnswerStore, answers_file
from aevlp.data.readers import read
from aevlp.inference.review.access import Access
from aevlp.inference.review.app import make_app
from aevlp.inference.review.session import ReviewSession
from aevlp.inference.review.tiles import TeacherTiles
from aevlp.inference.serve.server import listening_socket, url_of

CLASSES = ("car", "cat", "dog", "sofa")


def write_set(folder: Path, images: int = 40, classes: tuple[str, ...] = CLASSES, *, doubted: bool = False) -> Path:
    """Return a file of completed labels: each image is tagged with one class and has a score of every other.

    The image in row i truly has the classes i % C and (i + 1) % C; the second is proposed, mostly with a high confidence.
    """
    (folder / "images").mkdir(parents=True)
    lines = []
    for row in range(images):
        colour = (37 * row % 256, 91 * row % 256, 53 * row % 256)
        Image.new("RGB", (48, 36), colour).save(folder / "images" / f"{row:03d}.png")
        confidence = {name: round(0.05 + 0.4 * ((row * 7 + place * 3) % 10) / 10, 3) for place, name in enumerate(classes)}
        tag, other = classes[row % len(classes)], classes[(row + 1) % len(classes)]
        del confidence[tag]
        proposed = {other: {"confidence": round(0.55 + 0.44 * (row % 11) / 11, 3)}}
        candidates = {name: {"confidence": share} for name, share in confidence.items() if name != other}
        line = {"image": f"images/{row:03d}.png", "split": "train", "labels": [tag], "proposed": proposed}
        if doubted and row % 10 == 0:
            line["doubted"] = {tag: {"confidence": 0.1}}
        lines.append(json.dumps({**line, "candidates": candidates}))
    (folder / "completed.jsonl").write_text("\n".join(lines) + "\n")
    (folder / "classes.txt").write_text("\n".join(classes) + "\n")
    return folder / "completed.jsonl"


def truly_has(row: int, column: int, classes: int = len(CLASSES)) -> bool:
    return column in (row % classes, (row + 1) % classes)


def open_review(data, *, grid=12, audit=0, precision=0.95):
    """Start a review, as a new process would."""
    return ReviewSession(read(data, None), AnswerStore(answers_file(data)), grid=grid, audit=audit, precision=precision)


def app_of(session: ReviewSession, access: Access | None = None, name: str = "anna", start: str = ""):
    tiles = TeacherTiles(build_config("default", "aevlp", {}), session.table)
    return make_app(session, tiles, access or Access(), name, start)


@contextmanager
def served(session: ReviewSession, access: Access | None = None, *, start: str = ""):
    """The address of a server of a review."""
    with listening_socket("127.0.0.1", 0) as listener:
        server = uvicorn.Server(uvicorn.Config(app_of(session, access, start=start), log_config=None, ws="none"))
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            yield url_of(listener)
        finally:
            server.should_exit = True
            thread.join()


def values(session: ReviewSession) -> dict[tuple[str, str], int]:
    """The answers that count, as the store has them."""
    return {(each.image, each.label): each.value for each in session.state.store.current()}


def rows_of_grid(session: ReviewSession, cells) -> np.ndarray:
    return session.state.scores.rows[np.asarray(cells)]
