"""aevlp merge: join answers of several people and tools."""

from collections.abc import Sequence
from dataclasses import replace

from aevlp.core.options import Parser, options_of
from aevlp.core.remote import local_path, location
from aevlp.core.tables import show
from aevlp.data.load import DataOptions
from aevlp.inference.completion.formats import LABEL_FORMATS
from aevlp.inference.completion.merge import merge_labels
from aevlp.inference.options import LabelOptions

OPTIONS = ("data.format", "data.answers")


def merge(argv: Sequence[str]) -> None:
    """Join answers of several people and tools about an image set; contradictions are listed, and nothing decides them."""
    parser = Parser("merge", merge.__doc__ or "", "aevlp merge photos answers.sqlite tasks.json --out merged.jsonl")
    parser.add_argument("data", type=location, metavar="DATA", help="the image set")
    answers = "answers.sqlite of aevlp review, or a file of labels that people have changed"
    parser.add_argument("answers", type=local_path, nargs="+", metavar="ANSWERS", help=answers)
    parser.add_argument("--out", type=local_path, required=True, metavar="FILE", help="the file to write")
    own = [option for option in options_of("", LabelOptions) if option.key == "out_format"]
    for option in own:
        parser.add_option(replace(option, help=f"{option.help} One of {', '.join(LABEL_FORMATS)}."))
    data_options = [option for option in options_of("data", DataOptions) if option.key in OPTIONS]
    for option in data_options:
        parser.add_option(option)
    given = vars(parser.read(argv))
    options = DataOptions(**{option.key.removeprefix("data."): given.get(option.key, option.default) for option in data_options})
    done = merge_labels(given["data"], given["answers"], given["out"], out_format=given.get("out_format"), options=options)
    show(done.summary())
