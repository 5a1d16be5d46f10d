"""aevlp label: complete the labels of an image set."""

from collections.abc import Sequence
from dataclasses import replace

from aevlp.cli.arguments import DRY_RUN, configured, options_from
from aevlp.core.options import Option, Parser, options_of
from aevlp.core.remote import local_path, location
from aevlp.core.tables import next_steps, show
from aevlp.inference.completion.formats import LABEL_FORMATS
from aevlp.inference.completion.label import label_images
from aevlp.inference.options import LabelOptions


def label(argv: Sequence[str]) -> None:
    """Complete the labels of an image set: the observed ones, the proposed ones, and how sure each proposal is."""

    def add(parser: Parser) -> None:
        parser.add_argument("data", type=location, metavar="DATA", help="the image set")
        parser.add_argument(
            "--out", type=local_path, required=True, metavar="FILE", help="the file to write; for parquet, a folder"
        )
        parser.add_argument("--dry-run", action="store_true", help=DRY_RUN)
        for option in options_of("", LabelOptions):
            parser.add_option(_described(option))

    example = "aevlp label photos --out photos/completed.jsonl"
    given, config = configured("label", label.__doc__ or "", argv, add, example=example, takes_run=True)
    if given.dry_run:
        from aevlp.inference.completion.estimate import estimate_labelling

        show("\n".join(estimate_labelling(config, given.data, options_from(given, LabelOptions))))
        show(next_steps(["label", *(word for word in argv if word != "--dry-run")]))
        return
    show(label_images(config, given.data, given.out, options_from(given, LabelOptions)).summary())


def _described(option: Option) -> Option:
    """Return the option as the command line shows and reads it."""
    if option.key == "out_format":
        formats = "; ".join(f"{name}: {format.summary}" for name, format in LABEL_FORMATS.items())
        return replace(option, help=f"{option.help} {formats}")
    return replace(option, kind=str) if option.key == "image_prefix" else option  # an empty prefix is not null
