import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from aevlp.damp import pseudo_labels
from aevlp.damp.labels import final_scores, lowest_count, rank, scores


def naive(
    whole, tiles, observed, *, local_threshold, global_threshold, top_k, negative_fraction, agreed=False, released_code=False
):
    """The labels of one image, class by class, from lists."""
    classes = range(len(whole))
    known = [whole[c] for c in classes if observed[c] == 1]
    threshold = min(max(known), local_threshold) if known else (0.0 if released_code else local_threshold)
    final, average = [], []
    for c in classes:
        column = [tile[c] for tile in tiles]
        best, worst = max(column), min(column)
        trusted = best > threshold if released_code else best >= threshold
        final.append((whole[c] + (best if trusted else worst)) / 2)
        average.append((whole[c] + sum(column) / len(column)) / 2)
    labels = [0] * len(whole)
    for c in sorted(classes, key=lambda c: (-final[c], c))[:top_k]:
        if final[c] >= global_threshold:
            labels[c] = 1
    orders = [sorted(zip(scores, classes, strict=True)) for scores in ([whole, *tiles] if agreed else [average])]
    for c in classes:
        places = [[each for _, each in order].index(c) for order in orders]
        if max(places) < math.floor(negative_fraction * len(whole) + 1e-9):
            labels[c] = 0 if released_code else -1
    return labels


def agree(whole, tiles, observed, **options):
    found = pseudo_labels(whole, tiles, observed, **options)
    assert found.dtype == torch.int8
    expected = [naive(*rows, **options) for rows in zip(whole.tolist(), tiles.tolist(), observed.tolist(), strict=True)]
    assert found.tolist() == expected


@settings(deadline=None, max_examples=150)
@given(
    classes=st.sampled_from([3, 4, 5, 20, 81]),
    tiles=st.sampled_from([1, 4, 16]),
    seed=st.integers(0, 2**31),
    local_threshold=st.sampled_from([0.0, 0.005, 0.3, 1.0]),
    global_threshold=st.sampled_from([0.0, 0.005, 0.1, 0.5]),
    top_k=st.sampled_from([0, 1, 3, 32, 400]),
    negative_fraction=st.sampled_from([0.0, 0.2, 0.3, 0.5, 1.0]),
    sharpness=st.sampled_from([0.5, 2.0, 8.0]),
    agreed=st.booleans(),
    released_code=st.booleans(),
)
def test_labels_are_those_of_a_loop_over_classes(classes, tiles, seed, sharpness, **options):
    generator = torch.Generator().manual_seed(seed)
    raw = sharpness * torch.randn(4, 1 + tiles, classes, generator=generator, dtype=torch.float64)
    all_scores = raw.softmax(-1)
    observed = torch.zeros(4, classes, dtype=torch.int8)
    observed[1, seed % classes] = 1  # row 0: nothing observed
    observed[2] = torch.randint(-1, 2, (classes,), generator=generator)  # several positives and negatives
    observed[3] = -1
    agree(all_scores[:, 0], all_scores[:, 1:], observed, **options)


@settings(deadline=None, max_examples=150)
@given(data=st.data(), classes=st.integers(3, 12), released_code=st.booleans())
def test_ties_go_to_the_lower_class(data, classes, released_code):
    """Scores from a handful of dyadic values, so that equal ones are common and sums are exact."""
    value = st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0])
    rows = data.draw(st.lists(st.lists(value, min_size=classes, max_size=classes), min_size=5, max_size=5))
    observed = data.draw(st.lists(st.sampled_from([-1, 0, 1]), min_size=classes, max_size=classes))
    table = torch.tensor([rows], dtype=torch.float64)
    agree(
        table[:, 0],
        table[:, 1:],
        torch.tensor([observed], dtype=torch.int8),
        local_threshold=data.draw(value),
        global_threshold=data.draw(value),
        top_k=data.draw(st.integers(0, classes)),
        negative_fraction=data.draw(st.sampled_from([0.0, 0.2, 0.5, 1.0])),
        released_code=released_code,
    )


def test_a_share_of_classes_that_is_whole_but_for_rounding_counts_as_whole():
    """0.3 * 80 is 24 on paper and a hair less or more in floating point."""
    whole = torch.rand(1, 80, generator=torch.Generator().manual_seed(0)).softmax(-1)
    observed = torch.zeros(1, 80, dtype=torch.int8)
    for share in (0.1, 0.2, 0.3, 0.6, 0.7):
        labels = pseudo_labels(
            whole, whole[:, None], observed, local_threshold=0, global_threshold=0.5, top_k=3, negative_fraction=share
        )
        assert (labels == -1).sum() == round(share * 80)


def test_scores_are_softmaxes_of_cosines():
    generator = torch.Generator().manual_seed(0)
    views = torch.nn.functional.normalize(torch.randn(2, 5, 7, generator=generator), dim=-1)
    classes = torch.nn.functional.normalize(torch.randn(3, 7, generator=generator), dim=-1)
    whole, tiles = scores(views.half(), classes, 0.05)
    assert whole.shape == (2, 3)
    assert tiles.shape == (2, 4, 3)
    for n in range(2):
        for v in range(5):
            raised = [math.exp(float(views[n, v].half().float() @ classes[c]) / 0.05) for c in range(3)]
            expected = torch.tensor([value / sum(raised) for value in raised])
            assert torch.allclose(whole[n] if v == 0 else tiles[n, v - 1], expected, atol=1e-5)


def test_final_scores_trust_the_best_tile_from_the_local_threshold_on():
    whole = torch.tensor([[0.5, 0.3, 0.2]] * 2, dtype=torch.float64)
    tiles = torch.tensor([[[0.7, 0.2, 0.1], [0.1, 0.5, 0.4]]] * 2, dtype=torch.float64)
    observed = torch.tensor([[0, 0, 0], [0, 1, 0]], dtype=torch.int8)  # which lowers the threshold to 0.3
    final, average = final_scores(whole, tiles, observed, local_threshold=0.6)
    assert final.tolist() == [pytest.approx([0.6, 0.25, 0.15]), pytest.approx([0.6, 0.4, 0.3])]
    assert average.tolist() == [pytest.approx([0.45, 0.325, 0.225])] * 2
    released, _ = final_scores(whole, tiles, observed, local_threshold=0.6, released_code=True)
    assert released.tolist() == [pytest.approx([0.6, 0.4, 0.3])] * 2  # no threshold where nothing is observed


def test_places_of_equal_values_are_in_the_order_of_their_classes():
    values = torch.tensor([[0.2, 0.5, 0.2, 0.5, 0.1]])
    assert rank(values, descending=True).tolist() == [[2, 0, 3, 1, 4]]
    assert rank(values, descending=False).tolist() == [[1, 3, 2, 4, 0]]


def test_how_many_classes_become_negative():
    assert [lowest_count(share, 80) for share in (0, 0.3, 0.7, 1)] == [0, 24, 56, 80]
    assert [lowest_count(0.2, classes) for classes in (1, 4, 5, 6)] == [0, 0, 1, 1]
