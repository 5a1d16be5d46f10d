"""aevlp rounds: two models on the same images, before and after a review."""

from collections.abc import Sequence

from aevlp.cli.evaluation import RunArguments, add_options
from aevlp.core.options import Parser
from aevlp.core.remote import local_path, location
from aevlp.core.tables import next_steps, show
from aevlp.data.answers import completed_file
from aevlp.data.load import DataOptions


def rounds(argv: Sequence[str]) -> None:
    """Compare two runs on the same fully labelled images: did the review make the model better?"""
    parser = Parser("rounds", rounds.__doc__ or "", "aevlp rounds runs/first runs/second photos")
    parser.add_argument("before", type=local_path, metavar="BEFORE", help="folder of the run before the review")
    parser.add_argument("after", type=local_path, metavar="AFTER", help="folder of the run after it; the page is written there")
    parser.add_argument("data", type=location, metavar="DATA", help="the image set, with the answers of the audit")
    add_options(parser, split="val")
    given = parser.read(argv)
    arguments = [RunArguments(given, run) for run in (given.before, given.after)]
    before, after = (each.evaluate() for each in arguments)
    if not after.accelerator.is_main_process:
        return

    from aevlp.inference.rounds import compare_rounds, effort_of
    from aevlp.reports.rounds_page import cost_of, overall_table, verdict, warnings_of, write_rounds
    from aevlp.reports.run_page import write_report

    runs = (arguments[0].run, arguments[1].run)
    found = compare_rounds(runs, (before, after), effort_of(given.data, arguments[1].options("data", DataOptions)))
    show(overall_table(found))
    lines = [verdict(found), f"labels that changed: {found.corrected.sum()} corrected, {found.spoilt.sum()} spoilt"]
    lines += [f"WARNING: {text}" for text in warnings_of(found)]
    lines += [cost] if (cost := cost_of(found)) else []
    page = write_rounds(found, runs[1])
    if runs[1].evidence.is_file() and runs[1].report.is_file():
        write_report(runs[1])
    label = ["label", given.data, "--out", completed_file(given.data), "--run", given.after]
    show("\n".join([*lines, f"written: {page}", next_steps(label)]))
