"""DAMP: pseudo-labels of a frozen vision-language model that sees the image and its tiles, cut anew for every epoch."""

from __future__ import annotations

import logging
from dataclasses import asdict, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from aevlp.core.citations import AEVLP
from aevlp.core.errors import UserError
from aevlp.core.seeds import generator_for, seed_for
from aevlp.damp.options import DampOptions
from aevlp.data.prevalence import observed_like
from aevlp.sources.registry import EpochContext, Source, SourceContext, register_source

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from aevlp.damp.tuning import Tuning
    from aevlp.damp.view_embeddings import ViewEmbeddings
    from aevlp.data.dataset import Rows, Split

log = logging.getLogger("aevlp")
MOST_TUNED_ON = 5000  # images


@register_source("damp", DampOptions, asks_teacher=True, follows_compat=True, paper=AEVLP)
class Damp(Source):
    """Pseudo-labels from a store of view embeddings: score the views once, label every epoch anew."""

    options: DampOptions
    views: ViewEmbeddings

    def __init__(self, context: SourceContext, options: Any) -> None:
        from aevlp.damp.text import class_embeddings, noise_weights
        from aevlp.damp.view_embeddings import ViewEmbeddings

        super().__init__(context, options)
        if options.tune and context.store_root is None:
            raise UserError("--store none: settings are chosen from stored views; name a folder")
        epochs = context.epochs
        # Without a store no draw is kept, so there is nothing to recombine.
        draws = epochs if epochs and context.store_root is None else options.draws_in(epochs)
        self.released_code = context.released_code
        view = {name: getattr(options, name) for name in ("grid", "overlap", "augment", "seed")}
        self.views = ViewEmbeddings(
            context.split,
            context.classes,
            context.teacher,
            draws=draws,
            view={**view, "released_code": self.released_code},
            store_root=context.store_root,
            seed=context.seed,
            accelerator=context.accelerator,
        )
        generator = generator_for(context.seed, "text noise")
        self.weights = noise_weights(self.views.texts.shape[1], generator) if options.noise else None
        self.classes = class_embeddings(self.views.texts, self.weights, options.neighbours)
        self.settings: dict[str, Any] = {}  # chosen by tuning

    def fill(self) -> None:
        """Check the teacher, embed the views that the store lacks, and choose the settings if asked to."""
        self.check_teacher()
        self.views.fill()
        if self.options.tune and not self.settings:
            from accelerate.utils import broadcast_object_list

            setting, figures = self.tuning().chosen
            # Two settings may be nearly equal and rank differently on different machines: the first process decides.
            self.take(broadcast_object_list([asdict(setting)])[0])
            shown = ", ".join(f"{name} {value}" for name, value in self.settings.items())
            log.info("tuned: %s (pseudo-label precision %.3f, recall %.3f)", shown, figures.precision, figures.recall)

    def take(self, settings: dict[str, Any]) -> None:
        """Continue with these settings: option name -> value."""
        self.settings, self.options = settings, replace(self.options, **settings)

    def tuning(self) -> Tuning:
        """Tune the settings on fully labelled validation images or, without them, on the observed labels."""
        import torch

        from aevlp.damp.tuning import DampSettings, Sample, tune_complete, tune_estimated

        if self.views.store is None:
            raise UserError("--store none: settings are chosen from stored views; name a folder")
        options, context = self.options, self.context
        before = DampSettings(**{f.name: getattr(options, f.name) for f in fields(DampSettings)})
        how = (options.local_threshold, self.released_code)
        observed, val = context.split.observed, context.validation
        if val is not None and val.truth is not None:
            views = self.views.at(val)
            views.fill()
            rows, embeddings = views.sample(MOST_TUNED_ON)
            known = observed_like(observed, val.truth, np.random.default_rng(seed_for(0, "tuning")))[rows]
            return tune_complete(Sample(embeddings, self.classes, torch.from_numpy(known), *how), val.truth[rows], before)
        if not (observed == 1).any():
            raise UserError(f"{context.split.root}: no label is observed, so there is nothing to tune by; label some images")
        rows, embeddings = self.views.sample(MOST_TUNED_ON)
        nothing = self.observed.new_zeros(len(rows), len(self.classes))
        expected = context.expected_positives
        return tune_estimated(Sample(embeddings, self.classes, nothing, *how), observed[rows], before, expected)

    def chosen(self) -> dict[str, Any]:
        """Return the settings that `tune` has chosen."""
        return {f"damp.{name}": value for name, value in self.settings.items()}

    def evidence(self) -> Tensor:
        """Return the labels of the first epoch."""
        return self.labels(1)

    def begin_epoch(self, context: EpochContext) -> None:
        """Label every image from this epoch's views."""
        self.table = self.labels(context.epoch)

    def labels(self, epoch: int) -> Tensor:
        """Return the pseudo-labels of epoch 1, 2, ..., int8 [N, C] in {1, 0, -1}, the same in every process."""
        from aevlp.damp.labels import pseudo_labels, scores

        classes = self.classes.to(self.context.accelerator.device)

        def label(rows: Tensor, embeddings: Tensor) -> Tensor:
            return pseudo_labels(
                *scores(embeddings, classes, self.options.temperature),
                self.observed[rows].to(embeddings.device),
                local_threshold=self.options.local_threshold,
                global_threshold=self.options.global_threshold,
                top_k=self.options.top_k,
                negative_fraction=self.options.negative_fraction,
                agreed=self.options.negatives == "agreed",
                released_code=self.released_code,
            )

        return self.views.labels(epoch, label)

    def scores(self, split: Split, draws: int | None = None, *, whole_image: bool = False) -> Tensor:
        """Return the teacher's scores of the images of a split, float32 [M, C] in 0..1: DAMP's final scores over the views.

        `whole_image`: the softmax of the first view alone, without text noise. The scores are averaged over the draws. No
        observed label is used, so that all labels are scored alike.
        """
        from aevlp.damp.labels import final_scores, scores
        from aevlp.damp.text import class_embeddings

        views = self.views.at(split, draws or self.views.draws)
        views.fill()
        options = self.options
        classes = class_embeddings(self.views.texts, None) if whole_image else self.classes
        classes = classes.to(self.context.accelerator.device)

        def score(rows: Tensor, embeddings: Tensor) -> Tensor:
            if whole_image:
                return scores(embeddings[:, :1], classes, options.temperature)[0]
            nothing = self.observed.new_zeros(len(rows), len(classes), device=embeddings.device)
            both = scores(embeddings, classes, options.temperature)
            return final_scores(*both, nothing, local_threshold=options.local_threshold, released_code=self.released_code)[0]

        return views.mean_scores(score)

    def view_scores(self, views: ViewEmbeddings, epoch: int, rows: Rows) -> NDArray[np.float32]:
        """Return the scores of each stored view of some images in epoch 1, 2, ..., float32 [M, V, C]; the first is the whole."""
        import torch

        from aevlp.damp.labels import scores

        embeddings = torch.from_numpy(views.seen(epoch, rows))
        whole, tiles = scores(embeddings, self.classes.cpu(), self.options.temperature)
        return np.concatenate([whole.numpy()[:, None], tiles.numpy()], 1)

    def state_dict(self) -> dict[str, Any]:
        """Return the chosen settings and the text noise: a generator of another version might draw it differently."""
        return {"weights": self.weights, "settings": self.settings, **self.views.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue with the settings and the text noise of `state`."""
        from aevlp.damp.text import class_embeddings

        self.views.check(state)
        self.take(state.get("settings", {}))  # not in checkpoints of 0.3.0
        self.weights = state["weights"]
        self.classes = class_embeddings(self.views.texts, self.weights, self.options.neighbours)
