"""aevlp tune: DAMP's settings for another teacher or another domain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table

from aevlp.cli.arguments import configured
from aevlp.config.recipe import recipe_text
from aevlp.core.errors import UserError
from aevlp.core.files import write_text
from aevlp.core.options import Parser
from aevlp.core.remote import local_path, location
from aevlp.core.tables import next_steps, show
from aevlp.damp.options import DampOptions
from aevlp.data.dataset import Split
from aevlp.data.load import load
from aevlp.sources.damp import Damp
from aevlp.store.location import store_root

if TYPE_CHECKING:
    from aevlp.damp.tuning import Tuning


def tune(argv: Sequence[str]) -> None:
    """Choose the settings of the pseudo-labels for these images and this teacher, without training; write a recipe."""

    def add(parser: Parser) -> None:
        parser.add_argument("data", type=location, metavar="DATA", help="the image set")
        parser.add_argument(
            "--out",
            type=local_path,
            default=Path("tuned.yaml"),
            metavar="FILE.yaml",
            help="the recipe to write (default: tuned.yaml)",
        )

    given, config = configured(
        "tune", tune.__doc__ or "", argv, add, example="aevlp tune photos --teacher my-clip --out tuned.yaml"
    )
    if not config.method.source.has_view_scores:
        raise UserError(f"--method {config.method.name}: has no pseudo-labels of DAMP to tune; use aevlp, or LOSS+damp")
    if config.run.store == "none":
        raise UserError("--store none: settings are chosen from stored views; name a folder")
    if given.out.exists():
        raise UserError(f"--out {given.out}: exists; remove it or choose another name")

    root = store_root(config.run.store)
    data = load(given.data, config.data, root)

    from aevlp.core.engine import make_accelerator

    accelerator = make_accelerator(config.engine)
    assert isinstance(config.source, DampOptions)
    context = config.source_context(data.train, data.classes, root, accelerator, data.val)
    source = Damp(context, replace(config.source, draws=1))  # one draw is enough to tune on
    source.check_teacher()
    source.views.fill()
    tuning = source.tuning()
    remark = "" if data.train.truth is None else _on_training_images(source, tuning, data.train)
    if not accelerator.is_main_process:
        return

    show(_table(tuning, str(given.data)))
    if remark:
        show(remark)
    values = config.as_recipe()
    values["damp"] |= {**asdict(tuning.chosen[0]), "tune": False}
    write_text(given.out, recipe_text(values, f"use it: aevlp train {given.data} --out RUN --recipe {given.out}"))
    show(f"written: {given.out}\n{next_steps(['train', given.data, '--out', 'runs/first', '--recipe', given.out])}")


def _on_training_images(source: Damp, tuning: Tuning, train: Split) -> str:
    """Describe both settings on the training images, whose true labels played no part in the choice."""
    from aevlp.damp.quality import precision_recall

    assert train.truth is not None
    lines = []
    for name, (setting, _) in (("as it was", tuning.before), ("chosen", tuning.chosen)):
        source.take(asdict(setting))
        precision, recall = precision_recall(source.labels(1).numpy() == 1, train.observed, train.truth)
        f1 = 2 * precision * recall / (precision + recall) if precision and recall else 0.0
        lines.append(f"{name}: precision {100 * (precision or 0):.1f}, recall {100 * (recall or 0):.1f}, F1 {100 * f1:.1f}")
    return "on the training images, whose labels are all known here: " + "; ".join(lines)


def _table(tuning: Tuning, title: str) -> Table:
    """Return a table of the best settings at every temperature, the settings before and the chosen ones."""
    basis = {
        "complete": "fully labelled validation images",
        "estimated": "training images, estimated from their observed labels",
    }[tuning.basis]
    columns = ("temperature", "global_threshold", "top_k", "negative_fraction", "precision", "recall", "F0.5", "positives lost")
    table = Table("", *columns, title=f"{escape(title)}: {tuning.images} {basis}; in percent", title_justify="left")
    rows = [("as it was", tuning.before), *(("best at", one) for one in tuning.tried), ("chosen", tuning.chosen)]
    for name, (setting, figures) in rows:
        numbers = (figures.precision, figures.recall, figures.f_half, figures.negatives_wrong)
        style = "bold" if name == "chosen" else None
        table.add_row(name, *(f"{v:g}" for v in asdict(setting).values()), *(f"{100 * v:.1f}" for v in numbers), style=style)
    return table
