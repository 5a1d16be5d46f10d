"""Reference material outside the repository, for the tests that can use it."""

import os
from pathlib import Path

import pytest


def shared_folder() -> Path:
    """The folder that AEVLP_SHARED names; without it the test skips."""
    folder = os.environ.get("AEVLP_SHARED")
    if not folder:
        pytest.skip("AEVLP_SHARED does not name the folder with the reference material")
    return Path(folder)
