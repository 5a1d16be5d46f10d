"""The command line: the table of commands, their loading, and their errors."""

import errno
import logging
import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import NoReturn

from aevlp import __version__
from aevlp.core.errors import UserError, did_you_mean
from aevlp.core.files import FULL, cannot_write
from aevlp.core.interrupts import no_interrupt_is_lost
from aevlp.core.options import COMPLETING, Parser
from aevlp.core.processes import end_with_launcher, is_first_process, lost_process, shut_down_processes
from aevlp.core.tables import named_lines, show

log = logging.getLogger("aevlp")
WAIT = 10.0  # seconds
PATH_ERRORS = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ELOOP, errno.ENAMETOOLONG, errno.ENOTDIR}
"""System errors about a path that the user gave."""

COMMANDS = {
    "demo": "Draw a small world, train several methods on it and print one table; nothing is downloaded.",
    "check": "Say what was understood of an image set, and what is wrong with it.",
    "score": "Let the teacher embed the training and validation images and keep the embeddings (train does so when needed).",
    "tune": "Choose the settings of the pseudo-labels for these images and this teacher, without training; write a recipe.",
    "train": "Train a classifier that finds all labels from images of which only some are known.",
    "compare": "Train several methods, seeds and values of options (--KEY A,B,..) on one store, and print one table.",
    "reproduce": "Make a table or a figure of the paper on an image set, beside the paper's own where the set is the same.",
    "label": "Complete the labels of an image set: the observed ones, the proposed ones, and how sure each proposal is.",
    "review": "Review proposed labels with other people on a local page: by class, by image, and by an audit.",
    "audit": "Read out an audit: the measured precision and recall of the proposed labels.",
    "merge": "Join answers of several people and tools about an image set; contradictions are listed, and nothing decides them.",
    "rounds": "Compare two runs on the same fully labelled images: did the review make the model better?",
    "eval": "Evaluate a trained model on a split of an image set.",
    "predict": "Label images with a trained model.",
    "thresholds": "Fit a run's thresholds again, for another aim or on other images.",
    "report": "Write the page about a finished run, report.html, again.",
    "export": "Write a trained model as an ONNX file, which runs without torch or aevlp.",
    "push": "Upload a trained model to the Hugging Face hub: its folder, card, thresholds and report; private by default.",
    "serve": "Serve a trained model: a page to drop images on, and a JSON interface.",
    "bench": "Measure the speed of every part, as a ratio to the fastest it could be, both timed side by side.",
    "doctor": "Check this machine: devices, precisions, determinism, resuming and speed, as a table for a bug report.",
    "store": "List, verify or prune the stored embeddings.",
    "methods": "List the methods: what each is, its own options and its paper.",
}
"""Name -> what the command does. `aevlp/cli/NAME.py` defines the function NAME; it is loaded when the command is given."""
GO_ON = {"demo", "score", "tune", "compare", "reproduce", "label"}
"""Commands that keep what they have finished: the same command again goes on from there."""


def _overview() -> str:
    commands = named_lines(COMMANDS.items(), indent="  ")
    return (
        "aevlp: train a classifier that finds all the labels from images that carry only one each.\n\n"
        f"usage: aevlp COMMAND ...\n\n{commands}\n\n"
        "aevlp COMMAND --help shows a command's options; aevlp --version shows the version."
    )


def command(name: str) -> Callable[[Sequence[str]], None]:
    """Load a command; this is where everything heavy is loaded from."""
    function: Callable[[Sequence[str]], None] = getattr(import_module(f"aevlp.cli.{name}"), name)
    return function


def _set_up_logging() -> None:
    log.setLevel(logging.DEBUG)
    if all(handler.name != "console" for handler in log.handlers):
        console = logging.StreamHandler() if is_first_process() else logging.NullHandler()
        console.name = "console"
        console.setLevel(logging.INFO)
        log.addHandler(console)


def _run(argv: Sequence[str]) -> None:
    end_with_launcher()
    # Threads that spin while they wait slow each other down when the cores are shared. Set before torch is loaded.
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")
    _set_up_logging()
    if not argv or argv[0] in ("-h", "--help", "help"):
        show(_overview())
    elif argv[0] == "--version":
        show(f"aevlp {__version__}")
    elif argv[0] in COMMANDS:
        command(argv[0])(argv[1:])
        shut_down_processes()
    else:
        raise UserError(f"unknown command {argv[0]}{did_you_mean(argv[0], COMMANDS)}; see aevlp --help")


def main(argv: Sequence[str] | None = None) -> None:
    """Run a command.

    Exit codes: 0 done; 2 the user can put it right (one line on stderr); 130 interrupted (likewise); 1 a bug (traceback).
    """
    if COMPLETING in os.environ:
        _complete(os.environ["COMP_LINE"][: int(os.environ["COMP_POINT"])])
    argv = sys.argv[1:] if argv is None else argv
    try:
        with no_interrupt_is_lost():
            _run(argv)
    except UserError as error:
        _refuse(str(error))
    except OSError as error:
        if error.errno in FULL:
            _refuse(str(cannot_write(Path(os.fsdecode(error.filename or "the output")), error)))
        if error.errno not in PATH_ERRORS or error.filename is None:
            raise
        _refuse(f"{os.fsdecode(error.filename)}: cannot be used ({error.strerror}); check the path and its permissions")
    except RuntimeError as error:
        if (message := lost_process(error)) is None:
            raise
        print(f"aevlp: {message}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt as interrupt:
        advice = str(interrupt) or ("the same command again goes on" if argv and argv[0] in GO_ON else "")
        if is_first_process():
            print(f"aevlp: interrupted{advice and '; '}{advice}", file=sys.stderr)
        sys.exit(130)


def _complete(line: str) -> NoReturn:
    """Print the completions of a line of words and exit, as argcomplete does: of commands here, of the rest in `Parser.read`."""
    words = line.split()[: None if line[-1].isspace() else -1]  # without the one that is not finished
    with suppress(UserError):
        if len(words) == 1:
            parser = Parser("", "")
            parser.add_argument("command", choices=list(COMMANDS))
            parser.read([])
        elif words[1] in COMMANDS:
            os.environ[COMPLETING] = "2"  # the line's first word that the command's parser knows
            command(words[1])(words[2:])
    sys.exit(0)


def _refuse(message: str) -> NoReturn:
    """Print what the user can put right, in one line, and exit."""
    message = " ".join(message.split())
    if not is_first_process():
        time.sleep(WAIT)  # the first process mostly says the same, and should say it first
        message = f"process {os.environ['RANK']}: {message}"
    print(f"aevlp: {message}", file=sys.stderr)
    sys.exit(2)
