"""Records of a run that are damaged or no files."""

import os

import pytest

from aevlp.core.errors import UserError
from aevlp.training.run_records import read_metrics


def test_a_pipe_in_place_of_the_metrics_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "metrics.jsonl")
    with pytest.raises(UserError, match=r"metrics\.jsonl: damaged \(OSError: .*a pipe, a socket or a device"):
        read_metrics(tmp_path / "metrics.jsonl")
