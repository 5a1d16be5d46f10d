import pytest
from scipy import stats

from aevlp.config.sweep import lead
from aevlp.core.paired import paired_difference


def by_seed(*values):
    return dict(enumerate(values))


def test_the_difference_is_paired_by_seed():
    """Both settings vary much from seed to seed, but together: the lead is certain all the same."""
    found = paired_difference(by_seed(70.0, 74.0, 78.0, 71.0), by_seed(69.0, 73.2, 76.9, 70.1))
    reference = stats.ttest_rel([70.0, 74.0, 78.0, 71.0], [69.0, 73.2, 76.9, 70.1])
    assert found.mean / found.error == pytest.approx(reference.statistic)
    assert (found.is_certain, found.seeds) == (True, 4)
    assert paired_difference({0: 1.0, 1: 5.0}, {1: 3.0, 2: 9.0}) == paired_difference({1: 5.0}, {1: 3.0})


@pytest.mark.parametrize(("shift", "certain"), [(2.3, False), (2.5, True)])
def test_a_lead_is_certain_where_a_t_test_says_so(shift, certain):
    ours = [shift + each for each in (-1.4, 0.0, 1.4)]
    assert bool(stats.ttest_1samp(ours, 0).pvalue < 0.1) is certain
    assert paired_difference(by_seed(*ours), by_seed(0.0, 0.0, 0.0)).is_certain is certain


def test_a_lead_within_noise_is_a_tie():
    rivals = {"gr": by_seed(61.0, 60.0, 62.0), "an": by_seed(60.0, 60.5, 61.5), "role": by_seed(41.0, 40.0, 42.0)}
    said = lead(rivals, "test mAP")
    assert said.startswith("gr has the highest test mAP, 61.00 ± 1.00, in a tie with an (+0.33 ± 0.44) (difference by seed")
    assert "role" not in said
    del rivals["an"]
    assert lead(rivals, "test mAP").startswith("gr leads with a test mAP of 61.00 ± 1.00, +20.00 ± 0.00 against role")


@pytest.mark.parametrize(("seeds", "words"), [(1, "one seed: no claim"), (2, "two seeds: no claim")])
def test_few_seeds_claim_nothing(seeds, words):
    rivals = {"gr": by_seed(*[61.0] * seeds), "an": by_seed(*[31.0] * seeds)}
    said = lead(rivals, "test mAP")
    assert said.endswith(f"30.00 above an; {words}")
    assert "leads" not in said
    assert lead({"gr": by_seed(61.0)}, "test mAP") == "gr has a test mAP of 61.00"


def test_a_rival_of_two_seeds_is_never_certain():
    """However far off it is, among others that have more."""
    rivals = {"gr": by_seed(61.0, 60.9, 61.1), "an": by_seed(51.0, 50.9, 51.0), "role": by_seed(41.0, 40.9)}
    assert "in a tie with role (+20.00 ± 0.00)" in lead(rivals, "test mAP")
