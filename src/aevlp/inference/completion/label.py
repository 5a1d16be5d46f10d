"""Label an image set: check what is asked for, complete the labels, write the file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from aevlp.config.config import Config
from aevlp.core.errors import UserError, require
from aevlp.data.load import load
from aevlp.inference.completion.formats import LabelFile, find_format
from aevlp.inference.model_location import require_same_classes
from aevlp.inference.options import LabelOptions
from aevlp.store.location import store_root
from aevlp.training.provenance import has_trained_on
from aevlp.training.run_folder import RunFolder, open_run

if TYPE_CHECKING:
    from aevlp.inference.completion.result import Completion


def label_images(config: Config, data: Path, out: Path, options: LabelOptions) -> Completion:
    """Complete the labels of the image set at `data` and write them to `out`.

    `config` names the teacher and, for `options.folds`, the training of the models. All refusals come before the work.
    """
    run = None if options.run is None else open_run(Path(options.run))
    if run is not None:
        run.require_model()
    uses_teacher, uses_model = predictors(options.witness, run, config)
    if options.folds is not None and not uses_model:
        raise UserError("--folds: trains models like a run's; name the run with --run, and use it (--witness model or both)")
    format = find_format(out, options.out_format)
    format.check_path(out, options.image_prefix)

    dataset = load(data, config.data, store_root(config.run.store))
    images = len(dataset.train.names)
    is_possible = options.folds is None or options.folds <= images
    require(is_possible, "folds", f"at most {images}, the number of training images", options.folds)
    file = LabelFile(out, dataset.train.root, dataset.classes, options.image_prefix)
    format.check(file)

    # These load torch, which takes seconds; whatever is refused above is refused at once.
    from aevlp.core.engine import make_accelerator
    from aevlp.inference.completion.complete import LabelTask, complete
    from aevlp.models.model_folder import model_classes

    if run is not None:
        config = run.tuned(config)
    if run is not None and uses_model:
        require_same_classes(dataset.classes, model_classes(run.model), data, run.path)
    knows_labels = run is not None and uses_model and options.folds is None and has_trained_on(run, dataset)
    accelerator = make_accelerator(config.engine)
    task = LabelTask(config, dataset, run if uses_model else None, knows_labels, uses_teacher, options, out)
    completion = complete(task, accelerator)
    if accelerator.is_main_process:
        format.write(file, completion)
    return completion


def predictors(witness: str | None, run: RunFolder | None, config: Config) -> tuple[bool, bool]:
    """Return whether the teacher is used, and whether a model is."""
    has_teacher = config.method.source.has_view_scores
    if witness is None:
        witness = "teacher" if run is None else "both" if has_teacher else "model"
    if witness != "model" and not has_teacher:
        raise UserError(
            f"--witness {witness}: the method {config.method.name} has no teacher; use --witness model, "
            "or name a recipe that has one (--recipe)"
        )
    if witness != "teacher" and run is None:
        raise UserError(f"--witness {witness}: there is no model to use; name a trained run with --run")
    return witness != "model", witness != "teacher"
