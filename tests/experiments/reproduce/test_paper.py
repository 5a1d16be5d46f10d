"""The paper's figures against each other: the same training stands in several of its tables."""

import pytest

from aevlp.data.benchmarks import BENCHMARKS
from aevlp.experiments.reproduce import paper


def test_the_whole_method_has_the_same_figure_in_every_table():
    whole = paper.TABLE1["aevlp"]
    assert whole == (90.46, 73.54, 50.70, 24.89)
    assert paper.TABLE2["gpr+damp"] == paper.TABLE4["G T r v4 R L3"] == paper.TABLE6["ResNet-50"] == whole
    # The grid of the recipes is 4, and 5 for CUB.
    assert (*paper.TABLE5["4"][:3], paper.TABLE5["5"].cub) == whole


def test_vlpl_has_the_same_figure_in_both_tables():
    assert paper.TABLE1["vlpl"] == paper.TABLE2["vlpl"]


@pytest.mark.parametrize(
    ("row", "average"),
    [
        ("bce+random", 51.56),
        ("gpr+random", 53.98),
        ("vlpl", 58.53),
        ("gpr+vlpl", 59.13),
        ("bce+damp", 58.31),
        ("gpr+damp", 59.90),
    ],
)
def test_the_averages_that_the_paper_prints_are_those_of_the_figures(row, average):
    assert sum(paper.TABLE2[row]) / 4 == pytest.approx(average, abs=0.0101)


def test_the_data_sets_are_the_benchmarks():
    assert list(paper.TITLES) == [benchmark.name for benchmark in BENCHMARKS] == list(paper.Sets._fields)
