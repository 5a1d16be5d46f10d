"""aevlp review: the page on which people answer about proposed labels."""

from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from aevlp.cli.arguments import configured, options_from
from aevlp.config.config import Config
from aevlp.core.errors import UserError
from aevlp.core.options import Parser, options_of
from aevlp.core.remote import location
from aevlp.data.answers import AnswerStore, answers_file
from aevlp.data.load import NO_ANSWERS
from aevlp.data.readers import read
from aevlp.inference.options import ReviewOptions
from aevlp.inference.review.session import ReviewSession
from aevlp.inference.serve.server import listening_socket, signals_end_well
from aevlp.training.run_folder import RunFolder, open_run

PACKAGES = ("fastapi", "uvicorn")  # of the extra `serve`


def review(argv: Sequence[str]) -> None:
    """Review proposed labels with other people on a local page: by class, by image, and by an audit."""
    if missing := [package for package in PACKAGES if find_spec(package) is None]:
        raise UserError(f"aevlp review needs {', '.join(missing)}; install what is missing with pip install 'aevlp[review]'")
    given, config = _parsed(argv)
    run = RunFolder(given.data)
    if given.recipe is None and run.config.is_file():
        given, config = _parsed(["--recipe", str(run.config), *argv])  # its teacher is the one to show
        config = run.tuned(config)
    options = options_from(given, ReviewOptions)
    data, answers = _reviewed(given.data, config.data.answers)
    table = read(data, config.data.format, config.data.columns)
    with listening_socket(options.host, options.port) as listener, signals_end_well():
        from aevlp.inference.review.app import access_for, serve_review, start_of
        from aevlp.inference.review.tiles import TeacherTiles

        access_for(listener, options)  # refused before the file of answers is made
        start = start_of(table, getattr(given, "class"), given.image)
        session = ReviewSession(
            table, AnswerStore(answers), grid=options.grid, audit=options.audit, precision=options.min_precision
        )
        serve_review(session, TeacherTiles(config, table), listener, options, start)


def _parsed(argv: Sequence[str]) -> tuple[Namespace, Config]:
    def add(parser: Parser) -> None:
        parser.add_argument("data", type=location, metavar="DATA|FILE|RUN", help="an image set, a file of aevlp label, or a run")
        parser.add_argument("--class", metavar="NAME", help="begin with the proposals of this class (default: the queue decides)")
        parser.add_argument("--image", metavar="PATH", help="begin with this training image (default: none)")
        for option in options_of("", ReviewOptions):
            # An address or a password is never null.
            parser.add_option(replace(option, kind=str) if option.key in ("host", "token") else option)

    return configured("review", review.__doc__ or "", argv, add, example="aevlp review completed.jsonl")


def _reviewed(given: Path, answers: str | None) -> tuple[Path, Path]:
    """Return the image set to review, and the file of its answers. Those about a run's labels lie with the run's image set."""
    if answers == NO_ANSWERS:
        raise UserError("--answers none: a review needs a place for its answers; name a file, or leave the option out")
    data, home = given, given
    if RunFolder(given).config.is_file():
        result = open_run(given).read_result()
        if result is None:
            raise UserError(f"{given}: this run is not finished; continue it with aevlp train DATA --out {given} --resume")
        home, data = location(result["data"]), RunFolder(given).completed
        if not data.is_file():
            raise UserError(f"{given}: no {data.name} to review; make it with aevlp label {home} --run {given} --out {data}")
    return data, answers_file(home) if answers is None else Path(answers)
