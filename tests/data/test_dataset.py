from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from aevlp.core.errors import UserError
from aevlp.data import Dataset, ImageTable, Split, prepare
from aevlp.data.annotations import WHOLE_IMAGE, Annotations, Answer, ScoredCells
from aevlp.data.dataset import Labels, require_examples, single_positives

ROOT = Path("root")


def table(labels: Labels, splits: tuple[str, ...] | None = None) -> ImageTable:
    names = tuple(f"{i}.png" for i in range(len(labels)))
    classes = tuple("abcdefgh"[: labels.shape[1]])
    return ImageTable(ROOT, names, classes, labels, splits or ("train",) * len(labels), "table")


def random_labels(rows: int, values: tuple[int, ...] = (0, 1), seed: int = 0) -> Labels:
    return np.random.RandomState(seed).choice(values, (rows, 4)).astype(np.int8)


def rows(split: Split) -> list[int]:
    return [int(name.removesuffix(".png")) for name in split.names]


def image_table(labels: np.ndarray, splits: tuple[str, ...] = ("train", "test")) -> ImageTable:
    return ImageTable(Path("root"), ("a/1.png", "2.png"), ("x", "y", "z"), labels, splits, "table")


def test_paths_are_under_the_root() -> None:
    assert list(image_table(np.zeros((2, 3), np.int8)).paths) == [Path("root/a/1.png"), Path("root/2.png")]


def test_a_reader_cannot_return_something_else() -> None:
    with pytest.raises(ValueError, match=r"labels must be int8\[2, 3\]"):
        image_table(np.zeros((2, 3)))
    with pytest.raises(ValueError, match=r"labels must be int8\[2, 3\]"):
        image_table(np.zeros((3, 2), np.int8))
    with pytest.raises(ValueError, match="splits must name one of"):
        image_table(np.zeros((2, 3), np.int8), ("train", "valid"))
    with pytest.raises(ValueError, match="splits must name one of"):
        image_table(np.zeros((2, 3), np.int8), ("train",))


def test_the_truth_has_the_shape_of_the_labels() -> None:
    labels = np.zeros((2, 3), np.int8)
    with pytest.raises(ValueError, match=r"truth must be int8\[2, 3\]"):
        ImageTable(Path("root"), ("a", "b"), ("x", "y", "z"), labels, ("train", "test"), "table", truth=labels[:1])


def test_a_fifth_is_held_out_by_the_standard_rule() -> None:
    data = prepare(table(random_labels(53)))
    order = np.random.RandomState(1200).permutation(53).tolist()
    assert rows(data.train) == sorted(order[:42])
    assert rows(data.val) == sorted(order[42:])
    assert len(data.val.names) == 11  # round(10.6)
    assert data.test is None
    assert (data.train.name, data.val.name) == ("train", "val")
    assert list(data.val.paths) == [ROOT / name for name in data.val.names]


def test_labels_follow_their_images() -> None:
    labels = random_labels(40, (-1, 0, 1))
    splits = tuple(["train", "test", "val", "train"] * 10)
    data = prepare(table(labels, splits))
    assert data.test is not None
    for split in (data.train, data.val, data.test):
        assert [splits[row] for row in rows(split)] == [split.name] * len(split.names)
        assert rows(split) == sorted(rows(split))
    assert np.array_equal(data.train.observed, labels[rows(data.train)])


@pytest.mark.parametrize("name", ["val", "test"])
def test_in_val_and_test_what_is_not_positive_is_negative(name: str) -> None:
    labels = np.array([[1, 0, -1]] * 6, dtype=np.int8)
    data = prepare(table(labels, ("train",) * 5 + (name,)))
    split = getattr(data, name)
    assert split.truth.tolist() == [[1, -1, -1]]
    assert split.observed.tolist() == [[1, -1, -1]]


def test_in_train_a_zero_is_unknown() -> None:
    data = prepare(table(np.array([[1, 0, -1]] * 10, dtype=np.int8)))
    assert data.train.observed.tolist() == [[1, 0, -1]] * 8
    assert data.train.truth is None
    assert data.val.observed.tolist() == [[1, 0, -1]] * 2
    assert data.val.truth is None


def test_in_train_a_zero_is_negative_if_the_user_says_so() -> None:
    data = prepare(table(np.array([[1, 0, -1]] * 10, dtype=np.int8)), zeros="negative")
    for split, count in ((data.train, 8), (data.val, 2)):
        assert split.observed.tolist() == [[1, -1, -1]] * count
        assert split.truth is not None
        assert split.truth.tolist() == [[1, -1, -1]] * count


def test_complete_labels_are_the_truth() -> None:
    labels = random_labels(10, (-1, 1))
    data = prepare(table(labels))
    assert data.train.truth is not None
    assert np.array_equal(data.train.truth, labels[rows(data.train)])
    assert data.val.truth is not None
    assert np.array_equal(data.val.truth, labels[rows(data.val)])


def test_single_positives_are_drawn_over_all_of_train_before_validation_is_cut_off() -> None:
    labels = random_labels(90, (-1, 0, 1))
    splits = tuple(["train", "test", "train"] * 30)
    data = prepare(table(labels, splits), observe="single")
    train = [row for row in range(90) if splits[row] == "train"]
    drawn = dict(zip(train, single_positives(labels[train]), strict=True))
    full = np.where(labels == 1, 1, -1)
    assert np.array_equal(data.train.observed, [drawn[row] for row in rows(data.train)])
    for split in (data.train, data.val, data.test):
        assert split is not None
        assert split.truth is not None
        assert split.truth.dtype == np.int8
        assert np.array_equal(split.truth, full[rows(split)])
    assert np.array_equal(data.val.observed, full[rows(data.val)])


def test_single_positives_with_a_validation_split() -> None:
    labels = random_labels(20)
    data = prepare(table(labels, ("train",) * 15 + ("val",) * 5), observe="single")
    assert np.array_equal(data.train.observed, single_positives(labels[:15]))
    assert rows(data.val) == [15, 16, 17, 18, 19]


@pytest.mark.parametrize("has_val", [True, False])
def test_leaving_out_images_changes_nothing_for_the_others(has_val: bool) -> None:
    labels = random_labels(60)
    splits = tuple("val" if has_val and i % 7 == 0 else "test" if i % 5 == 0 else "train" for i in range(60))
    whole = prepare(table(labels, splits), observe="single")
    less = prepare(table(labels, splits), observe="single", exclude=frozenset({0, 1, 5, 7, 30, 59}))
    for name in ("train", "val", "test"):
        before, after = getattr(whole, name), getattr(less, name)
        stay = [i for i, row in enumerate(rows(before)) if row not in {0, 1, 5, 7, 30, 59}]
        assert rows(after) == [rows(before)[i] for i in stay]
        assert np.array_equal(after.observed, before.observed[stay])
        assert np.array_equal(after.truth, before.truth[stay])
    assert sum(len(getattr(less, name).names) for name in ("train", "val", "test")) == 54


def test_what_is_given_and_what_is_true_where_a_format_has_both() -> None:
    truth = np.where(random_labels(40) == 1, np.int8(1), np.int8(-1))
    given = np.where((truth == 1) & (random_labels(40, seed=1) == 1), np.int8(1), np.int8(0))
    plain = table(given, ("train",) * 30 + ("test",) * 10)
    data = prepare(ImageTable(ROOT, plain.names, plain.classes, given, plain.splits, "npy", truth))
    assert np.array_equal(data.train.observed, given[rows(data.train)])
    for split in (data.train, data.val, data.test):
        assert split is not None
        assert split.truth is not None
        assert np.array_equal(split.truth, truth[rows(split)])
    assert data.val.truth is not None
    assert np.array_equal(data.val.observed, data.val.truth)
    single = prepare(ImageTable(ROOT, plain.names, plain.classes, given, plain.splits, "npy", truth), observe="single")
    assert np.array_equal(single.train.observed, single_positives(truth[:30])[rows(single.train)])


def test_a_part_has_some_of_the_images_in_the_order_asked_for() -> None:
    whole = prepare(table(random_labels(30)), observe="single").train
    some = np.array([5, 2, 11])
    part = whole.part(some)
    assert part.names == tuple(whole.names[row] for row in some)
    assert part.digests.tolist() == whole.digests[some].tolist()
    assert (part.name, part.root, list(part.paths)) == ("train", ROOT, [whole.paths[row] for row in some])
    assert np.array_equal(part.observed, whole.observed[some])
    assert part.truth is not None
    assert whole.truth is not None
    assert np.array_equal(part.truth, whole.truth[some])


def test_a_part_of_a_part_is_a_part() -> None:
    whole = prepare(table(random_labels(30))).train
    inner = whole.part(np.arange(10, 20)).part(np.array([3, 0]))
    assert inner.names == (whole.names[13], whole.names[10])
    assert inner.truth is None


def refusal(*args: ImageTable, **options: object) -> str:
    with pytest.raises(UserError) as caught:
        prepare(*args, **options)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_no_training_images() -> None:
    assert refusal(table(random_labels(6), ("test",) * 6)) == ("root: no training images; put some in the split 'train'")


def test_too_few_to_hold_any_out() -> None:
    assert refusal(table(random_labels(4))) == (
        "root: too few training images (4) to hold some out for validation; add images (at least 5 in all), or a split 'val'"
    )
    assert len(prepare(table(random_labels(5))).val.names) == 1
    assert len(prepare(table(random_labels(2), ("train", "val"))).train.names) == 1


@pytest.mark.parametrize("name", ["train", "val", "test"])
def test_no_readable_image_left(name: str) -> None:
    splits = ("train", "train", "val", "val", "test", "test")
    gone = frozenset(i for i, split in enumerate(splits) if split == name)
    assert refusal(table(random_labels(6), splits), exclude=gone) == (
        f"root: no readable image is left in the split '{name}'; replace the files"
    )


def test_options_that_contradict_each_other() -> None:
    assert refusal(table(random_labels(10)), observe="single", zeros="negative") == (
        "observe 'single' hides all labels but one per image, so zeros cannot be negative; leave out one option"
    )


def with_examples_of(*columns: int) -> Dataset:
    labels = np.zeros((6, 4), dtype=np.int8)
    labels[0, list(columns)] = 1
    labels[1] = -1
    labels[5] = 1  # an example in the validation part is none to learn from
    return prepare(table(labels, ("train",) * 5 + ("val",)))


def test_classes_without_a_positive() -> None:
    assert with_examples_of(1, 3).classes_without_positive() == ("a", "c")
    assert with_examples_of(0, 1, 2, 3).classes_without_positive() == ()


def test_examples_can_be_required() -> None:
    require_examples(with_examples_of(0, 1, 2, 3))
    with pytest.raises(UserError) as caught:
        require_examples(with_examples_of(1, 3))
    assert str(caught.value) == (
        "root: 2 of 4 classes have no example among the 5 training images (a, c); "
        "add examples, leave these classes out with --classes-without-examples drop, "
        "or give a split 'val' if none is to be held out of 'train'"
    )
    require_examples(with_examples_of(), "teacher", asks_teacher=True)  # its validation images have labels
    with pytest.raises(UserError, match="none of the 5 training images has a label"):
        require_examples(with_examples_of(), "teacher", asks_teacher=False)
    tagless = prepare(table(random_labels(6, (-1, 0)), ("train",) * 6))
    with pytest.raises(UserError, match="none of the 5 training images has a label"):
        require_examples(tagless, "teacher", asks_teacher=True)


def test_classes_can_be_left_out_with_all_that_is_known_of_them() -> None:
    labels = random_labels(6, (-1, 0, 1))
    places, sure = np.array([[0, 1, 2], [0, 1, 3]], np.int32), np.array([0.1, 0.2, 0.3], np.float32)
    cells = ScoredCells(places[0], places[1], np.zeros(3, np.int8), sure, {})
    answers = {(1, 1): Answer("ann"), (2, 3): Answer("bob"), (2, WHOLE_IMAGE): Answer("bob")}
    known = Annotations(frozenset({2}), answers, cells)
    whole = replace(table(labels, ("train",) * 5 + ("val",)), annotations=known)
    data = prepare(whole).without_classes(("b", "c"))
    assert data.classes == ("a", "d")
    assert (data.train.observed[[0, 1, 3, 4]] == labels[[0, 1, 3, 4]][:, [0, 3]]).all()
    assert data.val.observed.shape == (1, 2)
    left = data.train.annotations
    assert left.answers == {(2, 1): Answer("bob"), (2, WHOLE_IMAGE): Answer("bob")}
    assert (left.complete, left.scores.columns.tolist()) == (frozenset({2}), [0, 1])
    assert left.scores.confidence == pytest.approx([0.1, 0.3])
