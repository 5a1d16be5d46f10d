from aevlp.core.errors import did_you_mean, first_few


def test_the_nearest_name_whatever_its_case() -> None:
    assert did_you_mean("TVmonitr", ["Tvmonitor", "train"]) == " (did you mean 'Tvmonitor'?)"
    assert did_you_mean("zebra", ["car", "dog"]) == ""
    assert did_you_mean("zebra", []) == ""


def test_a_few_names() -> None:
    assert first_few([]) == ""
    assert first_few("abc") == "a, b, c"
    assert first_few("abcd") == "a, b, c, ..."
    assert first_few(iter("abcd"), 1) == "a, ..."
