"""aevlp report: write the page of a run again."""

from collections.abc import Sequence

from aevlp.core.options import Parser
from aevlp.core.remote import local_path
from aevlp.core.tables import next_steps, show
from aevlp.training.run_folder import open_run


def report(argv: Sequence[str]) -> None:
    """Write the page about a finished run, report.html, again."""
    parser = Parser("report", report.__doc__ or "", "aevlp report runs/first")
    parser.add_argument("run", type=local_path, metavar="RUN", help="folder of a trained run")
    given = parser.read(argv)
    run = open_run(given.run)

    from aevlp.reports.run_page import write_report

    label = ["label", "DATA", "--out", "DATA/completed.jsonl", "--recipe", run.config]
    use = label if run.is_zero_shot else ["predict", run.path, "PATH"]
    show(f"written: {write_report(run)} (open it in a browser)\n{next_steps(use)}")
