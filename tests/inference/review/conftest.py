import pytest

from tests.inference.review.made import write_set


@pytest.fixture
def data(tmp_path):
    """A file of completed labels of 40 small images."""
    return write_set(tmp_path / "set")
