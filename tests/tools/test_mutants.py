import json
import tomllib
from typing import Any

import pytest

from tests.conftest import REPOSITORY
from tools import mutants

DECORATED = '''"""A loss."""

from aevlp.losses.registry import register_loss


@register_loss(
    "one",
    reads="pseudo",
)
def one(x):
    return x + 1


def helper(x):
    return x


@register_loss("two")
def two(x):
    return x + 2
'''


def test_functions_are_registered_after_their_definition_and_stay_as_they_are():
    text = mutants.undecorated(DECORATED)
    assert "\n@" not in text
    registered: dict[str, Any] = {}

    def register_loss(name, **options):
        return lambda function: registered.setdefault(name, (function, options))

    names = {"register_loss": register_loss}
    exec(text.replace("from aevlp.losses.registry import register_loss", ""), names)
    assert {name: (function(1), options) for name, (function, options) in registered.items()} == {
        "one": (2, {"reads": "pseudo"}),
        "two": (3, {}),
    }
    assert mutants.undecorated(text) == text


def test_a_copy_has_the_losses_without_decorators_and_what_to_change(tmp_path):
    folder = tmp_path / "copy"
    mutants.write_copy(folder, ["losses", "damp/views"])
    for file in (REPOSITORY / "src/aevlp/losses").glob("*.py"):
        copied = (folder / "src/aevlp/losses" / file.name).read_text()
        assert "\n@register_loss" not in copied
        assert copied.count("register_loss(") == file.read_text().count("register_loss(")
    settings = tomllib.loads((folder / "pyproject.toml").read_text())["tool"]["mutmut"]
    assert settings["only_mutate"] == ["src/aevlp/losses/*", "src/aevlp/damp/views.py"]
    for tests in settings["pytest_add_cli_args_test_selection"]:
        assert (folder / tests).is_dir()


@pytest.fixture
def tried(tmp_path):
    """What mutmut leaves of five mutants in two modules."""
    ends = {
        "losses/an": {"aevlp.losses.an.x_an__mutmut_1": 1, "aevlp.losses.an.x_an__mutmut_2": 0},
        "damp/views": {
            "aevlp.damp.views.xǁPlanǁcut__mutmut_1": -24,  # it hung
            "aevlp.damp.views.x_boxes__mutmut_1": 33,
            "aevlp.damp.views.x_boxes__mutmut_2": None,
        },
    }
    for module, codes in ends.items():
        file = tmp_path / "mutants/src/aevlp" / f"{module}.py.meta"
        file.parent.mkdir(parents=True)
        file.write_text(json.dumps({"exit_code_by_key": codes}))
    return tmp_path


def test_the_table_counts_what_became_of_the_mutants(tried):
    assert mutants.table(mutants.results(tried)).splitlines()[2:] == [
        "| all | 5 | 4 | 2 (50%) | 1 | 1 |",
        "| damp/ | 3 | 2 | 1 (50%) | 0 | 1 |",
        "| damp/views | 3 | 2 | 1 (50%) | 0 | 1 |",
        "| losses/ | 2 | 2 | 1 (50%) | 1 | 0 |",
        "| losses/an | 2 | 2 | 1 (50%) | 1 | 0 |",
    ]


def test_a_mutant_belongs_to_its_module():
    assert mutants.module_of("aevlp.damp.views.xǁPlanǁcut__mutmut_1") == "damp/views"
    assert mutants.module_of("aevlp.damp.x___getattr____mutmut_1") == "damp/__init__"


@pytest.fixture
def installed(monkeypatch):
    """As if mutmut were there, and always failed."""
    monkeypatch.setattr(mutants, "find_spec", lambda name: name)
    monkeypatch.setattr(mutants, "mutmut", lambda *words: ["false"])


def test_a_failure_of_mutmut_is_none_of_the_mutants(tried, installed):
    (tried / "pyproject.toml").write_text(mutants.configuration(mutants.ROOMS))
    with pytest.raises(SystemExit, match="mutmut failed with exit code 1"):
        mutants.main([str(tried)])


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--only", "losses", "nosuch"], "--only nosuch: there is no such room or module in src/aevlp"),
        (["--only", "damp/views"], "exists and is not a copy of these parts (--only); choose another folder"),
        (["--sample", "2"], "--sample 2: 1 were listed and not tried; run without it first, and stop it"),
    ],
)
def test_what_cannot_be_done_is_refused_in_a_line(capsys, tried, installed, words, says):
    (tried / "pyproject.toml").write_text(mutants.configuration(mutants.ROOMS))
    with pytest.raises(SystemExit) as refused:
        mutants.main([str(tried), *words])
    assert refused.value.code == 2
    assert says in capsys.readouterr().err


def test_without_mutmut_it_says_what_to_install(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(mutants, "find_spec", lambda name: None)
    with pytest.raises(SystemExit):
        mutants.main([str(tmp_path / "copy")])
    assert "mutmut is not installed; pip install -c constraints.txt mutmut" in capsys.readouterr().err
    assert not (tmp_path / "copy").exists()
