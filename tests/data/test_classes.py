from aevlp.core.errors import did_you_mean
from aevlp.data.classes import some


def test_the_nearest_name_whatever_its_case() -> None:
    assert did_you_mean("TVmonitr", ["Tvmonitor", "train"]) == " (did you mean 'Tvmonitor'?)"
    assert did_you_mean("zebra", ["car", "dog"]) == ""
    assert did_you_mean("zebra", []) == ""


def test_a_few_names() -> None:
    assert some([]) == ""
    assert some("abc") == "a, b, c"
    assert some("abcd") == "a, b, c, ..."
    assert some(iter("abcd"), 1) == "a, ..."
