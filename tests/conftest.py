import logging
import os
from pathlib import Path

os.environ["OMP_WAIT_POLICY"] = "PASSIVE"  # tests run side by side; before torch is loaded
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import pytest

from tests.colours import write_backbone, write_world

REPOSITORY = Path(__file__).parent.parent


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    """No test sees the user's store or talks to a hub."""
    monkeypatch.setenv("AEVLP_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))  # for processes that tests start


@pytest.fixture(autouse=True)
def fresh_log():
    """Handlers that a command installs write to that test's streams only."""
    yield
    logging.getLogger("aevlp").handlers.clear()


@pytest.fixture(scope="session")
def world(tmp_path_factory) -> Path:
    return write_world(tmp_path_factory.mktemp("colours") / "world")


@pytest.fixture(scope="session")
def backbone(tmp_path_factory) -> Path:
    return write_backbone(tmp_path_factory.mktemp("backbone") / "resnet")


@pytest.fixture(scope="session")
def plain(backbone) -> list[str]:
    """Options that make a training on the world of colours take a second or two."""
    return [
        *("--observe", "single", "--backbone", str(backbone), "--model.image_size", "32", "--epochs", "3"),
        *(
            "--train.workers",
            "1",
            "--device",
            "cpu",
            "--report",
            "false",
            "--train.learning_rate",
            "1e-3",
            "--train.head_learning_rate",
            "1e-2",
        ),
    ]


@pytest.fixture(scope="session")
def small(plain) -> list[str]:
    """The same for a method that asks a teacher."""
    return [*plain, "--teacher", "tests.colours:teacher", "--damp.temperature", "0.1"]


@pytest.fixture(scope="module")
def browser():
    """A Chromium to look at pages with; tests of these are skipped where there is none."""
    from tools.screenshot import Browser, find_browser  # those who copy the tests need not have the scripts

    program = find_browser()
    assert program is not None
    with Browser(program) as made:
        yield made
