"""Tables of all methods, made from the registries: for the terminal, and as a page of the documentation."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.markup import escape
from rich.table import Table

from aevlp.config.defaults import settings, with_defaults
from aevlp.config.methods import METHODS, Method
from aevlp.config.run_options import options_for, own_options
from aevlp.core.options import Option, options_of, show_value
from aevlp.losses import LOSSES
from aevlp.models.heads import HEADS
from aevlp.sources import SOURCES

HEADER = ("method", "what it is", "its own options", "paper")
PAGE = """\
# Methods

<!-- made by: aevlp methods --markdown > docs/methods.md -->

A method is a loss, a source of labels that the loss reads beside the observed ones, and a head.
`aevlp train DATA --out RUN --method NAME` trains one, `aevlp compare DATA --out DIR --methods A,B,..` several on equal terms.
`zero-shot` and `zero-shot-views` train nothing: with fitted thresholds, the teacher's scores stand in for a classifier.
Their whole image is that of DAMP's draws, mirrored or weakly augmented unless `--damp.augment false`.
Defaults are those of the recipe `{recipe}`; an option of another method is refused.
How to add one: [add-a-method.md](add-a-method.md).

{methods}

## Any source with any loss

`LOSS+SOURCE` is a method too, where the loss reads what the source yields: `gpr+random`, `bce+damp`, `vlpl+ll-ct`.
`HEAD+METHOD` puts another head on the backbone: `boostlu+ll-r`, `boostlu+aevlp`, `latent+gr`.

{losses}

{sources}

{heads}

In every method a confirmed negative label costs `-log(1-p)` with weight 1, and an image may have any number of confirmed labels.
A model with a head of its own (`boostlu`, `mime`) loads through aevlp only, not through plain `transformers`.
"""


def method_table(methods: Sequence[Method], values: Mapping[str, Any], protocol: str) -> Table:
    """Return a table of methods with their options under a recipe's `values`."""
    reading = [loss.name for loss in LOSSES.values() if loss.reads == "pseudo"]
    yielding = [kind.name for kind in SOURCES.values() if kind.yields == "pseudo"]
    caption = f"also LOSS+SOURCE, of {', '.join(reading)} and {', '.join(yielding)}; and HEAD+METHOD, of {', '.join(HEADS)}"
    table = Table(*HEADER, show_lines=True, caption=caption, caption_justify="left")
    for cells in _rows(methods, values, protocol):
        table.add_row(*map(escape, cells))
    return table


def page(recipe: str, values: Mapping[str, Any]) -> str:
    """Return the page of all methods, losses, sources and heads, as Markdown."""
    readers = [(f"`{loss.name}`", loss.summary, loss.reads or "") for loss in LOSSES.values() if loss.reads]
    sources = [
        (f"`{kind.name}`", kind.summary, kind.yields, _shown(options_of(kind.name, kind.options))) for kind in SOURCES.values()
    ]
    heads = [(f"`{kind.name}`", kind.summary, _shown(options_of(kind.name, kind.options))) for kind in HEADS.values()]
    listed = [(f"`{name}`", *rest) for name, *rest in _rows(list(METHODS.values()), values, "common")]
    return PAGE.format(
        recipe=recipe,
        methods=_markdown(HEADER, listed),
        losses=_markdown(("loss", "what it is", "reads"), readers),
        sources=_markdown(("source", "what it is", "yields", "options"), sources),
        heads=_markdown(("head", "what it is", "options"), heads),
    )


def _rows(methods: Sequence[Method], values: Mapping[str, Any], protocol: str) -> list[tuple[str, str, str, str]]:
    return [
        (
            method.name,
            method.summary if method.parts == method.name else f"{method.summary} ({method.parts})",
            _shown(_defaults(method, values, protocol)),
            method.paper or "-",
        )
        for method in methods
    ]


def _defaults(method: Method, values: Mapping[str, Any], protocol: str) -> list[Option]:
    """Return the method's own options, and those that the protocol sets for it, with the recipe's values."""
    usual, now = settings(values, method.name, "common"), settings(values, method.name, protocol)
    own = own_options(method)
    changed = [option for option in options_for(method) if option not in own and now.get(option.key) != usual.get(option.key)]
    return with_defaults([*own, *changed], now)


def _shown(options: Iterable[Option]) -> str:
    return ", ".join(f"{option.key} {show_value(option.default)}" for option in options) or "-"


def _markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
