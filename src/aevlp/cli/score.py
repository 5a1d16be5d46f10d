"""aevlp score: fill the store of embeddings."""

from collections.abc import Sequence

from aevlp.cli.arguments import DRY_RUN, configured
from aevlp.core.errors import UserError
from aevlp.core.options import Parser
from aevlp.core.remote import location
from aevlp.core.tables import next_steps, show
from aevlp.data.load import load
from aevlp.store.location import store_root


def score(argv: Sequence[str]) -> None:
    """Let the teacher embed the training and validation images and keep the embeddings (train does so when needed)."""

    def add(parser: Parser) -> None:
        parser.add_argument("data", type=location, metavar="DATA", help="the image set")
        parser.add_argument("--dry-run", action="store_true", help=DRY_RUN)

    given, config = configured("score", score.__doc__ or "", argv, add, example="aevlp score photos --teacher my-clip")
    if not config.method.source.asks_teacher:
        raise UserError(f"--method {config.method.name}: asks no teacher, so there is nothing to score")
    if config.run.store == "none":
        raise UserError("--store none: there is nothing to fill; name a folder")

    root = store_root(config.run.store)
    data = load(given.data, config.data, root)

    from aevlp.core.engine import make_accelerator
    from aevlp.training.estimate import describe, describe_missing, missing_models, teacher_work

    words = [word for word in argv if word != "--dry-run"]
    if given.dry_run and (models := missing_models(config, backbone=False)):
        show("\n".join([*describe(data, [], root)[:1], describe_missing(models), next_steps(["score", *words])]))
        return
    context = config.source_context(data.train, data.classes, root, make_accelerator(config.engine), data.val)
    source = config.method.source.make(context, config.source)
    if given.dry_run:
        work = teacher_work(source.views, {"train": data.train, "val": data.val}, {})
        show("\n".join([*describe(data, work, root), next_steps(["score", *words])]))
        return
    source.fill()
    source.scores(data.val)  # label needs them, and train compares its model with them
    show(f"the teacher's embeddings: {root}\n{next_steps(['train', *words, '--out', 'runs/first'])}")
