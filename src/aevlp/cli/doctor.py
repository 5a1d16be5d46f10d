"""aevlp doctor: a check of this machine."""

import sys
from collections.abc import Sequence

from aevlp.cli.arguments import options_from
from aevlp.core.options import Parser, options_of
from aevlp.core.processes import EngineOptions
from aevlp.core.tables import named_lines, show
from aevlp.experiments.doctor.checks import CHECKS
from aevlp.experiments.doctor.run import checks_named, examine, table


def doctor(argv: Sequence[str]) -> None:
    """Check this machine: devices, precisions, determinism, resuming and speed, as a table for a bug report."""
    parser = Parser("doctor", doctor.__doc__ or "", "aevlp doctor")
    parser.add_argument("--only", metavar="A,B,..", help="checks to make (default: all)")
    parser.add_argument("--list", action="store_true", help="list the checks and make none (default: false)")
    for option in options_of("", EngineOptions):
        if option.key == "device":  # the rest is what is checked
            parser.add_option(option)
    given = parser.read(argv)
    if given.list:
        show(named_lines((name, f"{check.summary} ({', '.join(check.devices)})") for name, check in CHECKS.items()))
        return
    findings = list(examine(checks_named(given.only), options_from(given, EngineOptions).device))
    show(table(findings))
    failed = [finding for finding in findings if finding.is_passed is False]
    made = sum(finding.is_passed is not None for finding in findings)
    show(f"{len(failed)} of {made} checks failed" if failed else f"all {made} checks passed")
    if failed:
        sys.exit(1)
