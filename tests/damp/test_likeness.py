"""Likeness, beside a ridge regression of scikit-learn."""

import numpy as np
import torch
from sklearn.linear_model import Ridge

from aevlp.damp.agreement import FLOOR
from aevlp.damp.likeness import Likeness

CLASSES = 4


class Views:
    """The embeddings [N, V, K] of images, as one draw of views has them."""

    def __init__(self, seed: int, count: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.embeddings = torch.randn(count, 5, 6, generator=generator)
        self.texts = torch.zeros(CLASSES, 6)

    def mean_scores(self, score, width=None):
        rows = torch.arange(len(self.embeddings))
        return score(rows, self.embeddings)


def regression(views: Views, tags) -> Ridge:
    """The same by scikit-learn, of whole images: the penalty is the mean square of a centred number, times the images."""
    x = views.embeddings[:, 0].double().numpy()
    return Ridge(alpha=float(((x - x.mean(0)) ** 2).sum(0).mean())).fit(x, tags.numpy())


def expected(model: Ridge, views: Views) -> np.ndarray:
    found = np.stack([model.predict(views.embeddings[:, view].double().numpy()) for view in range(5)], axis=1)
    return ((found[:, 0] + found[:, 1:].max(1)) / 2).clip(FLOOR / CLASSES, 1)


def test_images_that_are_not_in_the_fit_are_predicted_by_all_of_it():
    known, others = Views(0, 60), Views(1, 9)
    tags = torch.eye(CLASSES)[torch.arange(60) % CLASSES]
    found = Likeness(known, tags).of_others(others)  # type: ignore[arg-type]
    np.testing.assert_allclose(found.numpy(), expected(regression(known, tags), others), atol=1e-5)


def test_predictions_stay_where_a_logarithm_can_take_them():
    known = Views(0, 60)
    known.embeddings[:, 0] *= torch.arange(1.0, 61.0)[:, None] / 5  # long vectors predict beyond 0 and 1
    tags = torch.eye(CLASSES)[torch.arange(60) % CLASSES]
    far = Views(2, 40)
    far.embeddings *= 100
    found = Likeness(known, tags).of_others(far)  # type: ignore[arg-type]
    assert found.min() == FLOOR / CLASSES
    assert found.max() == 1
