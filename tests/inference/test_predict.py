import logging
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from accelerate import Accelerator

from aevlp.core.errors import UserError
from aevlp.inference import predict as module
from aevlp.inference.model_location import locate_model
from aevlp.inference.predict import (
    MOST_WARNINGS,
    PredictionBatch,
    batches_of_process,
    predict_batches,
    write_predictions,
)
from aevlp.inference.prediction_formats import Prediction, PredictionFormat
from aevlp.inference.predictor import TrainedModel, load
from tests.trained_runs import CALIBRATION, write_run


@pytest.fixture(scope="module")
def run(tmp_path_factory, backbone):
    return write_run(tmp_path_factory.mktemp("runs") / "run", backbone)


@pytest.fixture(scope="module")
def model(run) -> TrainedModel:
    return load(run, device="cpu")


@pytest.fixture(scope="module")
def names(world):
    return sorted(map(str, (world / "images").iterdir()))


@pytest.mark.parametrize("count", [0, 1, 5, 6, 7, 12, 13])
@pytest.mark.parametrize("processes", [1, 2, 3])
def test_processes_share_the_names_batch_by_batch(count, processes):
    every = [list(batches_of_process(iter(map(str, range(count))), 2, processes, index)) for index in range(processes)]
    assert len({len(batches) for batches in every}) == 1  # as many rounds for each
    in_order = [name for together in zip(*every, strict=True) for batch in together for name in batch]
    assert in_order == list(map(str, range(count)))
    assert all(len(batch) <= 2 for batches in every for batch in batches)


def test_predictions_are_those_of_the_model_in_the_order_of_the_names(model, names):
    found = [one for batch in predict_batches(model, names, Accelerator(cpu=True), batch_size=5) for one in batch.predictions]
    assert [one.image for one in found] == names
    assert [dict(zip(model.classes, one.probabilities, strict=True)) for one in found] == model.predict(names, batch_size=5)
    assert [one.labels for one in found] == model.labels(names, batch_size=5)
    assert len({len(one.labels or []) for one in found}) > 1


def test_labels_are_decided_before_probabilities_are_calibrated(model, names):
    plain, calibrated = (
        [one for batch in predict_batches(model, names, Accelerator(cpu=True), calibrated=c) for one in batch.predictions]
        for c in (False, True)
    )
    assert [one.labels for one in calibrated] == [one.labels for one in plain]
    raw, shown = (np.array([one.probabilities for one in found]) for found in (plain, calibrated))
    np.testing.assert_allclose(shown, CALIBRATION(raw), rtol=1e-4)
    assert ((raw >= 0.5) != (shown >= 0.5)).any()  # else it would not show


def test_without_thresholds_there_are_no_labels(tmp_path, backbone, names):
    model = load(write_run(tmp_path / "run", backbone, above=None), device="cpu")
    found = [one for batch in predict_batches(model, names[:3], Accelerator(cpu=True)) for one in batch.predictions]
    assert [one.labels for one in found] == [None] * 3


def test_what_cannot_be_read_is_told_by_the_name_that_was_given(model, names, tmp_path):
    (tmp_path / "broken.jpg").write_bytes(b"")
    given = [names[0], str(tmp_path / "broken.jpg"), "./nowhere.png", names[1]]
    batches = list(predict_batches(model, given, Accelerator(cpu=True), batch_size=2))
    assert [one.image for batch in batches for one in batch.predictions] == [names[0], names[1]]
    assert [bad for batch in batches for bad in batch.bad] == [(given[1], "an empty file"), (given[2], "no such file")]


@pytest.mark.parametrize("is_first", [True, False])
def test_what_several_processes_found_is_put_in_order_even_if_one_sees_less(model, names, monkeypatch, is_first):
    """Two processes of which the other one has already met the end of its names."""
    other = iter([PredictionBatch([Prediction("other", [], [])], [])])
    monkeypatch.setattr(module, "gather_object", lambda mine: [*mine, next(other, None)])
    both = SimpleNamespace(num_processes=2, process_index=0, is_main_process=is_first)
    found = [one.image for batch in predict_batches(model, names[:6], both, batch_size=2) for one in batch.predictions]
    assert found == ([names[0], names[1], "other", names[4], names[5]] if is_first else [])


def write(stream) -> tuple[str, int, list[int]]:
    text: list[str] = []
    steps: list[int] = []
    layout = PredictionFormat("head\n", lambda prediction: f"{prediction.image}\n")
    done = write_predictions(stream, layout, text.append, steps.append)
    return "".join(text), done, steps


def test_predictions_are_written_as_they_come_with_the_progress():
    made = (PredictionBatch([Prediction(name, [], []) for name in names], []) for names in ("ab", "c"))
    assert write(made) == ("head\na\nb\nc\n", 3, [2, 1])


def test_the_first_bad_images_are_named_and_all_are_counted(caplog):
    caplog.set_level(logging.WARNING, logger="aevlp")
    bad = [(f"{number}.jpg", "an empty file") for number in range(MOST_WARNINGS + 5)]
    text, done, steps = write([PredictionBatch([Prediction("a", [], [])], bad[:3]), PredictionBatch([], bad[3:])])
    assert (text, done, sum(steps)) == ("head\na\n", 1, len(bad) + 1)
    lines = [record.getMessage() for record in caplog.records]
    assert lines[0] == "0.jpg: an empty file; left out"
    assert len(lines) == MOST_WARNINGS + 2
    assert lines[-2] == "more images cannot be read; from here on they are only counted"
    assert lines[-1] == f"{len(bad)} of {len(bad) + 1} images could not be read and were left out"


def test_a_stream_without_any_prediction_is_refused(caplog):
    with pytest.raises(UserError, match=r"^no image to label: none of the 2 images could be read$"):
        write([PredictionBatch([], [("a", "an empty file"), ("b", "an empty file")])])
    with pytest.raises(UserError, match=r"^no image to label: standard input named none, or the images are gone$"):
        write([])


def test_a_model_that_is_half_there_is_refused(run, tmp_path):
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(UserError, match=r"no trained model here \(model\.safetensors is missing\)"):
        TrainedModel(locate_model(tmp_path), device=torch.device("cpu"), precision="fp32")
