"""Arguments that `eval`, `thresholds` and `rounds` share: a trained run, an image set and one of its splits."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aevlp.config.defaults import FEATURES
from aevlp.config.recipe import read_recipe
from aevlp.config.run_options import ThresholdOptions, TrainOptions
from aevlp.core.options import Parser, options_of, overlay, section_values
from aevlp.core.processes import EngineOptions
from aevlp.core.remote import local_path, location
from aevlp.data.load import DataOptions
from aevlp.models.options import ModelOptions
from aevlp.training.run_folder import open_run

if TYPE_CHECKING:
    from aevlp.inference.evaluation import SplitProbabilities

AS_IN_THE_RUN = ("data.observe", "data.zeros", "data.classes_without_examples", FEATURES)
"""Options whose defaults are the run's, so that its validation part is the same."""
KEPT = (*AS_IN_THE_RUN, "store", "train.workers", "train.expected_positives")


def add_arguments(parser: Parser, *, split: str) -> None:
    """Add RUN, DATA, the split, and the options for reading images and computing."""
    parser.add_argument("run", type=local_path, metavar="RUN", help="folder of a trained run")
    parser.add_argument("data", type=location, metavar="DATA", help="the image set")
    add_options(parser, split=split)


def add_options(parser: Parser, *, split: str) -> None:
    """Add the split, and the options for reading images and computing."""
    parser.add_argument("--split", choices=["train", "val", "test"], default=split, help=f"part of it (default: {split})")
    features = [option for option in options_of("model", ModelOptions) if option.key == FEATURES]
    for option in [*options_of("data", DataOptions), *features, *options_of("", EngineOptions)]:
        parser.add_option(replace(option, default="as in the run") if option.key in AS_IN_THE_RUN else option)


class RunArguments:
    """The run and the options of a command that evaluates it: the user's, the run's, or the defaults."""

    def __init__(self, given: Namespace, run: Path | None = None) -> None:
        self.run, self.data, self.split = open_run(run or given.run), given.data, given.split
        in_run = read_recipe(self.run.config)
        kept = {key: value for key, value in in_run.items() if key.startswith("thresholds.") or key in KEPT}
        self.values = {**kept, **vars(given)}

    def options(self, section: str, kind: type[Any]) -> Any:
        """Return the options of one dataclass."""
        merged = overlay(options_of(section, kind), self.values)
        return kind(**(section_values(merged, section) if section else merged))

    @property
    def thresholds(self) -> tuple[ThresholdOptions, float | None]:
        """The options of the thresholds, and the expected number of positives per image."""
        return self.options("thresholds", ThresholdOptions), self.options("train", TrainOptions).expected_positives

    @property
    def expected_positives(self) -> float | None:
        """The expected number of positives per image: the user's, or the one that the training had; None: not known."""
        given: float | None = self.values.get("train.expected_positives")
        return given if given is not None else (self.run.read_result() or {}).get("expected_positives")

    def evaluate(self) -> SplitProbabilities:
        """Return the probabilities of the run's model on the split."""
        data, engine = self.options("data", DataOptions), self.options("", EngineOptions)
        model, workers = self.options("model", ModelOptions), self.options("train", TrainOptions).workers

        from aevlp.inference.evaluation import evaluate_run

        return evaluate_run(
            self.run,
            self.data,
            self.split,
            options=data,
            engine=engine,
            features=model.features,
            workers=workers,
            store=self.values.get("store"),
        )
