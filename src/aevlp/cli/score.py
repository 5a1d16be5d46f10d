"""aevlp score: fill the store of embeddings."""

from collections.abc import Sequence
from pathlib import Path

from aevlp.cli.arguments import configured
from aevlp.core.errors import UserError
from aevlp.core.options import Parser
from aevlp.core.tables import next_steps, show
from aevlp.data.load import load
from aevlp.store.location import store_root


def score(argv: Sequence[str]) -> None:
    """Let the teacher embed the training and validation images and keep the embeddings (train does it by itself when needed)."""

    def add(parser: Parser) -> None:
        parser.add_argument("data", type=Path, metavar="DATA", help="the image set")

    given, config = configured("score", score.__doc__ or "", argv, add, example="aevlp score photos --teacher demo")
    if not config.method.source.asks_teacher:
        raise UserError(f"--method {config.method.name}: asks no teacher, so there is nothing to score")
    if config.run.store == "none":
        raise UserError("--store none: there is nothing to fill; name a folder")

    root = store_root(config.run.store)
    data = load(given.data, config.data, root)

    from aevlp.core.engine import make_accelerator

    context = config.source_context(data.train, data.classes, root, make_accelerator(config.engine), data.val)
    source = config.method.source.make(context, config.source)
    source.fill()
    source.scores(data.val)  # label needs them, and train compares its model with them
    show(f"the teacher's embeddings: {root}\n{next_steps(['train', *argv, '--out', 'runs/first'])}")
