"""An estimate of the work of completing labels."""

from pathlib import Path

from aevlp.config.config import Config
from aevlp.core.engine import make_accelerator
from aevlp.data.load import load
from aevlp.inference.completion.label import predictors
from aevlp.inference.options import LabelOptions
from aevlp.models.model_folder import load_classifier
from aevlp.store.location import store_root
from aevlp.training.estimate import Work, backbone_rate, describe, describe_missing, missing_models, teacher_work
from aevlp.training.run_folder import open_run


def estimate_labelling(config: Config, data_path: Path, options: LabelOptions) -> list[str]:
    """Return an estimate of the work, in lines; nothing is written but the embeddings of a sample, into the store."""
    run = None if options.run is None else open_run(Path(options.run))
    uses_teacher, uses_model = predictors(options.witness, run, config)
    root = store_root(config.run.store)
    data = load(data_path, config.data, root)
    accelerator = make_accelerator(config.engine)
    work: list[Work] = []
    if uses_teacher:
        if models := missing_models(config, backbone=False):
            return [*describe(data, [], root)[:1], describe_missing(models)]
        context = config.source_context(data.train, data.classes, root, accelerator, data.val)
        source = config.method.source.make(context, config.source)
        work += teacher_work(source.views, {"train": data.train, "val": data.val}, {})
    if run is not None and uses_model and config.model.features is None:
        run.require_model()
        images = len(data.train.names) + len(data.val.names)
        classifier = load_classifier(run.model).to(accelerator.device)
        work.append(Work(f"model {run.path}", images, 0, backbone_rate(classifier, data.train, images, learns=False)))
    trainings = [] if options.folds is None else [f"and {options.folds} trainings like that of {options.run}"]
    return [*describe(data, work, root), *trainings]
