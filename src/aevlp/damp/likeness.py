"""Likeness: what images like an image are tagged with, by a ridge regression of the tags on a teacher's embeddings."""

from torch import Tensor

from aevlp.damp.agreement import FLOOR, TagRegression
from aevlp.damp.view_embeddings import Compute, ViewEmbeddings


class Likeness:
    """The regression of tags [N, C] on the embeddings of whole images, which also predicts the tags of tiles.

    Its prediction for an image is the mean of that for the whole and the greatest for a tile, averaged over the draws, from
    FLOOR / C to 1.
    """

    def __init__(self, views: ViewEmbeddings, tags: Tensor) -> None:
        self.views, self.tags = views, tags
        self.own = views.mean_scores(lambda _, embeddings: embeddings[:, 0], views.texts.shape[1])
        self.regression = TagRegression(self.own, tags)

    def of_fitted(self) -> Tensor:
        """Return predictions [N, C] for the images of the fit, each without its own tag."""
        return self._mean(self.views, lambda rows, views: self.regression(views.cpu(), self.own[rows], self.tags[rows]))

    def of_others(self, views: ViewEmbeddings) -> Tensor:
        """Return predictions [M, C] for the views of other images."""
        return self._mean(views, lambda _, views: self.regression.of_others(views.cpu()))

    def _mean(self, views: ViewEmbeddings, predict: Compute) -> Tensor:
        def score(rows: Tensor, embeddings: Tensor) -> Tensor:
            found = predict(rows, embeddings)
            return (found[:, 0] + found[:, 1:].amax(1)) / 2

        return views.mean_scores(score).clamp(FLOOR / self.tags.shape[1], 1)
