"""The settings of the device that commands compute on."""

import logging
import os
from types import SimpleNamespace

import pytest
import torch

from aevlp.core import engine
from aevlp.core.processes import EngineOptions


@pytest.fixture
def pretended_gpu(monkeypatch):
    """A machine that says it has CUDA; what is set for it is undone."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(engine, "Accelerator", lambda **_: SimpleNamespace(num_processes=1))
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", True)
    monkeypatch.setattr(torch.utils.deterministic, "fill_uninitialized_memory", True)
    engine.make_cuda_deterministic.cache_clear()
    yield
    torch.use_deterministic_algorithms(False)
    engine.make_cuda_deterministic.cache_clear()


@pytest.mark.parametrize("device", ["auto", "cuda"])
def test_a_gpu_computes_the_same_every_time_and_says_so_once(pretended_gpu, caplog, device):
    caplog.set_level(logging.INFO, "aevlp")
    for _ in range(2):
        engine.make_accelerator(EngineOptions(device=device))
    assert torch.are_deterministic_algorithms_enabled()
    assert torch.is_deterministic_algorithms_warn_only_enabled()  # no backbone is refused
    assert not torch.backends.cudnn.benchmark
    assert not torch.utils.deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
    assert caplog.text.count("--deterministic false") == 1


@pytest.mark.parametrize("options", [{"deterministic": False}, {"device": "cpu"}])
def test_it_can_be_turned_off_and_a_cpu_has_no_need_of_it(pretended_gpu, caplog, options):
    engine.make_accelerator(EngineOptions(**options))
    assert not torch.are_deterministic_algorithms_enabled()
    assert torch.backends.cudnn.benchmark  # left as it was
    assert "deterministic" not in caplog.text
    assert "CUBLAS_WORKSPACE_CONFIG" not in os.environ


def test_what_the_user_set_for_cublas_stands(pretended_gpu, monkeypatch):
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":16:8")
    engine.make_accelerator(EngineOptions())
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":16:8"
