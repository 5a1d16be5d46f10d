"""Consensus: soft labels from what a teacher sees and what similar images are tagged with, as far as the tags bear them out.

An observed tag is a fair draw from its image's labels. None of these opinions about an image was told its tag:

| opinion    | logarithm of                                                                                            |
| ---------- | ------------------------------------------------------------------------------------------------------- |
| `teacher`  | the teacher's score of a class: the mean of the whole image's and the best tile's (DAMP's final score)  |
| `likeness` | the same mean of a ridge regression of the tags on the teacher's embeddings                             |
| `backbone` | a ridge regression of the tags on the backbone's features before training                               |

The regressions predict an image without its own tag (leave-one-out, in closed form). Weights w >= 0 and an offset b for each
class make the tags most likely: P(tag = c) = (1 - e) softmax_c(z) + e / C, z_c = sum_k w_k opinion_k,c + b_c, where e is the
share of tags that are as good as random. An opinion that knows nothing gets no weight. The teacher alone speaks for a class that
is no image's tag. If no image has a tag, the class that the teacher finds most likely takes the tag's place in the regressions,
and all opinions weigh the same. By the same log-odds, an unknown label is there with probability sigmoid(z - t), and a tag is
right with probability (1 - e) q / ((1 - e) q + e / C), q = softmax_c(z). Labels that people have answered or that belong to a
complete image are not doubted. The shift t makes the expected number of labels to find what it should be: m for each image, less
the tags.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from aevlp.damp.options import DampOptions
from aevlp.sources.damp import Damp
from aevlp.sources.registry import EpochContext, SourceContext, register_source

if TYPE_CHECKING:
    from torch import Tensor

    from aevlp.damp.agreement import Agreement, Singles

log = logging.getLogger("aevlp")


def tag_shares(observed: Tensor) -> Tensor:
    """Return the share float32 [N, C] of each observed positive in its image's tags; observed is [N, C] in {1, 0, -1}."""
    positive = observed == 1
    return positive.float() / positive.sum(1, keepdim=True).clamp(min=1)


@register_source("consensus", DampOptions, yields="soft", asks_teacher=True, wants_expected_positives=True)
class Consensus(Damp):
    """Soft labels from opinions that were not told an image's tag, weighted by how well they predict it.

    The teacher's two opinions are computed when they are first needed, the backbone's in the first epoch, with the features that
    it starts with. They are averaged over the draws of views.
    """

    def __init__(self, context: SourceContext, options: Any) -> None:
        super().__init__(context, options)
        self.tags = tag_shares(self.observed)
        self.examples = self.tags  # of the regressions
        self.opinions: dict[str, Singles] = {}
        self.trust: dict[str, float] = {}  # opinion -> its weight, and the share of random tags; none before the first epoch

    def _ask_teacher(self) -> None:
        """Compute the teacher's opinions if there are none yet; all processes call it together."""
        if not self.opinions:
            from aevlp.damp.agreement import opinion
            from aevlp.damp.likeness import Likeness

            self.opinions = {"teacher": opinion(teacher := self.scores(self.context.split))}
            if not self.tags.any():
                self.examples = tag_shares(teacher == teacher.amax(1, keepdim=True))
            self.opinions["likeness"] = opinion(Likeness(self.views, self.examples).of_fitted())

    def evidence(self) -> Tensor:
        """Return the labels that the teacher's opinions find, int8 [N, C]: as many as they can be sure of."""
        from aevlp.damp.agreement import found_labels

        self._ask_teacher()
        z, _ = self._agreement()
        return self.observed.new_tensor(found_labels(z, self.observed.numpy()))

    def begin_epoch(self, context: EpochContext) -> None:
        """In the first epoch ask the backbone, before it is trained, and label every image; later epochs keep these labels."""
        if self.trust:
            return
        from accelerate.utils import broadcast

        from aevlp.damp.agreement import TagRegression, opinion, soft_labels, tag_beliefs

        self._ask_teacher()
        features = context.features()
        self.opinions["backbone"] = opinion(TagRegression(features, self.examples).of_fitted(features, self.examples))
        z, found = self._agreement()
        self.trust = dict(zip(self.opinions, found.weights.tolist(), strict=True))
        self.opinions = {}  # no longer needed: three tables of the whole set
        weights = ", ".join(f"{name} {weight:.2f}" for name, weight in self.trust.items())
        log.info("consensus: weights %s; %.0f %% of the tags look random", weights, 100 * found.random_tags)
        self.trust["random_tags"] = found.random_tags
        assert context.expected_positives is not None
        observed = self.observed.numpy()
        tags = tag_beliefs(z, observed, found.random_tags)
        tags[self.context.split.annotations.confirmed(observed)] = 1
        table = self.tags.new_tensor(soft_labels(z, observed, context.expected_positives, tags))
        # Machines may differ in the last digits of a fit: all processes take the first one's labels.
        self.table = broadcast(table.to(self.context.accelerator.device)).cpu()

    def pseudo_labels(self) -> Tensor:
        """Return 1 for the unknown labels that are believed to be there rather than not, int8 [N, C]."""
        return ((self.table >= 0.5) & (self.observed == 0)).to(self.observed.dtype)

    def labels(self, epoch: int) -> Tensor:
        """Return the pseudo-labels, which are the same in every epoch."""
        return self.pseudo_labels()

    def _agreement(self) -> tuple[Singles, Agreement]:
        """Weigh the opinions so far; return the log-odds [N, C], up to one number, and the agreement."""
        from aevlp.damp.agreement import agreed_log_odds

        return agreed_log_odds(list(self.opinions.values()), self.tags.numpy())

    def chosen(self) -> dict[str, Any]:
        """Return the weights of the opinions."""
        return {**super().chosen(), **{f"consensus.{name}": round(weight, 3) for name, weight in self.trust.items()}}

    def state_dict(self) -> dict[str, Any]:
        """Return the labels, the weights of the opinions and the settings of the teacher."""
        return {**super().state_dict(), "table": self.table, "trust": self.trust}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue with the labels of `state`."""
        super().load_state_dict(state)
        self.table, self.trust = state["table"].clone(), state["trust"]
