"""Out-of-fold probabilities: who judges whom, and what is trained anew."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from accelerate import Accelerator

from aevlp.config.config import build_config
from aevlp.data import prepare, read
from aevlp.inference.completion.folds import out_of_fold
from aevlp.models.classifier import build_classifier
from aevlp.models.model_folder import save_classifier
from aevlp.training.run_folder import RunFolder

SMALL = {"teacher.name": "tests.colours:teacher", "model.image_size": 32, "train.workers": 1, "train.epochs": 3}


class Trainings:
    """Stands in for training: notes what it is told, and leaves a model that says its own number of every image."""

    def __init__(self):
        self.told, self.options = [], []

    def __call__(self, config, data, run, accelerator, **options):
        self.options.append(options)
        classifier = build_classifier(config.model, data.classes, config.run.seed)
        with torch.no_grad():
            for parameter in classifier.head():
                parameter.fill_(0.0 if parameter.dim() > 1 else float(len(self.told)))
        self.told.append(data)
        run.create(config, "aevlp label")
        save_classifier(classifier, run.model)
        run.write_result({"report": config.run.report})
        return {}


@pytest.fixture
def trainings(monkeypatch):
    made = Trainings()
    monkeypatch.setattr("aevlp.inference.completion.folds.train_fold", made)
    return made


@pytest.fixture(scope="module")
def whole(world):
    return prepare(read(world), observe="single")


@pytest.fixture
def judged(whole, backbone, trainings, tmp_path):
    """Out-of-fold probabilities of the world of colours."""

    def judge(folds, data=whole, **values):
        config = build_config("test", "aevlp", {**SMALL, "model.backbone": str(backbone), **values})
        return out_of_fold(config, data, RunFolder(tmp_path / "run"), folds, Accelerator(cpu=True))

    return judge


def judges(found):
    """[N]: the number of the model that judged each image; it said the same of all classes."""
    numbers = np.log(found / (1 - found)).round(3)
    assert (numbers == numbers[:, :1]).all()
    return numbers[:, 0].astype(int)


@pytest.mark.parametrize("folds", [2, 3, 5])
def test_no_image_is_judged_by_a_model_that_was_told_its_labels(whole, judged, trainings, folds):
    on_train, on_val = map(judges, judged(folds))
    assert len(trainings.told) == folds
    told = [set(training.train.names) for training in trainings.told]
    for name, judge in zip(whole.train.names, on_train, strict=True):
        assert name not in told[judge]
        assert all(
            name in names for number, names in enumerate(told) if number != judge
        )  # by one it was not, by all others it was
    sizes = np.bincount(on_train, minlength=folds)
    assert sizes.max() - sizes.min() <= 1
    # Validation images are judged by all models alike, as the training images are, and no model was told of them.
    shares = np.bincount(on_val, minlength=folds)
    assert len(on_val) == len(whole.val.names) == 8
    assert shares.max() - shares.min() <= 1
    assert all(not names & set(whole.val.names) for names in told)


def test_a_training_has_the_labels_of_its_own_images(whole, judged, trainings):
    judged(3)
    labels = dict(zip(whole.train.names, whole.train.observed.tolist(), strict=True))
    for training in trainings.told:
        assert training.train.observed.tolist() == [labels[name] for name in training.train.names]
        assert training.val is whole.val
        assert training.test is None  # no time is spent on it
        assert training.classes == whole.classes


def test_folds_are_not_all_in_order(judged, trainings):
    """Image sets are often sorted by class."""
    on_train, _ = map(judges, judged(2))
    middle = len(on_train) // 2
    assert set(on_train[:middle]) == set(on_train[middle:]) == {0, 1}
    judged(2, seed=1)
    assert set(trainings.told[2].train.names) not in [set(training.train.names) for training in trainings.told[:2]]


def test_more_folds_than_validation_images(judged):
    on_train, on_val = map(judges, judged(9))
    assert set(on_train) == set(range(9))
    assert len(set(on_val)) == 8


def test_what_is_finished_is_not_trained_again(judged, trainings):
    first = judged(2)
    again = judged(2, device="cpu", **{"train.workers": 2, "teacher.batch_size": 7, "store": "elsewhere"})
    assert len(trainings.told) == 2
    assert all(np.array_equal(one, other) for one, other in zip(first, again, strict=True))


def test_other_settings_folds_labels_or_images_are_trained_on_anew(whole, judged, trainings):
    judged(2)
    judged(3)
    assert len(trainings.told) == 5
    judged(2, **{"train.epochs": 2})
    assert len(trainings.told) == 7
    judged(2, **{"damp.temperature": 0.2})
    assert len(trainings.told) == 9
    labels = whole.train.observed.copy()
    labels[0] = 1 - labels[0]
    judged(2, data=replace(whole, train=replace(whole.train, observed=labels)))
    assert len(trainings.told) == 10  # the fold that judges this image was not told of it, and stays
    judged(2, data=replace(whole, train=whole.train.part(np.arange(20))))
    assert len(trainings.told) == 12


def test_an_interrupted_training_is_resumed_and_the_finished_ones_stay(judged, trainings, tmp_path):
    judged(3)
    folders = sorted((tmp_path / "run" / "folds").iterdir())
    assert len(folders) == 3
    (folders[1] / "result.json").unlink()
    judged(3)
    assert [options["resume"] for options in trainings.options] == [False] * 3 + [True]
    assert trainings.told[3].train.names == trainings.told[1].train.names


def test_no_time_is_spent_on_reports(judged, tmp_path):
    judged(2)
    results = [RunFolder(folder).read_result() for folder in (tmp_path / "run" / "folds").iterdir()]
    assert results == [{"report": False}] * 2
