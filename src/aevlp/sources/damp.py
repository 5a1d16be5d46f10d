"""DAMP: a frozen vision-language model looks at the image and its tiles, afresh every epoch."""

from __future__ import annotations

import logging
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Literal

from aevlp.core.citations import AEVLP
from aevlp.core.errors import UserError, require
from aevlp.core.seeds import seed_for
from aevlp.sources.registry import Moment, Source, SourceOptions, Task, register_source

if TYPE_CHECKING:
    from torch import Tensor

    from aevlp.damp.tuning import Tuning
    from aevlp.data.splits import Split

log = logging.getLogger("aevlp")
JUDGED = 5000  # images that settings are judged by, at most


@dataclass(frozen=True)
class DampOptions(SourceOptions):
    """Dynamic augmented multi-focus pseudo-labelling."""

    grid: int = 4
    """The image is cut into grid x grid tiles (CUB 5)."""
    overlap: float = 0.2
    """Each side of a tile grows by up to this share of the tile; 0: no overlap."""
    augment: bool = True
    """Flip views, and now and then rotate, jitter, sharpen or contrast them; false: resize only."""
    noise: bool = True
    """Add label-to-label noise to the text embeddings."""
    neighbours: int | None = None
    """Most similar classes that each class takes noise from, itself included (VOC 20, COCO 62, NUS 50, CUB 312); null: all."""
    temperature: float = 0.01
    """Softmax temperature on the cosines (CUB 0.1)."""
    local_threshold: float = 0.0
    """Score above which a class's best tile counts, and below which its worst does (COCO, NUS 0.3; CUB 0.005)."""
    global_threshold: float = 0.5
    """Least score of a positive pseudo-label (NUS 0.6; CUB 0.005)."""
    top_k: int = 3
    """Most positive pseudo-labels per image (CUB 32)."""
    negative_fraction: float = 0.2
    """Share of the classes, those with the lowest scores, that become negative pseudo-labels (COCO 0.3)."""
    negatives: Literal["lowest", "agreed"] = "lowest"
    """lowest: those are negative whose scores, averaged over the views, are the lowest; agreed: only those that are among so many
    lowest in every single view."""
    seed: int = 0
    """Seed of the views. Runs that share it share the store, whatever their own seed."""
    draws: int | None = None
    """Draws of views to make; later epochs recombine them tile by tile. null: one per epoch."""
    tune: bool = False
    """Choose temperature, global_threshold, top_k and negative_fraction for these images and this teacher first (aevlp tune)."""

    def __post_init__(self) -> None:
        """Checks the ranges."""
        require(self.grid >= 1, "damp.grid", "at least 1", self.grid)
        require(self.overlap >= 0, "damp.overlap", "at least 0", self.overlap)
        require(self.neighbours is None or self.neighbours >= 1, "damp.neighbours", "at least 1", self.neighbours)
        require(self.temperature > 0, "damp.temperature", "above 0", self.temperature)
        require(self.local_threshold >= 0, "damp.local_threshold", "at least 0", self.local_threshold)
        require(self.global_threshold >= 0, "damp.global_threshold", "at least 0", self.global_threshold)
        require(self.top_k >= 0, "damp.top_k", "at least 0", self.top_k)
        require(0 <= self.negative_fraction <= 1, "damp.negative_fraction", "from 0 to 1", self.negative_fraction)
        require(self.seed >= 0, "damp.seed", "at least 0", self.seed)
        require(self.draws is None or self.draws >= 1, "damp.draws", "at least 1", self.draws)

    def draws_in(self, epochs: int) -> int:
        """Draws of views to make for so many epochs: never more than one each."""
        return min(self.draws or epochs, epochs)


@register_source("damp", DampOptions, asks_teacher=True, follows_compat=True, paper=AEVLP)
class Damp(Source):
    """Pseudo-labels from a store of view embeddings: score the views once, label every epoch anew."""

    options: DampOptions

    def __init__(self, task: Task, options: Any) -> None:
        import torch

        from aevlp.damp.text import class_embeddings, noise_weights
        from aevlp.damp.view_embeddings import Looks

        super().__init__(task, options)
        if options.tune and task.root is None:
            raise UserError("--store none: settings are chosen from stored views; name a folder")
        epochs = task.config.train.epochs
        # Without a store a draw is never seen twice, so there is nothing to recombine.
        draws = epochs if task.root is None else options.draws_in(epochs)
        self.released_code = task.config.run.compat == "released-code"
        view = {name: getattr(options, name) for name in ("grid", "overlap", "augment", "seed")}
        self.looks = Looks(task, draws, {**view, "released_code": self.released_code})
        generator = torch.Generator().manual_seed(seed_for(task.config.run.seed, "text noise"))
        self.weights = noise_weights(self.looks.texts.shape[1], generator) if options.noise else None
        self.classes = class_embeddings(self.looks.texts, self.weights, options.neighbours)
        self.observed = torch.from_numpy(task.split.observed)
        self.settings: dict[str, Any] = {}  # chosen by tuning

    def fill(self) -> None:
        """Scores what the store lacks, and chooses the settings if asked to."""
        self.looks.fill()
        if self.options.tune and not self.settings:
            from accelerate.utils import broadcast_object_list

            setting, figures = self.tuning().chosen
            # On unequal machines two nearly equal settings may change places: the first process decides.
            self.take(broadcast_object_list([asdict(setting)])[0])
            shown = ", ".join(f"{name} {value}" for name, value in self.settings.items())
            log.info("tuned: %s (pseudo-label precision %.3f, recall %.3f)", shown, figures.precision, figures.recall)

    def take(self, settings: dict[str, Any]) -> None:
        """Goes on with these settings, by the names of its options."""
        self.settings, self.options = settings, replace(self.options, **settings)

    def tuning(self) -> Tuning:
        """What settings the stored views speak for: by fully labelled validation images or, without them, by what is observed."""
        import numpy as np
        import torch

        from aevlp.damp.tuning import Sample, Setting, tune_complete, tune_estimated
        from aevlp.data.prevalence import observed_like

        if self.looks.store is None:
            raise UserError("--store none: settings are chosen from stored views; name a folder")
        options, task = self.options, self.task
        before = Setting(**{f.name: getattr(options, f.name) for f in fields(Setting)})
        how = (options.local_threshold, self.released_code)
        observed, val = task.split.observed, task.validation
        if val is not None and val.truth is not None:
            looks = self.looks.at(val)
            looks.fill()
            rows, embeddings = looks.some(JUDGED)
            known = observed_like(observed, val.truth, np.random.default_rng(seed_for(0, "tuning")))[rows]
            return tune_complete(Sample(embeddings, self.classes, torch.from_numpy(known), *how), val.truth[rows], before)
        if not (observed == 1).any():
            raise UserError(f"{task.split.root}: no label is observed, so there is nothing to tune by; label some images")
        rows, embeddings = self.looks.some(JUDGED)
        nothing = torch.zeros(len(rows), len(self.classes), dtype=torch.int8)
        expected = task.config.train.expected_positives
        return tune_estimated(Sample(embeddings, self.classes, nothing, *how), self.looks.images.observed[rows], before, expected)

    def chosen(self) -> dict[str, Any]:
        """What `tune` has chosen."""
        return {f"damp.{name}": value for name, value in self.settings.items()}

    def evidence(self) -> Tensor:
        """The labels of the first epoch."""
        return self.labels(1)

    def begin(self, moment: Moment) -> None:
        """Labels every image from this epoch's views."""
        self.table = self.labels(moment.epoch)

    def labels(self, epoch: int) -> Tensor:
        """Int8 [N, C] in {1, 0, -1}: the pseudo-labels of epoch 1, 2, ..., the same in every process."""
        from aevlp.damp.labels import pseudo_labels, scores

        classes = self.classes.to(self.task.accelerator.device)

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

        return self.looks.labelled(epoch, label)

    def scores(self, split: Split) -> Tensor:
        """Float32 [M, C]: how much the teacher sees each class in images, those of its task or others; the mean of all draws.

        The rule is told of no observed label, so that all labels are judged alike.
        """
        import torch

        from aevlp.damp.labels import final_scores, scores

        looks = self.looks if split is self.task.split else self.looks.at(split, self.looks.draws)
        looks.fill()
        classes, options = self.classes.to(self.task.accelerator.device), self.options

        def score(rows: Tensor, embeddings: Tensor) -> Tensor:
            nothing = torch.zeros(len(rows), len(classes), dtype=torch.int8, device=embeddings.device)
            views = scores(embeddings, classes, options.temperature)
            return final_scores(*views, nothing, local_threshold=options.local_threshold, released_code=self.released_code)[0]

        return looks.pooled(score)

    def state(self) -> dict[str, Any]:
        """The text noise (a resumed run must not depend on how a generator of another version draws), and what was decided."""
        return {"weights": self.weights, "settings": self.settings, **self.looks.state()}

    def restore(self, state: dict[str, Any]) -> None:
        """Continues with the text noise of `state`."""
        from aevlp.damp.text import class_embeddings

        self.looks.check(state)
        self.take(state.get("settings", {}))  # not in checkpoints of 0.3.0
        self.weights = state["weights"]
        self.classes = class_embeddings(self.looks.texts, self.weights, self.options.neighbours)
