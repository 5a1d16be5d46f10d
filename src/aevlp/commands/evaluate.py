"""aevlp eval: the figures of a trained model on a split."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from aevlp.cache import store_root
from aevlp.commands.printing import show
from aevlp.config import DataOptions, EngineOptions
from aevlp.errors import UserError
from aevlp.options import Parser, options_of
from aevlp.recipe import build_config, read_recipe
from aevlp.runs import open_run

AS_IN_THE_RUN = ("data.observe", "data.zeros")
"""What `eval` takes from the run, so that its validation part is the same."""


def evaluate(argv: Sequence[str]) -> None:
    """Evaluate a trained model on a split of an image set."""
    parser = Parser("eval", evaluate.__doc__ or "")
    parser.add_argument("run", type=Path, metavar="RUN", help="folder of a trained run")
    parser.add_argument("data", type=Path, metavar="DATA", help="the image set")
    parser.add_argument("--split", choices=["train", "val", "test"], default="test", help="part of it (default: test)")
    parser.add_argument("--probabilities", type=Path, metavar="FILE.csv", help="write every image's probabilities (default: no)")
    for option in [*options_of("data", DataOptions), *options_of("", EngineOptions)]:
        parser.add_option(replace(option, default="as in the run") if option.key in AS_IN_THE_RUN else option)
    given = parser.read(argv)
    run = open_run(given.run)
    before = {key: value for key, value in read_recipe(run.config).items() if key in (*AS_IN_THE_RUN, "store", "train.workers")}
    config = build_config("", "an", {**before, **vars(given)})
    if given.probabilities is not None and given.probabilities.exists():
        raise UserError(f"--probabilities {given.probabilities}: exists; remove it or choose another name")

    from aevlp.data.load import load_split

    classes, split = load_split(given.data, config.data, store_root(config.run.store), given.split)

    from aevlp.engine import make_accelerator
    from aevlp.evaluate import evaluate as measure
    from aevlp.evaluate import probabilities
    from aevlp.model_folder import load_classifier
    from aevlp.results import evaluation_table, write_probabilities

    accelerator = make_accelerator(config.engine)
    classifier = load_classifier(run.model).to(accelerator.device)
    if list(classes) != classifier.classes:
        only_data = ", ".join(sorted(set(classes) - set(classifier.classes))[:5])
        only_run = ", ".join(sorted(set(classifier.classes) - set(classes))[:5])
        how = f"only in DATA: {only_data or '-'}; only in RUN: {only_run or '-'}" if only_data or only_run else "another order"
        raise UserError(f"{given.data} and {given.run} have different classes ({how}); a classes.txt beside the table fixes them")
    found = probabilities(classifier, split.paths, config.train.workers, accelerator)
    measured = measure(found, split.judged_by, classes)
    if not accelerator.is_main_process:
        return
    if given.probabilities is not None:
        write_probabilities(given.probabilities, split.names, classes, found)
    show(evaluation_table(measured, split))
