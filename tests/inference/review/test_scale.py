"""A review of 100,000 images and 1,000 classes."""

import resource
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import expect

from aevlp.data.annotations import Annotations, ScoredCells, ScoreKind
from aevlp.data.answers import AnswerStore
from aevlp.data.dataset import ImageTable
from aevlp.data.images import open_rgb
from aevlp.inference.review.session import ReviewSession
from tests.browsing import complaints, wait_until
from tests.inference.review.made import served

IMAGES, CLASSES, PER_IMAGE = 100_000, 1000, 5
FILES = 100
MOST_GROWTH = 16_000_000  # bytes


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """Images are a hundred small files, seen through a thousand links to their folder."""
    root = tmp_path_factory.mktemp("large")
    (root / "files").mkdir()
    for number in range(FILES):
        Image.new("RGB", (64, 48), (number, 2 * number, 255 - number)).save(root / "files" / f"{number:02d}.jpg")
    for link in range(IMAGES // FILES):
        (root / f"{link:03d}").symlink_to("files")
    rng = np.random.default_rng(0)
    cells = ScoredCells(
        rows=np.repeat(np.arange(IMAGES, dtype=np.int32), PER_IMAGE),
        columns=(rng.integers(0, CLASSES // PER_IMAGE, (IMAGES, PER_IMAGE)) * PER_IMAGE + np.arange(PER_IMAGE))
        .ravel()
        .astype(np.int32),
        kinds=rng.choice([ScoreKind.PROPOSED, ScoreKind.CANDIDATE], IMAGES * PER_IMAGE).astype(np.int8),
        confidence=rng.random(IMAGES * PER_IMAGE, dtype=np.float32),
        predictors={},
    )
    table = ImageTable(
        root=root,
        names=tuple(f"{row // FILES:03d}/{row % FILES:02d}.jpg" for row in range(IMAGES)),
        classes=tuple(f"class {column:03d}" for column in range(CLASSES)),
        labels=np.zeros((IMAGES, CLASSES), np.int8),
        splits=("train",) * IMAGES,
        kind="made",
        annotations=Annotations(scores=cells),
    )
    return ReviewSession(table, AnswerStore(root / "answers.sqlite"), grid=24, audit=100, precision=0.95)


def test_the_first_grid_reads_only_its_own_images(large, open_page, monkeypatch, capsys):
    opened = set()

    def counting(path: Path, **options):
        opened.add(path)
        return open_rgb(path, **options)

    monkeypatch.setattr("aevlp.inference.review.pictures.open_rgb", counting)
    with served(large) as url:
        started = time.perf_counter()
        page = open_page(url)
        expect(page.locator(".cell img").first).to_be_visible()
        wait_until(page, "() => [...document.querySelectorAll('.cell img')].every((picture) => picture.complete)")
        seconds = time.perf_counter() - started
        shown = page.locator(".cell").count()
        assert 12 <= shown <= 24
        assert shown <= len(opened) <= 2 * 24  # this grid and the next
        page.keyboard.press("/")
        page.keyboard.type("class 73")
        expect(page.get_by_role("option")).to_have_count(8)
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        expect(page.locator("#question")).to_have_text("Is this “class 731”?")
        assert complaints(page) == []
    with capsys.disabled():
        print(f"\nfirst grid of {IMAGES:,} images and {CLASSES:,} classes: {seconds:.2f} s")


def resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def test_memory_stays_flat_over_200_grids(large, capsys):
    person = ("window-of-anna", "anna")

    def settle(count):
        for _ in range(count):
            grid = large.grid(*person, None)
            large.grid(*person, None, ahead=True)
            large.settle(*person, grid.cells.tolist(), [], [], accepts=grid.accepts, keys=1, seconds=5)

    settle(20)
    before = resident()
    started = time.perf_counter()
    settle(200)
    seconds = (time.perf_counter() - started) / 200
    growth = resident() - before
    with capsys.disabled():
        print(f"\n200 grids: {growth / 1e6:+.1f} MB, {1000 * seconds:.0f} ms each")
    assert growth < MOST_GROWTH
