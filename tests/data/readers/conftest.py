from collections.abc import Callable
from pathlib import Path

import pytest

from aevlp.core.errors import UserError
from aevlp.data import read


@pytest.fixture
def refusal() -> Callable[..., str]:
    """The one line with which reading a path is refused."""

    def text(path: Path, format: str | None = None) -> str:
        with pytest.raises(UserError) as caught:
            read(path, format)
        message = str(caught.value)
        assert "\n" not in message
        return message

    return text
