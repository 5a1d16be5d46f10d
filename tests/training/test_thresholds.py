import json
import math
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aevlp.config.run_options import Aim, ThresholdOptions
from aevlp.core.errors import UserError
from aevlp.core.files import write_json
from aevlp.data.regression import sigmoid
from aevlp.training.thresholds import Thresholds, as_json, fit_thresholds, read_thresholds, threshold

AIMS: tuple[Aim, ...] = ("f1", "precision", "count")


def merit(values, mass, cut, aim, precision):
    """How well a threshold serves an aim, from lists; a tuple, so that reaching the precision comes first."""
    given = [m for v, m in zip(values, mass, strict=True) if v >= cut]
    hits, there = min(sum(given), len(given)), sum(mass)
    if aim == "f1":
        return (2 * hits / (len(given) + there),)
    if aim == "count":
        return (-abs(len(given) - there),)
    reached = hits >= precision * len(given) - 1e-9
    return (1, len(given)) if reached else (0, hits / len(given))


def naive(values, mass, aim, precision):
    """The value from which on labels are given: the highest of the best."""
    return max(sorted(set(values), reverse=True), key=lambda cut: merit(values, mass, cut, aim, precision))


def halfway(values, cut):
    return (cut + max([v for v in values if v < cut], default=0.0)) / 2


@settings(deadline=None, max_examples=200)
@given(
    cells=st.lists(
        st.tuples(st.sampled_from([0.0, 0.125, 0.25, 0.375, 0.5, 0.75, 1.0]), st.sampled_from([0.0, 0.0, 0.0, 1.0, 2.5])),
        min_size=1,
        max_size=25,
    ),
    aim=st.sampled_from(AIMS),
    precision=st.sampled_from([0.25, 0.5, 0.9, 1.0]),
)
def test_thresholds_are_those_of_a_loop_over_all_of_them(cells, aim, precision):
    """Few values, so that equal ones are common; masses of observed labels too."""
    values, mass = zip(*cells, strict=True)
    found = threshold(np.array(values), np.array(mass), aim, precision)
    cut = naive(values, mass, aim, precision)
    assert merit(values, mass, found, aim, precision) == merit(values, mass, cut, aim, precision)
    assert found == pytest.approx(halfway(values, cut))


@pytest.mark.parametrize("aim", AIMS)
def test_they_are_the_same_for_many_different_values(aim):
    rng = np.random.default_rng(0)
    mass = (rng.random(300) < 0.3).astype(float)
    values = sigmoid(rng.normal(size=300) + 2 * mass - 2)
    cut = naive(values.tolist(), mass.tolist(), aim, 0.8)
    assert threshold(values, mass, aim, 0.8) == pytest.approx(halfway(values.tolist(), cut))
    assert 10 < (values >= cut).sum() < 250  # neither end of the list: the figure means something


def test_a_precision_that_cannot_be_reached_gives_the_highest_that_can():
    values, mass = np.array([0.9, 0.8, 0.7, 0.6, 0.5]), np.array([0.0, 1, 1, 0, 0])
    assert threshold(values, mass, "precision", 0.9) == pytest.approx(0.65)  # two of three


def test_equal_probabilities_are_all_given_or_none():
    values = np.full(6, 0.4)
    for aim in AIMS:
        assert threshold(values, np.array([1.0, 0, 0, 0, 0, 0]), aim) == pytest.approx(0.2)


NAMES = ["a", "b", "c"]


def set_of(images=400, classes=3, seed=0, apart=3.0):
    """(probabilities, truth) [N, C]; the classes are of different difficulty and frequency, no image has none."""
    rng = np.random.default_rng(seed)
    there = rng.random((images, classes)) < np.linspace(0.2, 0.5, classes)
    there[np.arange(images), rng.integers(classes, size=images)] = True
    z = rng.normal(size=there.shape) + apart * there + np.linspace(-3, -1, classes)
    return sigmoid(z).astype(np.float32), np.where(there, 1, -1).astype(np.int8)


def classes_of(fitted: Thresholds) -> np.ndarray:
    return np.array(list(fitted.classes.values()))


@pytest.mark.parametrize("aim", AIMS)
def test_without_shrinking_every_class_has_its_own_and_with_much_of_it_all_have_one(aim):
    p, truth = set_of()
    options = ThresholdOptions(aim=aim, precision=0.8, shrinkage=0)
    own = fit_thresholds(p, truth, NAMES, options, is_complete=True)
    for c, name in enumerate(NAMES):
        assert own.classes[name] == pytest.approx(threshold(p[:, c], (truth[:, c] == 1).astype(float), aim, 0.8), rel=1e-9)
    assert own.overall == pytest.approx(threshold(p.ravel(), (truth.ravel() == 1).astype(float), aim, 0.8))
    assert np.ptp(classes_of(own)) > 0.05
    one = fit_thresholds(p, truth, NAMES, replace(options, shrinkage=1e12), is_complete=True)
    assert classes_of(one) == pytest.approx(one.overall, rel=1e-6)
    assert one.overall == own.overall
    assert own.precision == (0.8 if aim == "precision" else None)


def test_a_class_with_as_many_examples_as_the_shrinkage_is_half_way():
    p, truth = set_of()
    count = int((truth[:, 1] == 1).sum())
    own, half = (
        fit_thresholds(p, truth, NAMES, ThresholdOptions(shrinkage=s), is_complete=True).classes["b"] for s in (0, count)
    )
    overall = fit_thresholds(p, truth, NAMES, ThresholdOptions(), is_complete=True).overall

    def odds(x):
        return x / (1 - x)

    assert odds(half) == pytest.approx(math.sqrt(odds(own) * odds(overall)), rel=1e-6)


@pytest.mark.parametrize("is_complete", [True, False])
@pytest.mark.parametrize("shrinkage", [0, 10])
def test_a_class_without_positives_has_the_threshold_of_all(is_complete, shrinkage):
    p, truth = set_of(60)
    truth[:, 2] = -1
    labels = truth if is_complete else np.maximum(truth, 0)
    fitted = fit_thresholds(p, labels, NAMES, ThresholdOptions(shrinkage=shrinkage), is_complete=is_complete)
    assert fitted.classes["c"] == pytest.approx(fitted.overall, rel=1e-9)


@pytest.mark.parametrize("aim", AIMS)
@pytest.mark.parametrize("shape", [(1, 1), (1, 3), (4, 1), (5, 3)])
@pytest.mark.parametrize("value", [-1, 0, 1])
def test_any_labels_give_thresholds(aim, shape, value):
    """One image, one class, no positive, nothing known, nothing but positives, equal probabilities."""
    for p in (np.full(shape, 0.3, np.float32), np.random.default_rng(0).random(shape).astype(np.float32)):
        labels = np.full(shape, value, np.int8)
        if aim == "precision" and value == 0:
            aim = "f1"  # a precision takes complete labels
        fitted = fit_thresholds(p, labels, NAMES[: shape[1]], ThresholdOptions(aim=aim), is_complete=value != 0)
        assert ((classes_of(fitted) > 0) & (classes_of(fitted) < 1)).all()
        assert math.isfinite(fitted.positives)
        if value == 1:
            assert fitted.above(p).all()


def test_what_is_said_of_thresholds_fits_what_they_were_fitted_on():
    p, truth = set_of()
    fitted = fit_thresholds(p, truth, NAMES, ThresholdOptions(), is_complete=True, split="test")
    assert (fitted.aim, fitted.basis, fitted.split, fitted.images) == ("f1", "complete", "test", 400)
    assert fitted.positives == pytest.approx((truth == 1).sum(1).mean())
    assert fitted.calibration is not None
    assert fitted.above(p).tolist() == [[bool(v >= t) for v, t in zip(row, classes_of(fitted), strict=True)] for row in p]


def test_complete_labels_that_are_not_known_to_be_complete_are_the_same_where_none_is_unknown():
    p, truth = set_of()
    known, estimated = (fit_thresholds(p, truth, NAMES, ThresholdOptions(), is_complete=c) for c in (True, False))
    assert estimated.classes == known.classes
    assert estimated.positives == known.positives
    assert (estimated.basis, estimated.calibration) == ("estimated", None)


def single(truth, seed=1):
    """One of each image's positives, drawn with equal chances."""
    rng = np.random.default_rng(seed)
    observed = np.zeros_like(truth)
    for row, labels in enumerate(truth):
        observed[row, rng.choice(np.flatnonzero(labels == 1))] = 1
    return observed


def macro_f1(p, truth, cuts):
    given, there = p >= cuts, truth == 1
    return float((2 * (given & there).sum(0) / (given.sum(0) + there.sum(0))).mean())


def odds_apart(one, other) -> float:
    """The largest distance of thresholds, in logits."""
    return float(abs(np.log(one / (1 - one)) - np.log(other / (1 - other))).max())


def test_a_precision_is_no_aim_where_it_cannot_be_measured():
    p, truth = set_of(50)
    with pytest.raises(UserError, match=r"^--thresholds\.aim precision: the labels of the validation images are incomplete, so"):
        fit_thresholds(p, single(truth), NAMES, ThresholdOptions(aim="precision"), is_complete=False)


def test_the_measured_precision_holds_on_other_images():
    """Nine of ten intervals do; here at least eight."""
    options, held = ThresholdOptions(aim="precision", precision=0.8), []
    for seed in range(40):
        p, truth = set_of(500, seed=seed)
        fitted = fit_thresholds(p[:100], truth[:100], NAMES, options, is_complete=True)
        given = fitted.above(p[100:])
        true = (given & (truth[100:] == 1)).sum() / given.sum()
        assert fitted.measured_precision is not None
        held.append(fitted.measured_precision.low <= true <= fitted.measured_precision.high)
    assert np.mean(held) >= 0.8


@pytest.mark.parametrize("aim", ["f1", "count"])
def test_single_positives_lead_to_the_thresholds_of_complete_labels(aim):
    p, truth = set_of(6000, apart=2.5)
    options, observed = ThresholdOptions(aim=aim), single(truth)
    wanted = fit_thresholds(p, truth, NAMES, options, is_complete=True)
    found = fit_thresholds(p, observed, NAMES, options, is_complete=False)
    taken_for_absent = np.where(observed == 1, 1, -1).astype(np.int8)
    naive = fit_thresholds(p, taken_for_absent, NAMES, options, is_complete=True)
    assert found.basis == "estimated"
    assert found.positives == pytest.approx(wanted.positives, rel=0.1)
    if aim == "f1":  # many thresholds are nearly as good
        best, reached, missed = (macro_f1(p, truth, classes_of(fitted)) for fitted in (wanted, found, naive))
        assert best - reached < 0.003
        assert best - missed > 0.006
    else:
        assert odds_apart(classes_of(found), classes_of(wanted)) < 0.7
        assert odds_apart(classes_of(naive), classes_of(wanted)) > 1


def test_images_without_any_label_change_nothing():
    p, truth = set_of(600)
    observed = single(truth)
    known = fit_thresholds(p[:300], observed[:300], NAMES, ThresholdOptions(), is_complete=False)
    observed[300:] = 0
    mixed = fit_thresholds(p, observed, NAMES, ThresholdOptions(), is_complete=False)
    assert mixed == known


def test_expected_positives_are_counted_on_where_labels_are_incomplete():
    p, truth = set_of(2000, apart=1.0)  # hard to tell apart: what is found is far more than there is
    said = float((truth == 1).sum(1).mean())
    wanted = fit_thresholds(p, truth, NAMES, ThresholdOptions(aim="count"), is_complete=True)
    alone, told = (
        fit_thresholds(p, single(truth), NAMES, ThresholdOptions(aim="count"), is_complete=False, expected_positives=e)
        for e in (None, said)
    )
    assert told.positives == pytest.approx(said)
    assert odds_apart(classes_of(told), classes_of(wanted)) < odds_apart(classes_of(alone), classes_of(wanted))
    complete = fit_thresholds(p, truth, NAMES, ThresholdOptions(aim="count"), is_complete=True, expected_positives=99.0)
    assert complete == wanted


def some_thresholds() -> Thresholds:
    p, truth = set_of(50)
    return fit_thresholds(p, truth, NAMES, ThresholdOptions(), is_complete=True)


@pytest.fixture(params=[True, False])
def fitted(request):
    p, truth = set_of(50)
    aim = ThresholdOptions(aim="precision" if request.param else "f1")
    return fit_thresholds(p, truth, ["a", "b's", "é\udce9"], aim, is_complete=request.param)


def test_thresholds_come_back_from_their_file(fitted, tmp_path):
    file = tmp_path / "thresholds.json"
    write_json(file, as_json(fitted))
    assert read_thresholds(file, ["a", "b's", "é\udce9"]) == fitted
    assert json.loads(file.read_bytes().decode(errors="surrogateescape"))["format"] == 1


def test_a_file_of_a_newer_version_is_refused(fitted, tmp_path):
    file = tmp_path / "thresholds.json"
    write_json(file, {**as_json(fitted), "format": 2, "new": True})
    with pytest.raises(UserError, match=r"thresholds\.json: written by a newer aevlp \(format 2, this one knows 1\); update"):
        read_thresholds(file, list(fitted.classes))


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text[: len(text) // 2],
        lambda text: "",
        lambda text: "7",
        lambda text: "[]",
        lambda text: "\udcff" + text,
        lambda text: text.replace('"format": 1', '"format": "one"'),
        lambda text: text.replace('"format": 1,', ""),
        lambda text: text.replace('"overall"', '"other"'),
        lambda text: text.replace('"slope"', '"steepness"'),
        lambda text: json.dumps({**json.loads(text), "classes": ["a", "b", "c"]}),
        lambda text: json.dumps({**json.loads(text), "classes": {"a": "much", "b": 0, "c": 0}}),
        *(
            lambda text, value=value: json.dumps({**json.loads(text), "classes": {"a": value, "b": 0, "c": 0}})
            for value in (math.nan, math.inf, -1, 5, True, None)
        ),
        lambda text: json.dumps({**json.loads(text), "overall": math.nan}),
        lambda text: json.dumps({**json.loads(text), "images": "many"}),
        lambda text: json.dumps({**json.loads(text), "precision": {}}),
        lambda text: re.sub('"slope": [^,]*', '"slope": NaN', text),
        lambda text: re.sub('"slope": [^,]*', '"slope": -1', text),
        lambda text: re.sub('"offset": [^,]*', '"offset": Infinity', text),
        lambda text: "[" * 100_000,
    ],
)
def test_a_damaged_file_is_refused_with_the_command_that_mends_it(tmp_path, change):
    file = tmp_path / "thresholds.json"
    whole = as_json(some_thresholds())
    file.write_bytes(change(json.dumps(whole)).encode(errors="surrogateescape"))
    with pytest.raises(UserError) as caught:
        read_thresholds(file, NAMES)
    assert str(caught.value).startswith(f"{file}: not a file of thresholds (")
    assert str(caught.value).endswith(f"; make it anew with aevlp thresholds {tmp_path} DATA")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("classes", [["a", "c", "b"], ["a", "b"], ["a", "b", "d"]])
def test_thresholds_of_other_classes_are_refused(tmp_path, classes):
    file = tmp_path / "thresholds.json"
    write_json(file, as_json(some_thresholds()))
    with pytest.raises(UserError, match=r"its classes are not the model's; make it anew with aevlp thresholds .* DATA"):
        read_thresholds(file, classes)


def test_a_run_without_thresholds_says_how_to_make_them(tmp_path):
    with pytest.raises(UserError, match=r"the run has no thresholds yet; make them with aevlp thresholds .* DATA"):
        read_thresholds(tmp_path / "thresholds.json", NAMES)
