import os
import zipfile

import numpy as np
import pytest

from aevlp.core.errors import UserError
from aevlp.data.dataset import Split
from aevlp.training.user_features import UserFeatures

NAMES = ("a/1.jpg", "a/2.jpg", "b/3.jpg")
TABLE = np.arange(12, dtype=np.float32).reshape(3, 4)


def written(tmp_path, **arrays):
    np.savez(tmp_path / "features.npz", **arrays)
    return str(tmp_path / "features.npz")


def split_of(tmp_path, names, name="train"):
    labels = np.ones((len(names), 2), np.int8)
    return Split(name, tmp_path, tuple(names), np.zeros(len(names), "S16"), labels, labels)


def test_rows_follow_the_images_not_the_file(tmp_path):
    features = UserFeatures(written(tmp_path, features=TABLE, images=np.array(NAMES)))
    rows = features(split_of(tmp_path, ["b/3.jpg", "a/1.jpg"]))
    assert rows.features.shape == (2, 1, 4)
    assert rows.features[:, 0].tolist() == [TABLE[2].tolist(), TABLE[0].tolist()]
    assert features.width == 4


def test_file_names_alone_will_do_where_they_are_unambiguous(tmp_path):
    features = UserFeatures(written(tmp_path, features=TABLE, images=np.array(["1.jpg", "2.jpg", "3.jpg"])))
    assert features.rows(["b/3.jpg", "a/1.jpg"]).tolist() == [2, 0]
    with pytest.raises(UserError, match=r"no features for 2 of 2 images \(a/1.jpg, b/1.jpg\)"):
        features.rows(["a/1.jpg", "b/1.jpg"])  # the same file name twice: which is meant cannot be known


def test_the_file_name_decides_where_folders_differ(tmp_path, caplog):
    features = UserFeatures(written(tmp_path, features=TABLE, images=np.array(["images/1.jpg", "images/2.jpg", "images/3.jpg"])))
    assert features.rows(["photos/dog/3.jpg", "photos/cat/1.jpg"]).tolist() == [2, 0]
    assert UserFeatures(features.file).rows(["photos/dog/3.jpg"]).tolist() == [2]  # another fold or run: it is not said again
    assert caplog.messages == [
        f"--features {features.file}: matched by file name alone, such as 'images/3.jpg' for the image 'photos/dog/3.jpg'"
    ]


def test_names_in_different_splits_are_not_the_same_image(tmp_path):
    features = UserFeatures(written(tmp_path, features=TABLE, images=np.array(["train/1.jpg", "train/2.jpg", "train/3.jpg"])))
    assert features.rows(["/data/train/2.jpg"]).tolist() == [1]
    assert features.rows(["training/cat/2.jpg"]).tolist() == [1]
    with pytest.raises(UserError, match=r"no features for 2 of 2 images of the split 'test' \(test/1.jpg, test/2.jpg\)"):
        features.rows(["test/1.jpg", "test/2.jpg"], "test")


def test_a_damaged_file_is_refused(tmp_path):
    np.savez_compressed(tmp_path / "damaged.npz", features=np.random.default_rng(0).random((50, 40)), images=np.array(["x"] * 50))
    content = bytearray((tmp_path / "damaged.npz").read_bytes())
    content[500:600] = bytes(100)
    (tmp_path / "damaged.npz").write_bytes(content)
    with pytest.raises(UserError, match=r"cannot be read as a \.npz"):
        UserFeatures(str(tmp_path / "damaged.npz"))


def test_flipped_features_are_for_training(tmp_path):
    features = UserFeatures(written(tmp_path, features=TABLE, images=np.array(NAMES), flipped=-TABLE))
    assert features(split_of(tmp_path, NAMES)).features[:, 1].numpy().tolist() == (-TABLE).tolist()
    assert features(split_of(tmp_path, NAMES, "test")).features.shape == (3, 1, 4)


def test_the_scale_is_that_of_the_images_that_are_trained_on(tmp_path):
    table = np.stack([np.full(5, 3.0), np.full(5, -3.0), np.full(5, 6e4)]).astype(np.float16)
    features = UserFeatures(written(tmp_path, features=table, images=np.array(NAMES)))
    assert features.scale(NAMES[:2]) == pytest.approx(3)


def test_the_fingerprint_tells_values_and_names_apart(tmp_path):
    def fingerprint(table, names):
        return UserFeatures(written(tmp_path, features=table, images=np.array(names))).fingerprint()

    same = fingerprint(TABLE, NAMES)
    assert same == fingerprint(TABLE.copy(), NAMES)
    assert fingerprint(TABLE, ["a", "b", os.fsdecode(b"caf\xe9")]) != fingerprint(TABLE, ["a", "b", "caf"])
    assert len({same, fingerprint(TABLE + 1e-3, NAMES), fingerprint(TABLE, ("a/1.jpg", "a/2.jpg", "b/4.jpg"))}) == 3


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"features": TABLE}, "has no array 'images' (only features)"),
        ({"images": np.array(NAMES)}, "has no array 'features' (only images)"),
        ({"features": TABLE[0], "images": np.array(NAMES)}, "'features' must be floating-point numbers [N, D], not float32 [4]"),
        ({"features": TABLE.astype(int), "images": np.array(NAMES)}, "not int64 [3, 4]"),
        (
            {"features": TABLE, "images": np.array(NAMES[:2])},
            "'images' must be 3 names (text, not bytes), one for each row of 'features'",
        ),
        ({"features": TABLE, "images": np.array([1, 2, 3])}, "'images' must be 3 names"),
        ({"features": TABLE, "images": np.array(["a", "a", "b"])}, "names an image more than once (a)"),
        ({"features": TABLE, "images": np.array(NAMES, dtype=object)}, "not Python objects"),
        ({"features": TABLE, "images": np.array(["a", "\ud800.jpg", "b"])}, "which no file can be called"),
        ({"features": TABLE * np.nan, "images": np.array(NAMES)}, "a value that is not a finite 32-bit number"),
        ({"features": TABLE, "images": np.array(NAMES), "flipped": TABLE[:, :2]}, "'flipped' is float32 [3, 2]"),
    ],
)
def test_a_wrong_file_is_refused_in_words(tmp_path, arrays, message):
    file = written(tmp_path, **arrays)
    with pytest.raises(UserError) as error:
        UserFeatures(file)
    assert str(error.value).startswith(f"--features {file}: ")
    assert message in str(error.value)


def test_what_is_no_file_of_features_is_refused(tmp_path):
    with pytest.raises(UserError, match="no such file"):
        UserFeatures(str(tmp_path / "none.npz"))
    (tmp_path / "text.npz").write_text("hello")
    with pytest.raises(UserError, match=r"not a \.npz"):
        UserFeatures(str(tmp_path / "text.npz"))
    with zipfile.ZipFile(tmp_path / "other.npz", "w") as archive:
        archive.writestr("features.npy", "no array")
        archive.writestr("images.npy", "")
    with pytest.raises(UserError, match=r"'features' in it is no array"):
        UserFeatures(str(tmp_path / "other.npz"))
    np.save(tmp_path / "one.npy", TABLE)
    with pytest.raises(UserError, match=r"not a \.npz"):
        UserFeatures(str(tmp_path / "one.npy"))


def test_all_zero_is_refused(tmp_path):
    features = UserFeatures(written(tmp_path, features=0 * TABLE, images=np.array(NAMES)))
    with pytest.raises(UserError, match="all features are 0"):
        features.scale(NAMES)
