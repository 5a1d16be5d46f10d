"""aevlp compare: many runs on one store."""

import logging
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from aevlp.cli.arguments import swept
from aevlp.config.sweep import Failure, Outcome, Sweep, Trial, results_table, sweep_verdict
from aevlp.core.errors import UserError, first_few
from aevlp.core.options import AtLeast, Options, Parser, options_of
from aevlp.core.remote import local_path, location
from aevlp.core.tables import next_steps, show

log = logging.getLogger("aevlp")


@dataclass(frozen=True)
class CompareOptions(Options):
    """Options of the command itself; those of its runs come from the recipe."""

    seeds: Annotated[int, AtLeast(1)] = 1
    """Train each with seeds 0 to N-1."""
    jobs: Annotated[int, AtLeast(1)] = 1
    """Trainings at a time."""


def compare(argv: Sequence[str]) -> None:
    """Train several methods, seeds and values of options (--KEY A,B,..) on one store, and print one table."""

    def add(parser: Parser) -> None:
        parser.add_argument("data", type=location, metavar="DATA", help="the image set")
        parser.add_argument("--out", type=local_path, required=True, metavar="DIR", help="folder for runs, results and report")
        for option in options_of("", CompareOptions):
            Parser.add_option(parser, option)  # one value: not a list, as the options of the runs take

    given, sweep = swept(
        "compare", compare.__doc__ or "", argv, add, example="aevlp compare photos --out sweep --methods an,gr,aevlp --seeds 3"
    )
    options = CompareOptions(**{key: value for key, value in vars(given).items() if key in ("seeds", "jobs")})
    trials = sweep.trials(options.seeds)

    from aevlp.experiments.compare import RESULTS, check_sweep_folder, run_sweep, wants_report

    check_sweep_folder(given.out, trials)
    outcomes = run_sweep(sweep, trials, given.data, given.out, jobs=options.jobs)
    report = f"; report: {given.out / 'report.html'}" if wants_report(trials) else ""
    caption = f"every run: {given.out / RESULTS}{report}"
    print_outcomes(sweep, outcomes, given.out, title=str(given.data), caption=caption)


def print_outcomes(sweep: Sweep, outcomes: Sequence[tuple[Trial, Outcome]], out: Path, *, title: str, caption: str) -> None:
    """Print the table of a sweep whose runs are in `out`, and its warnings; exit with an error if a training failed."""
    show(results_table(sweep, outcomes, title=title, caption=caption))
    show(sweep_verdict(outcomes))
    done = [(trial, outcome) for trial, outcome in outcomes if not isinstance(outcome, Failure)]
    if warned := [trial.name for trial, outcome in done if outcome.get("warnings")]:
        show(f"warning: there are warnings about {first_few(warned, 5)}; result.json of each has the text")
    exit_on_failures(((trial.name, outcome) for trial, outcome in outcomes), "trainings")
    trained = [pair for pair in done if pair[0].config.method.loss is not None]
    if rivals := [pair for pair in trained if not pair[0].config.method.needs_truth] or trained:
        best = max(rivals, key=lambda pair: pair[1]["val_mAP"])[0].name  # as a user would choose: not by the test images
        show(next_steps(["predict", out / best, "PATH"]))


def exit_on_failures(outcomes: Iterable[tuple[str, object]], noun: str) -> None:
    """Exit if an outcome of (name, outcome) is a failure: with 2 if the user can fix all of them, with 1 for a bug."""
    known = list(outcomes)
    failed = {name: outcome for name, outcome in known if isinstance(outcome, Failure)}
    if not failed:
        return
    message = f"{len(failed)} of {len(known)} {noun} failed ({', '.join(failed)}); the same command again goes on with them"
    if all(failure.is_user_error for failure in failed.values()):
        raise UserError(message)
    log.error("%s", message)
    sys.exit(1)
