"""Values and gradients of public implementations, where they are at hand."""

import json
from math import ceil
from typing import Any

import pytest
import torch

import aevlp.losses
from aevlp.losses.gpr import GprOptions
from aevlp.losses.gr import GrOptions
from aevlp.losses.large import large_count
from tests.shared import shared_folder

RECIPES: dict[str, dict[str, Any]] = {
    "voc": {"w1": 2, "b1": -2, "eta": 0.05},
    "coco": {"w1": 10, "b1": -8, "lambda1": 0.5, "eta": 0.001},
    "nus": {"w1": 10, "b1": -8, "lambda1": 0.5, "eta": 0.001},
    "cub": {"w1": 10, "b1": -8, "q1": 1.5, "lambda1": 0.2, "lambda2": 0.8, "eta": 0.01},
}
READ = {"pseudo": torch.int8, "soft_negative": torch.float64, "estimated": torch.float64}
EXPECTED_POSITIVES = {"voc": 1.5, "coco": 2.9, "nus": 1.9, "cub": 31.4}


def scheduled(case):
    """What the recipe's options make of the case's epoch."""
    options = RECIPES[case["recipe"]]
    if case["kind"] == "gpr":
        given = GprOptions(**options).at(case["epoch"], case["epochs"], 54)
        assert given.pop("lambda3") == 1  # which is to have no part in it
        return {**given, "expected_positives": EXPECTED_POSITIVES[case["recipe"]]}
    return GrOptions(**{key: options[key] for key in ("w1", "b1", "q1") if key in options}).at(case["epoch"], case["epochs"], 54)


def count_of(case):
    """The count of a large-loss case, by its rates and, the same, by the epoch."""
    cells = len(case["logits"]) * len(case["logits"][0])
    clean, relative = case["params"]["clean_rate"], case["params"]["relative_rate"]
    grows = case["kind"] != "ll_cp"
    count = 0 if clean == 1 else ceil(cells * (1 - clean if grows else relative))
    delta = (1 - clean) / max(case["epoch"] - 1, 1) if grows else relative
    assert large_count(case["epoch"], cells, delta, grows=grows) == count
    return count


def test_values_and_gradients_of_public_implementations_agree():
    cases = json.loads((shared_folder() / "vectors" / "losses.json").read_text())
    tested = set()
    for case in cases:
        given = case["params"]
        if "recipe" in case:
            assert scheduled(case) == pytest.approx(given)
        if "clean_rate" in given:
            given = {"count": count_of(case)}
        logits = torch.tensor(case["logits"], dtype=torch.float64, requires_grad=True)
        observed = torch.tensor(case["observed"], dtype=torch.int8)
        read = [torch.tensor(case[key], dtype=dtype) for key, dtype in READ.items() if key in case]
        value = getattr(aevlp.losses, case["kind"])(logits, observed, *read, **given)
        (gradient,) = torch.autograd.grad(value, logits)
        expected = torch.tensor(case["grad"], dtype=torch.float64)
        assert value.item() == pytest.approx(case["loss"], rel=1e-5), case["kind"]
        assert (gradient - expected).abs().max() <= 1e-5 * expected.abs().max(), case["kind"]
        tested.add(case["kind"])
    assert tested >= {"gpr", "gr", "an", "an_ls", "wan", "epr", "em", "em_apl", "vlpl", "role", "ll_r", "ll_ct", "ll_cp"}
