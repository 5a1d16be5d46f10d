"""Views of completed labels: iteration, short texts, notebooks and pandas."""

import base64
import io
import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from aevlp.core.errors import UserError
from aevlp.data.annotations import Annotations, Answer
from aevlp.data.dataset import Dataset, Split
from aevlp.inference.completion import result
from aevlp.inference.completion.claims import AbsentClaim
from aevlp.inference.completion.result import SAMPLES, THUMBNAIL, Completion, Proposals

CLASSES = ("dog", "<b>cat</b>", "car")
OBSERVED = np.array([[1, 0, 0], [0, 1, -1], [0, 0, 1]], np.int8)


def split(root: Path, name: str, observed: np.ndarray, truth: np.ndarray | None) -> Split:
    names = tuple(f"{name} & {number}.png" for number in range(len(observed)))
    for image in names:
        Image.new("RGB", (300, 200), (10, 200, 30)).save(root / image)
    return Split(name, root, names, np.array(names, "S16"), observed, truth)


@pytest.fixture
def completion(tmp_path) -> Completion:
    """Three training images, two of them with a proposal, and one validation image that is fully labelled."""
    full = np.array([[1, -1, -1]], np.int8)
    data = Dataset(CLASSES, split(tmp_path, "train", OBSERVED, None), split(tmp_path, "val", full, full), None, tmp_path)
    confidence = np.array([[0.02, 0.9, 0.95], [0.6, 0.9, 0.1], [0.01, 0.3, 0.9]])
    proposed = np.array([[0, 1, 1], [1, 0, 0], [0, 0, 0]], bool)
    denied = np.array([[0, 0, 0], [0, 0, 0], [1, 0, 0]], bool)
    doubted = np.array([[1, 0, 0], [0, 0, 0], [0, 0, 0]], bool)
    candidates = np.array([[0, 0, 0], [0, 0, 0], [0, 1, 0]], bool)
    found = Proposals(confidence, {"teacher": confidence, "model": confidence / 2}, proposed, denied, doubted, candidates)
    return Completion(data, {"train": found}, "nothing is known", AbsentClaim(0.031), tmp_path / "completed.csv")


def test_it_has_a_record_per_image_and_can_be_read_twice(completion):
    assert len(completion) == len(list(completion)) == 4
    first, second, third, last = completion
    assert list(first.proposed) == ["car", "<b>cat</b>"]  # the surest first
    assert first.proposed["car"].predictors == {"teacher": 0.95, "model": 0.475}
    assert (first.observed, list(first.doubted)) == (("dog",), ["dog"])
    assert (second.rejected, list(second.proposed)) == (("car",), ["dog"])
    assert (third.positives, list(third.proposed_absent), list(third.candidates)) == (("car",), ["dog"], ["<b>cat</b>"])
    assert (last.split, last.observed, last.proposed) == ("val", ("dog",), {})


def test_records_are_the_same_however_many_are_made_at_a_time(completion, monkeypatch):
    answers = {(1, 0): Answer("ann"), (2, 2): Answer("bob")}
    train = replace(completion.data.train, annotations=Annotations(frozenset({2}), answers))
    answered = replace(completion, data=replace(completion.data, train=train))
    whole = list(answered)
    assert (whole[2].is_complete, whole[2].answers) == (True, {"car": Answer("bob")})
    monkeypatch.setattr(result, "CHUNK", 2)
    assert list(answered) == whole


def test_its_text_is_short(completion):
    assert repr(completion) == (
        f"Completion(4 images, 3 of them completed: 3 labels observed, 3 proposed, 1 denied, 1 doubted; {completion.file})"
    )
    first, second, absent, third, last = completion.summary().splitlines()
    assert first == "3 images: 1.00 observed labels each, 1.00 proposed, 0.33 proposed to be absent; 1 observed ones are doubted"
    assert second == "nothing is known"
    assert absent == "1 labels proposed to be absent: unverified; 3.1 % of the labels that are known look like them"
    assert third == f"written: {completion.file}"
    assert last == f"next: aevlp review {completion.file}    (its audit measures how many of the new labels are right)"


def test_a_notebook_shows_figures_and_images_with_their_proposed_labels(completion):
    page = completion._repr_html_()
    for line in completion.summary().splitlines():
        assert f"<li>{line.replace(chr(39), '&#x27;')}</li>" in page
    images = [base64.b64decode(content) for content in re.findall(r'src="data:image/jpeg;base64,([^"]+)"', page)]
    assert [Image.open(io.BytesIO(content)).size for content in images] == [(THUMBNAIL, THUMBNAIL * 2 // 3)] * 2
    assert "train &amp; 0.png<br>observed: dog<br>proposed: car 0.95, &lt;b&gt;cat&lt;/b&gt; 0.90" in page
    assert "train &amp; 2.png" not in page  # nothing is proposed for it
    assert "<b>" not in page
    assert len(page) < 20_000


def test_a_notebook_shows_a_few_of_many_images_and_those_that_are_gone_as_text(tmp_path):
    observed = np.tile(OBSERVED, (20, 1))
    train = split(tmp_path, "train", observed, None)
    everything = np.ones(observed.shape, bool) & (observed == 0)
    nothing = ~everything & False
    found = Proposals(np.full(observed.shape, 0.9), {}, everything, nothing, nothing, nothing)
    val = split(tmp_path, "val", OBSERVED[:0], OBSERVED[:0])
    done = Completion(
        Dataset(CLASSES, train, val, None, tmp_path), {"train": found}, "nothing is known", None, tmp_path / "x.csv"
    )
    (tmp_path / train.names[0]).unlink()
    page = done._repr_html_()
    assert page.count("<figure") == SAMPLES
    assert page.count("<img") == SAMPLES - 1
    assert "no such file" in page
    assert f"{len(observed) - 1}.png" in page  # they are spread over all images


def test_pandas_gets_a_row_per_image(completion):
    table = completion.to_pandas()
    assert list(table.columns) == [
        *(
            "image",
            "split",
            "observed",
            "accepted",
            "rejected",
            "proposed",
            "proposed_absent",
            "candidates",
            "doubted",
            "confidence",
        )
    ]
    assert table["image"].tolist() == [record.name for record in completion]
    assert table["split"].tolist() == ["train"] * 3 + ["val"]
    assert table["proposed"].tolist() == [["car", "<b>cat</b>"], ["dog"], [], []]
    assert table["confidence"].tolist() == [
        *({"car": 0.95, "<b>cat</b>": 0.9, "dog": 0.02}, {"dog": 0.6}, {"dog": 0.01, "<b>cat</b>": 0.3}, {})
    ]
    assert table.explode("proposed")["proposed"].value_counts().to_dict() == {"car": 1, "<b>cat</b>": 1, "dog": 1}


def test_without_pandas_it_says_how_to_get_it(completion, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UserError, match=r"^to_pandas needs pandas; install it with pip install pandas$"):
        completion.to_pandas()
