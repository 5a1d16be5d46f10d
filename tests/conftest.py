import logging
import os
from pathlib import Path

os.environ["OMP_WAIT_POLICY"] = "PASSIVE"  # tests run side by side; before torch is loaded
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
# Some virtual machines announce AMX and refuse its instructions, which ends a process that computes in bf16.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")
# Processes of pytest-xdist have the width of a terminal, which tables would follow.
os.environ.pop("COLUMNS", None)

import pytest

from tests.colours import write_backbone, write_world
from tests.fake_hub import TOKEN, FakeHub

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


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A hub that the client talks to in place of the real one, with a token that it accepts and an empty cache."""
    hub = FakeHub()
    template = hub.address + "/{repo_id}/resolve/{revision}/{filename}"
    for name, value in {
        "HF_HUB_OFFLINE": False,
        "ENDPOINT": hub.address,
        "HUGGINGFACE_CO_URL_TEMPLATE": template,
        "HF_HUB_CACHE": str(tmp_path / "hub-cache"),
        "HF_TOKEN_PATH": str(tmp_path / "no-token"),
        "HF_HUB_DISABLE_XET": True,
    }.items():
        monkeypatch.setattr(f"huggingface_hub.constants.{name}", value)
    monkeypatch.setattr("huggingface_hub.file_download.HUGGINGFACE_CO_URL_TEMPLATE", template, raising=False)
    monkeypatch.setattr("huggingface_hub.hf_api.api.endpoint", hub.address)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    yield hub
    hub.close()


@pytest.fixture(scope="module")
def browser():
    """A Chromium without a window."""
    from playwright.sync_api import expect  # loaded for these tests alone
    from tools.screenshot import launch_chromium

    from tests.browsing import required_chromium

    expect.set_options(timeout=30_000)  # milliseconds; a busy machine is slow
    with launch_chromium(required_chromium()) as launched:
        yield launched


@pytest.fixture(scope="session")
def axe() -> str:
    """The source of axe-core. Without it, the test skips; where a browser is required, it fails."""
    file = os.environ.get("AEVLP_AXE")
    if file and Path(file).is_file():
        return Path(file).read_text()
    reason = "axe-core is not there; npm install axe-core somewhere and name its axe.min.js with AEVLP_AXE"
    if os.environ.get("CI") == "true" or os.environ.get("AEVLP_REQUIRE_BROWSER"):
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


@pytest.fixture
def open_page(browser):
    """A function that opens an address in a new window of the given width, in light or dark colours."""
    pages = []

    def open_at(address, *, width=1200, dark=False):
        page = browser.new_page(
            viewport={"width": width, "height": 900}, is_mobile=width < 600, color_scheme="dark" if dark else "light"
        )
        pages.append(page)
        page.goto(address)
        return page

    yield open_at
    for page in pages:
        page.close()
