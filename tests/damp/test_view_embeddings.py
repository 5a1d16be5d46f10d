import numpy as np

from aevlp.damp.view_embeddings import drawn

PUBLISHED = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821]
"""The first numbers of SplitMix64 from the seed 1234567."""


def test_draws_of_views_are_those_of_a_published_generator():
    digests = np.zeros(1, "S16")
    assert drawn(digests, 5, 2**61, 1234567).tolist() == [[number % 2**61 for number in PUBLISHED]]
    few = drawn(digests, 5, 4, 1234567)
    assert few.tolist() == [[number % 4 for number in PUBLISHED]]
    assert few.dtype == np.intp


def test_an_image_has_its_own_draws_and_a_seed_moves_them():
    digests = np.array([bytes([0, n, *[0] * 13, 1]) for n in range(8)], "S16")
    first, second = drawn(digests, 17, 4, 1), drawn(digests, 17, 4, 2)
    assert len({tuple(row) for row in first.tolist()}) == 8
    assert (first != second).any(axis=1).all()
    assert (drawn(digests[3:5], 17, 4, 1) == first[3:5]).all()
    assert set(first.ravel().tolist()) == {0, 1, 2, 3}
