"""aevlp check: what was understood of an image set."""

from collections.abc import Sequence

from aevlp.core.errors import UserError
from aevlp.core.options import Parser, options_of
from aevlp.core.remote import location
from aevlp.core.tables import next_steps, show
from aevlp.data.answers import completed_file
from aevlp.data.load import DataOptions


def check(argv: Sequence[str]) -> None:
    """Say what was understood of an image set, and what is wrong with it."""
    parser = Parser("check", check.__doc__ or "", "aevlp check photos")
    parser.add_argument("data", type=location, metavar="DATA", help="the image set")
    data_options = [option for option in options_of("data", DataOptions) if option.key != "data.bad_images"]
    for option in data_options:
        parser.add_option(option)
    given = vars(parser.read(argv))

    from aevlp.data.check import render, report_on

    path, values = given["data"], {o.key.removeprefix("data."): given.get(o.key, o.default) for o in data_options}
    report = report_on(path, DataOptions(**values))
    show(render(report))
    if report.problems:
        raise UserError(f"{path}: {'; '.join(report.problems)}")
    has_labels = any(report.examples.values())
    options = [word for word in argv if word != str(path)]
    command = ["train", path, "--out", "runs/first"] if has_labels else ["label", path, "--out", completed_file(path)]
    show(next_steps([*command, *options]))
