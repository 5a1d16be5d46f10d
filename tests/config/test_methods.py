import pytest

from aevlp.config.methods import METHODS, find_method
from aevlp.core.errors import UserError
from aevlp.losses import LOSSES
from aevlp.models.heads import HEADS
from aevlp.sources import SOURCES


def test_every_loss_without_a_source_is_a_method_by_its_name():
    for loss in LOSSES.values():
        if loss.reads is None:
            method = METHODS[loss.name]
            assert (method.loss, method.source.name, method.head) == (loss, "none", None)


def test_every_source_that_yields_pseudo_labels_feeds_every_loss_that_reads_them():
    sources = [name for name, kind in SOURCES.items() if kind.yields == "pseudo"]
    losses = [name for name, loss in LOSSES.items() if loss.reads == "pseudo"]
    assert set(sources) >= {"damp", "vlpl", "random", "ll-ct", "ll-cp", "none"}
    assert set(losses) >= {"gpr", "bce", "vlpl"}
    for loss in losses:
        for source in sources:
            method = find_method(f"{loss}+{source}")
            assert (method.loss, method.source) == (LOSSES[loss], SOURCES[source])


def test_a_head_goes_with_any_method_that_trains():
    for name, method in METHODS.items():
        if method.loss is None:
            with pytest.raises(UserError, match=f"boostlu.{name}: {name} trains nothing, so it has no head to replace"):
                find_method(f"boostlu+{name}")
        elif method.head is None:
            boosted = find_method(f"boostlu+{name}")
            assert (boosted.head, boosted.loss, boosted.source) == (HEADS["boostlu"], method.loss, method.source)
            assert boosted.sections == {**method.sections, "boostlu": HEADS["boostlu"].options}
        else:
            with pytest.raises(UserError, match="has a head already"):
                find_method(f"boostlu+{name}")


def test_every_loss_that_reads_something_has_a_source_for_it():
    for loss in LOSSES.values():
        assert loss.reads is None or any(kind.yields == loss.reads for kind in SOURCES.values())


def test_the_names_of_sources_heads_and_sections_do_not_clash():
    names = [*SOURCES, *HEADS, "loss", "teacher", "data", "model", "train", "methods", "published"]
    assert len(set(names)) == len(names)


def test_the_expected_number_of_positives_is_asked_for_where_it_is_used():
    wanting = {name for name, method in METHODS.items() if method.wants_expected_positives}
    assert wanting == {"aevlp", "consensus", "role", "smile", "epr"}
    assert find_method("bce+random").wants_expected_positives
    assert not find_method("bce+damp").wants_expected_positives
