import json
import shutil

import pytest

from aevlp.core.errors import UserError
from aevlp.inference.model_location import locate_model


@pytest.fixture
def run(tmp_path):
    (tmp_path / "run" / "model").mkdir(parents=True)
    (tmp_path / "run" / "config.yaml").write_text("method: an\n")
    (tmp_path / "run" / "model" / "config.json").write_text("{}")
    return tmp_path / "run"


def test_a_run_and_the_model_in_it_are_the_same(run):
    for given in (run, run / "model"):
        assert (locate_model(given).model, locate_model(given).thresholds) == (run / "model", None)
    (run / "model" / "thresholds.json").write_text("{}")
    for given in (run, run / "model"):
        assert locate_model(given).thresholds == run / "model" / "thresholds.json"
    (run / "thresholds.json").write_text("{}")
    for given in (run, run / "model"):
        assert locate_model(given).thresholds == run / "thresholds.json"


def test_a_model_that_was_copied_out_is_enough(run, tmp_path):
    (run / "thresholds.json").write_text("{}")
    copy = shutil.copytree(run / "model", tmp_path / "copy")
    assert (locate_model(copy).model, locate_model(copy).thresholds) == (copy, None)
    (copy / "thresholds.json").write_text("{}")
    assert locate_model(copy).thresholds == copy / "thresholds.json"


def test_what_is_neither_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"nowhere: not a run folder \(no config.yaml\)"):
        locate_model(tmp_path / "nowhere")


def test_a_run_of_a_newer_version_is_refused_by_either_name(run):
    (run / "result.json").write_text(json.dumps({"versions": {"aevlp": "99.0"}}))
    for given in (run, run / "model"):
        with pytest.raises(UserError, match=r"made by aevlp 99\.0, which is newer"):
            locate_model(given)
