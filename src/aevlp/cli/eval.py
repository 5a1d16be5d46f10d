"""aevlp eval: the metrics of a trained model on a split."""

from collections.abc import Sequence

from aevlp.cli.evaluation import RunArguments, add_arguments
from aevlp.core.errors import UserError
from aevlp.core.options import Parser
from aevlp.core.remote import local_path
from aevlp.core.tables import next_steps, show
from aevlp.data.answers import completed_file


def eval(argv: Sequence[str]) -> None:
    """Evaluate a trained model on a split of an image set."""
    parser = Parser("eval", eval.__doc__ or "", "aevlp eval runs/first photos --split test")
    add_arguments(parser, split="test")
    parser.add_argument("--probabilities", type=local_path, metavar="FILE.csv", help="write all probabilities (default: no)")
    given = parser.read(argv)
    if given.probabilities is not None and given.probabilities.exists():
        raise UserError(f"--probabilities {given.probabilities}: exists; remove it or choose another name")
    arguments = RunArguments(given)
    asked = arguments.evaluate()
    if not asked.accelerator.is_main_process:
        return

    from aevlp.training.results import evaluation_table, write_probabilities
    from aevlp.training.thresholds import read_thresholds

    if given.probabilities is not None:
        write_probabilities(given.probabilities, asked.split.names, asked.classes, asked.found)
    thresholds = read_thresholds(file, asked.classes) if (file := arguments.run.thresholds).is_file() else None
    show(evaluation_table(asked.found, asked.split, asked.classes, thresholds, arguments.expected_positives))
    if given.probabilities is not None:
        show(f"written: {given.probabilities}")
    run = arguments.run
    label = ["label", given.data, "--out", completed_file(given.data), "--recipe", run.config]
    use = label if run.is_zero_shot else ["predict", run.path, "PATH"]
    show(next_steps(use if thresholds else ["thresholds", run.path, given.data]))
