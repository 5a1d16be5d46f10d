"""What `eval`, `thresholds` and `label` share: a trained run, an image set, and what the one says of the other."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from aevlp.config.config import Config, build_config
from aevlp.config.defaults import FEATURES, MODE
from aevlp.config.recipe import read_recipe
from aevlp.core.errors import UserError
from aevlp.core.options import Parser, options_of
from aevlp.core.processes import EngineOptions
from aevlp.data.load import DataOptions
from aevlp.models.options import ModelOptions
from aevlp.store.location import store_root
from aevlp.training.run_folder import RunFolder, open_run

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from accelerate import Accelerator

    from aevlp.data.splits import Split

AS_IN_THE_RUN = ("data.observe", "data.zeros")
"""What is taken from the run, so that its validation part is the same."""
KEPT = (*AS_IN_THE_RUN, "store", "train.workers", "train.expected_positives", FEATURES)


@dataclass(frozen=True, eq=False)
class Judging:
    """A split of an image set and the probabilities [N, C] that a run's model gives it."""

    run: RunFolder
    config: Config
    classes: Sequence[str]
    split: Split
    found: npt.NDArray[np.float32]
    accelerator: Accelerator


def add_arguments(parser: Parser, *, split: str) -> None:
    """RUN, DATA, the split, and how the images are read and computed with."""
    parser.add_argument("run", type=Path, metavar="RUN", help="folder of a trained run")
    parser.add_argument("data", type=Path, metavar="DATA", help="the image set")
    parser.add_argument("--split", choices=["train", "val", "test"], default=split, help=f"part of it (default: {split})")
    features = [option for option in options_of("model", ModelOptions) if option.key == FEATURES]
    for option in [*options_of("data", DataOptions), *features, *options_of("", EngineOptions)]:
        parser.add_option(replace(option, default="as in the run") if option.key in (*AS_IN_THE_RUN, FEATURES) else option)


def judging(given: Namespace) -> Judging:
    """What the arguments ask for, computed."""
    run = open_run(given.run)
    before = {k: v for k, v in read_recipe(run.config).items() if k.startswith("thresholds.") or k in KEPT}
    values = {**before, **vars(given)}
    config = build_config("", "an", values if values.get(FEATURES) is None else {**values, MODE: "linear"})

    from aevlp.data.load import load_split

    classes, split = load_split(given.data, config.data, store_root(config.run.store), given.split)

    from aevlp.core.engine import make_accelerator
    from aevlp.models.model_folder import load_classifier
    from aevlp.training.evaluate import probabilities
    from aevlp.training.user_features import inputs_for

    accelerator = make_accelerator(config.engine)
    classifier = load_classifier(run.model).to(accelerator.device)
    require_same_classes(classes, classifier.classes, given.data, given.run)
    found = probabilities(classifier, inputs_for(classifier, config)(split), accelerator)
    return Judging(run, config, classes, split, found, accelerator)


def require_same_classes(in_data: Sequence[str], in_run: Sequence[str], data: Path, run: Path) -> None:
    """Refuses an image set whose classes are not the model's, in its order."""
    if list(in_data) == list(in_run):
        return
    only_data, only_run = (", ".join(sorted(set(a) - set(b))[:5]) for a, b in ((in_data, in_run), (in_run, in_data)))
    how = f"only in DATA: {only_data or '-'}; only in RUN: {only_run or '-'}" if only_data or only_run else "another order"
    raise UserError(f"{data} and {run} have different classes ({how}); a classes.txt beside the table fixes them")
