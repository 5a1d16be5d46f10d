"""aevlp thresholds: fit the thresholds of a run's model again."""

from collections.abc import Sequence
from dataclasses import replace

from aevlp.cli.evaluation import RunArguments, add_arguments
from aevlp.config.run_options import ThresholdOptions, TrainOptions
from aevlp.core.options import Parser, options_of
from aevlp.core.tables import next_steps, show


def thresholds(argv: Sequence[str]) -> None:
    """Fit a run's thresholds again, for another aim or on other images."""
    parser = Parser("thresholds", thresholds.__doc__ or "", "aevlp thresholds runs/first photos --thresholds.aim precision")
    add_arguments(parser, split="val")
    expected = [option for option in options_of("train", TrainOptions) if option.key == "train.expected_positives"]
    for option in [*options_of("thresholds", ThresholdOptions), *expected]:
        parser.add_option(replace(option, default="as in the run"))
    arguments = RunArguments(parser.read(argv))
    run, options = arguments.run, arguments.thresholds
    asked = arguments.evaluate()

    from aevlp.reports.model_card import write_card
    from aevlp.training.results import evaluation_table
    from aevlp.training.thresholds import thresholds_for, write_thresholds

    if not asked.accelerator.is_main_process:
        return
    fitted = thresholds_for(asked.split, asked.classes, asked.found, *options)
    write_thresholds(run, fitted)
    write_card(run)
    show(evaluation_table(asked.found, asked.split, asked.classes, fitted, arguments.expected_positives))
    show("these are figures of the images that the thresholds were fitted on; aevlp eval has those of others")
    if fitted.measured_precision is not None:
        show(f"precision of the labels above them: {fitted.measured_precision}, measured with each image left out of the fit")
    page = [["report", run.path]] if run.report.is_file() else []
    use = ["eval", run.path, arguments.data] if run.is_zero_shot else ["predict", run.path, "PATH"]
    show(f"written: {run.thresholds}\n{next_steps(*page, use)}")
