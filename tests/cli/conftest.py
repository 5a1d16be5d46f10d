import pytest

from aevlp.damp.scoring import Scorer


@pytest.fixture
def passes(monkeypatch) -> list[int]:
    """The images of every batch that the teacher's image encoder has seen so far."""
    seen: list[int] = []
    encode = Scorer._encode

    def counted(self, batch, images):
        seen.append(len(batch))
        return encode(self, batch, images)

    monkeypatch.setattr(Scorer, "_encode", counted)
    return seen
