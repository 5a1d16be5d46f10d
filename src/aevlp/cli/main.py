"""The command line: which commands there are, and what their errors look like."""

from __future__ import annotations

import errno
import logging
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import NoReturn

from aevlp.cli.bench import bench
from aevlp.cli.check import check
from aevlp.cli.compare import compare
from aevlp.cli.demo import demo
from aevlp.cli.evaluate import evaluate
from aevlp.cli.export import export
from aevlp.cli.label import label
from aevlp.cli.methods import methods
from aevlp.cli.predict import predict
from aevlp.cli.report import report
from aevlp.cli.reproduce import reproduce
from aevlp.cli.score import score
from aevlp.cli.serve import serve
from aevlp.cli.store import store
from aevlp.cli.thresholds import thresholds
from aevlp.cli.train import train
from aevlp.cli.tune import tune
from aevlp.core.engine import is_first_process, shut_down_processes
from aevlp.core.errors import UserError, did_you_mean
from aevlp.core.tables import show

log = logging.getLogger("aevlp")
WAIT = 10.0  # seconds
PATH_ERRORS = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ELOOP, errno.ENAMETOOLONG, errno.ENOTDIR}
"""Errors of the system that are about a path that the user gave."""

COMMANDS: dict[str, Callable[[Sequence[str]], None]] = {
    "demo": demo,
    "check": check,
    "score": score,
    "tune": tune,
    "train": train,
    "compare": compare,
    "reproduce": reproduce,
    "label": label,
    "eval": evaluate,
    "predict": predict,
    "thresholds": thresholds,
    "report": report,
    "export": export,
    "serve": serve,
    "bench": bench,
    "store": store,
    "methods": methods,
}


def _overview() -> str:
    commands = "\n".join(
        f"  {name:<10} {(function.__doc__ or '').strip().splitlines()[0]}" for name, function in COMMANDS.items()
    )
    return (
        "aevlp: train a classifier that finds all the labels from images that carry only one each.\n\n"
        f"usage: aevlp COMMAND ...\n\n{commands}\n\n"
        "aevlp COMMAND --help lists a command's options; aevlp --version tells the version."
    )


def _set_up_logging() -> None:
    log.setLevel(logging.DEBUG)
    if all(handler.name != "console" for handler in log.handlers):
        console = logging.StreamHandler() if is_first_process() else logging.NullHandler()
        console.name = "console"
        console.setLevel(logging.INFO)
        log.addHandler(console)


def main(argv: Sequence[str] | None = None) -> None:
    """Runs a command. Exit codes: 0 done; 2 the user can put it right (one line on stderr); 1 a bug (traceback)."""
    argv = sys.argv[1:] if argv is None else argv
    # Threads that spin long while they wait stop each other when anything else runs on the cores. It must be said before torch
    # is loaded.
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")
    _set_up_logging()
    try:
        if not argv or argv[0] in ("-h", "--help", "help"):
            show(_overview())
        elif argv[0] == "--version":
            from aevlp import __version__

            show(f"aevlp {__version__}")
        elif argv[0] in COMMANDS:
            COMMANDS[argv[0]](argv[1:])
            shut_down_processes()
        else:
            raise UserError(f"unknown command {argv[0]}{did_you_mean(argv[0], COMMANDS)}; see aevlp --help")
    except UserError as error:
        _refuse(str(error))
    except OSError as error:
        if error.errno not in PATH_ERRORS or error.filename is None:
            raise
        _refuse(f"{os.fsdecode(error.filename)}: cannot be used ({error.strerror}); check the path and its permissions")
    except KeyboardInterrupt:
        sys.exit(130)


def _refuse(message: str) -> NoReturn:
    """Ends with what the user can put right, in one line."""
    message = " ".join(message.split())
    if not is_first_process():
        time.sleep(WAIT)  # what the first process has to say is mostly the same, and it says it first
        message = f"process {os.environ['RANK']}: {message}"
    print(f"aevlp: {message}", file=sys.stderr)
    sys.exit(2)
