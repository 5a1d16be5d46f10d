import pytest

from tests.inference.serve.talk import served
from tests.trained_runs import write_run


@pytest.fixture(scope="session")
def run(tmp_path_factory, backbone):
    """A run with thresholds and a calibration."""
    return write_run(tmp_path_factory.mktemp("served") / "squares", backbone)


@pytest.fixture(scope="module")
def url(run):
    with served(run) as address:
        yield address


@pytest.fixture
def images(world):
    return sorted((world / "images").iterdir())
