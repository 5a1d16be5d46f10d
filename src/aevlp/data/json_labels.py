"""Read the JSON files of labels that other tools write: recognise their kind, load them, and check the values in them."""

import json
import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from aevlp.core.errors import UserError, did_you_mean
from aevlp.data.annotations import Answer, State
from aevlp.data.dataset import SPLIT_NAMES
from aevlp.data.files import read_text
from aevlp.data.records import LabelRecord, Score

HEAD = 1 << 16  # bytes of a file that are looked at to recognise it
KEYS = {
    **dict.fromkeys(("info", "licenses", "images", "annotations", "categories"), "coco-file"),
    **dict.fromkeys(("classes", "labels"), "fiftyone"),
}
FIRST_KEY = re.compile(rf'"({"|".join(KEYS)})"\s*:')
STATES = {state.name.lower(): state for state in State if state != State.UNSEEN}
PREDICTORS = ("teacher", "model")
T = TypeVar("T")
UNKNOWN_CONFIDENCE = 0.5  # of a proposal that comes without one


def kind_of(path: Path) -> str | None:
    """Return the name of the format that the beginning of a `.json` file looks like; None: no format of labels."""
    if path.suffix.lower() != ".json" or not path.is_file():
        return None
    with path.open("rb") as file:
        head = file.read(HEAD).decode("utf-8-sig", "replace").lstrip()
    if head.startswith("["):
        return "label-studio"
    found = FIRST_KEY.search(head) if head.startswith("{") else None
    return KEYS[found[1]] if found else None


def load_json(file: Path, ignored: Collection[str] = ()) -> Any:
    """Return the content of a JSON file, without the keys `ignored`. Other text, NaN and repeated keys are refused."""

    def constant(name: str) -> None:
        raise UserError(f"{file}: has the number {name}, which is not JSON; correct it")

    def from_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            raise UserError(f"{file}: one object has the key '{twice}' twice; remove one of them")
        return {name: value for name, value in pairs if name not in ignored} if ignored else found

    text = read_text(file)
    try:
        return json.loads(text, parse_constant=constant, object_pairs_hook=from_pairs)
    except json.JSONDecodeError as error:
        raise UserError(
            f"{file}, line {error.lineno}: not JSON ({error.msg}); write the file again, it may be cut short"
        ) from None
    except RecursionError:
        raise UserError(f"{file}: nested too deep to be a file of labels; write it again") from None
    except ValueError:  # an integer of thousands of digits
        raise UserError(f"{file}: has a number that is too long; correct it") from None


# Values of a file, checked; `place` names the file and the entry for the message.


def as_object(value: object, place: str) -> dict[str, Any]:
    """Return a JSON object."""
    return _checked(value, dict, "an object", place)


def as_list(value: object, place: str) -> list[Any]:
    """Return a list; null is an empty one."""
    return _checked([] if value is None else value, list, "a list", place)


def as_text(value: object, place: str) -> str:
    """Return a text that is not empty."""
    text = _checked(value, str, "text", place)
    if not text.strip():
        raise UserError(f"{place} is empty; name it, or remove the entry")
    return text


def as_names(value: object, place: str) -> tuple[str, ...]:
    """Return a list of names without repeats."""
    return tuple(dict.fromkeys(as_text(name, place) for name in as_list(value, place)))


def as_number(value: object, place: str) -> int:
    """Return a whole number: an id or an index."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value != int(value):
        raise UserError(f"{place} is {_shown(value)}, not a whole number; correct it")
    return int(value)


def as_probability(value: object, place: str) -> float:
    """Return a number from 0 to 1."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise UserError(f"{place} is {_shown(value)}, not a number from 0 to 1; correct it")
    return float(value)


def as_flag(value: object, place: str) -> bool:
    """Return true or false; null is false."""
    return _checked(False if value is None else value, bool, "true or false", place)


def as_split(value: object, place: str) -> str:
    """Return the name of a split; null is the training split."""
    given = "train" if value is None else as_text(value, f"{place}: 'split'")
    if given.lower() not in SPLIT_NAMES:
        raise UserError(f"{place}: split '{given}' is none of train, val, test; correct it")
    return SPLIT_NAMES[given.lower()]


def as_state(value: object, place: str) -> State:
    """Return the state of a label; without one it was given."""
    if value is None:
        return State.OBSERVED
    if not isinstance(value, str) or value not in STATES:
        near = did_you_mean(str(value), STATES)
        raise UserError(f"{place}: 'state' is {_shown(value)}{near}, none of {', '.join(STATES)}; correct it")
    return STATES[value]


def as_answer(value: Mapping[str, Any], place: str) -> Answer | None:
    """Return who answered and when, from the fields `by` and `at`; None if there is neither."""
    if value.get("by") is None and value.get("at") is None:
        return None
    return Answer(*(_checked(value.get(key) or "", str, "text", f"{place}: '{key}'") for key in ("by", "at")))


def as_score(value: Mapping[str, Any], key: str, place: str) -> Score:
    """Return the confidence under `key` and that of each predictor; tools that leave numbers out write null."""
    own = {name: as_probability(value[name], f"{place}: '{name}'") for name in PREDICTORS if value.get(name) is not None}
    given = value.get(key)
    return Score(UNKNOWN_CONFIDENCE if given is None else as_probability(given, f"{place}: '{key}'"), own)


def _checked(value: object, kind: type[T], what: str, place: str) -> T:
    if not isinstance(value, kind):
        raise UserError(f"{place} is {_shown(value)}, not {what}; correct it")
    return value


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


@dataclass
class ImageEntry:
    """The labels of one image while its entries are read one by one."""

    name: str
    place: str
    split: str = "train"
    is_complete: bool = False
    states: dict[str, State] = field(default_factory=dict)
    proposed: dict[str, Score] = field(default_factory=dict)
    doubted: dict[str, Score] = field(default_factory=dict)
    answers: dict[str, Answer] = field(default_factory=dict)

    def add(self, label: str, state: State, attributes: Mapping[str, Any], *, confidence: str = "confidence") -> None:
        """Enter a label with its attributes. A confirmed state replaces a proposal; a contradiction is refused."""
        place = f"{self.place}, '{label}'"
        before = self.states.get(label)
        if before is not None and State.REJECTED in (before, state) and before != state and State.PROPOSED not in (before, state):
            raise UserError(f"{place} is both positive and negative; keep it as one of the two")
        if state == State.PROPOSED:
            self.proposed[label] = as_score(attributes, confidence, place)
        elif state != State.REJECTED and attributes.get("doubted") is not None:
            self.doubted[label] = as_score(attributes, "doubted", place)
        if (answer := as_answer(attributes, place)) is not None:
            self.answers[label] = answer
        # An accepted label stays accepted where another box of the same label has no state.
        self.states[label] = max((before, state), key=_weight) if before is not None else state

    def record(self) -> LabelRecord:
        """Return the labels as a record."""
        named = {state: tuple(label for label, each in self.states.items() if each == state) for state in State}
        proposed = sorted(named[State.PROPOSED], key=lambda label: -self.proposed[label].confidence)
        answered = {*named[State.ACCEPTED], *named[State.REJECTED], ""}
        return LabelRecord(
            name=self.name,
            split=self.split,
            observed=named[State.OBSERVED],
            accepted=named[State.ACCEPTED],
            rejected=named[State.REJECTED],
            proposed={label: self.proposed[label] for label in proposed},
            doubted=self.doubted,
            is_complete=self.is_complete,
            answers={label: answer for label, answer in self.answers.items() if label in answered},
        )


def _weight(state: State) -> int:
    return (State.PROPOSED, State.OBSERVED, State.ACCEPTED, State.REJECTED).index(state)
