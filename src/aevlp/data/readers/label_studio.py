"""Label Studio: a JSON or JSON-MIN export, or the tasks that `aevlp label` writes.

The fields `given`, `accepted`, `rejected`, `proposed`, `doubted`, `complete` and `answers` of a task's data tell the states that
the labels had. An annotation means that a person has looked at every choice: ticked labels are accepted (a given one stays
given), labels that were given, accepted or proposed and are not ticked are rejected, and the image is complete. Skipped
annotations are ignored. Where annotators contradict each other, the label keeps its state and the image is not complete.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from aevlp.core.errors import UserError, first_few
from aevlp.data.annotations import COMPLETE, Answer, State
from aevlp.data.dataset import ImageTable
from aevlp.data.files import fixed_classes, is_image
from aevlp.data.json_labels import (
    UNKNOWN_CONFIDENCE,
    ImageEntry,
    as_flag,
    as_list,
    as_names,
    as_object,
    as_probability,
    as_split,
    as_text,
    kind_of,
    load_json,
)
from aevlp.data.label_file import ParsedLabels, table_of
from aevlp.data.readers import Reader, register
from aevlp.data.records import LabelRecord, Score

NAMED = {"given": State.OBSERVED, "accepted": State.ACCEPTED, "rejected": State.REJECTED}
CONTROLS = ("labels", "label", "choices", "choice")  # usual names of the control that holds the choices, in JSON-MIN


@dataclass(frozen=True)
class Annotation:
    """A person's look at all choices of an image."""

    answer: Answer
    ticked: frozenset[str]


@dataclass(frozen=True)
class Task:
    """An image with its labels as they were, and the last annotation of each person."""

    place: str
    record: LabelRecord
    annotations: Mapping[str, Annotation]


def detects(path: Path) -> bool:
    """Return whether this is a JSON file with a list in it."""
    return kind_of(path) == "label-studio"


def read(path: Path) -> ImageTable:
    """Return an image per task, with the annotations that nobody contradicts."""
    placed, contested = [], []
    for task in _tasks(path):
        each = [_annotated(task.record, annotation) for annotation in task.annotations.values()]
        record, labels = _agreed(task.record, each)
        placed.append((task.place, record))
        contested += [f"{record.name} {label}" for label in labels]
    table = table_of(ParsedLabels(path, placed, fixed_classes(path.parent)), "label-studio")
    if not contested:
        return table
    note = f"labels about which annotators disagree: {len(contested)} ({first_few(contested)}); they stay as they were"
    return replace(table, notes=(note,))


def parse(path: Path) -> list[ParsedLabels]:
    """Return the labels of each annotator, and first those of the tasks that nobody has annotated."""
    classes, tasks = fixed_classes(path.parent), _tasks(path)
    untouched = [(task.place, task.record) for task in tasks if not task.annotations]
    found = [ParsedLabels(path, untouched, classes)]
    for who in dict.fromkeys(who for task in tasks for who in task.annotations):
        own = [(task.place, _annotated(task.record, task.annotations[who])) for task in tasks if who in task.annotations]
        found.append(ParsedLabels(path, own, classes, who))
    return found


def _tasks(path: Path) -> list[Task]:
    """Return the tasks of the file; in JSON-MIN, each annotation repeats its task."""
    entries = [
        as_object(value, f"{path}: task {position}")
        for position, value in enumerate(as_list(load_json(path), f"{path}: the content"), 1)
    ]
    is_full = any(isinstance(entry.get("data"), dict) for entry in entries)
    controls = {*CONTROLS, *(key for entry in entries for key, value in entry.items() if _has_choices(value))}
    found: dict[str, Task] = {}
    for position, entry in enumerate(entries, 1):
        place = f"{path}: task {entry.get('id', position)}"
        task = _full_task(entry, place) if is_full else _flat_task(entry, controls, place)
        before = found.get(task.record.name)
        if before is not None and (is_full or before.record != task.record):
            raise UserError(f"{place} and another task are about one image ({task.record.name}); make one of them")
        # Annotations of one person are in any order: the last one counts.
        known = {} if before is None else dict(before.annotations)
        for who, annotation in task.annotations.items():
            if who not in known or known[who].answer.at <= annotation.answer.at:
                known[who] = annotation
        found[task.record.name] = replace(task, annotations=known)
    return list(found.values())


def _full_task(entry: Mapping[str, Any], place: str) -> Task:
    annotations: dict[str, Annotation] = {}
    for value in as_list(entry.get("annotations", entry.get("completions")), f"{place}: 'annotations'"):
        given = as_object(value, f"{place}: an annotation")
        if given.get("was_cancelled") or given.get("skipped"):
            continue
        annotation = Annotation(_answer(given, "completed_by", place), _ticked(given.get("result"), place))
        before = annotations.get(annotation.answer.who)
        if before is None or before.answer.at <= annotation.answer.at:
            annotations[annotation.answer.who] = annotation
    return Task(place, _record(as_object(entry.get("data"), f"{place}: 'data'"), place), annotations)


def _flat_task(entry: Mapping[str, Any], controls: Iterable[str], place: str) -> Task:
    record = _record(entry, place)
    if entry.get("annotation_id") is None and not entry.get("annotator"):
        return Task(place, record, {})
    values = [value for key in controls for value in _listed(entry.get(key))]
    ticked = [
        name
        for value in values
        for name in as_names(value.get("choices") if isinstance(value, dict) else [value], f"{place}: a choice")
    ]
    annotation = Annotation(_answer(entry, "annotator", place), frozenset(ticked))
    return Task(place, record, {annotation.answer.who: annotation})


def _listed(value: object) -> list[Any]:
    return [] if value is None else value if isinstance(value, list) else [value]


def _has_choices(value: object) -> bool:
    return any(isinstance(each, dict) and "choices" in each for each in _listed(value))


def _ticked(value: object, place: str) -> frozenset[str]:
    """Return the choices of an annotation, and the labels of its regions; without any, Label Studio writes no result."""
    ticked: set[str] = set()
    for each in as_list(value, f"{place}: 'result'"):
        result = as_object(each, f"{place}: a result")
        kind = str(result.get("type", ""))
        if kind == "choices" or kind.endswith("labels"):
            content = as_object(result.get("value"), f"{place}: 'value' of a result")
            ticked.update(as_names(content.get(kind), f"{place}: '{kind}'"))
    return frozenset(ticked)


def _answer(given: Mapping[str, Any], key: str, place: str) -> Answer:
    """Return who annotated, by the e-mail address or number in Label Studio, and when."""
    who = given.get(key)
    if isinstance(who, dict):
        who = who.get("email") or who.get("id")
    when = given.get("updated_at") or given.get("created_at")
    try:
        at = datetime.fromisoformat(when) if isinstance(when, str) else None
    except ValueError:
        raise UserError(f"{place}: '{when}' is not a date; correct it") from None
    if at is not None and at.tzinfo is None:
        at = at.replace(tzinfo=UTC)
    return Answer("" if who is None else str(who), "" if at is None else at.astimezone(UTC).isoformat(timespec="seconds"))


def _record(data: Mapping[str, Any], place: str) -> LabelRecord:
    """Return the labels as they were before any annotation."""
    entry = ImageEntry(_address(data, place), place, as_split(data.get("split"), place))
    for key, state in NAMED.items():
        for label in as_names(data.get(key), f"{place}: '{key}'"):
            entry.add(label, state, {})
    for label, score in _scores(data, "proposed", place).items():
        if label not in entry.states:
            entry.states[label], entry.proposed[label] = State.PROPOSED, score
    entry.doubted = _scores(data, "doubted", place)
    entry.is_complete = as_flag(data.get("complete"), f"{place}: 'complete'")
    for label, value in as_object(data.get("answers") or {}, f"{place}: 'answers'").items():
        given = as_object(value, f"{place}: the answer about '{label}'")
        entry.answers[label] = Answer(str(given.get("who", "")), str(given.get("at", "")))
    return entry.record()


def _address(data: Mapping[str, Any], place: str) -> str:
    """Return the image's address: the field `image`, or else the first that ends as image files do."""
    if "image" in data:
        return as_text(data["image"], f"{place}: 'image'")
    for value in data.values():
        if isinstance(value, str) and is_image(value.partition("?")[0] or value):
            return value
    raise UserError(f"{place} names no image; add a field 'image' with its address")


def _scores(data: Mapping[str, Any], key: str, place: str) -> dict[str, Score]:
    found = {}
    for label, value in as_object(data.get(key) or {}, f"{place}: '{key}'").items():
        values = value if isinstance(value, dict) else {"confidence": value}
        numbers = {name: as_probability(number, f"{place}: '{name}' of '{label}'") for name, number in values.items()}
        found[label] = Score(numbers.pop("confidence", UNKNOWN_CONFIDENCE), numbers)
    return found


def _annotated(record: LabelRecord, annotation: Annotation) -> LabelRecord:
    """Return the record as one annotation leaves it. An answer that is only repeated stays that of the first person."""
    ticked = annotation.ticked
    absent = tuple(label for label in (*record.positives, *record.rejected) if label not in ticked)
    accepted = tuple(sorted(ticked - set(record.observed)))
    new = {*set(accepted) - set(record.accepted), *set(absent) - set(record.rejected)}
    new |= set() if record.is_complete else {COMPLETE}
    kept = {label: answer for label, answer in record.answers.items() if label in (*accepted, *absent, COMPLETE)}
    return replace(
        record,
        observed=tuple(label for label in record.observed if label in ticked),
        accepted=accepted,
        rejected=absent,
        proposed={},
        doubted={label: score for label, score in record.doubted.items() if label in ticked},
        is_complete=True,
        answers={**kept, **dict.fromkeys(sorted(new), annotation.answer)},
    )


def _agreed(before: LabelRecord, each: list[LabelRecord]) -> tuple[LabelRecord, list[str]]:
    """Return the record on which all annotated ones agree, and the labels on which they do not."""
    if not each:
        return before, []
    counts = Counter(label for record in each for label in record.confirmed)
    contested = sorted(label for label, count in counts.items() if count < len(each))
    if not contested:
        return each[0], []
    agreed = each[0]

    def settled(names: Iterable[str], old: Iterable[str]) -> tuple[str, ...]:
        return (*(name for name in names if name not in contested), *(name for name in old if name in contested))

    merged = replace(
        agreed,
        observed=settled(agreed.observed, before.observed),
        accepted=settled(agreed.accepted, before.accepted),
        rejected=settled(agreed.rejected, before.rejected),
        proposed={label: score for label, score in before.proposed.items() if label in contested},
        is_complete=before.is_complete,
    )
    merged = replace(merged, doubted={label: score for label, score in before.doubted.items() if label in merged.confirmed})
    answered = (*merged.accepted, *merged.rejected)
    answers = {label: answer for label, answer in agreed.answers.items() if label in answered and label not in contested}
    answers |= {label: answer for label, answer in before.answers.items() if label in contested or label == COMPLETE}
    return replace(merged, answers=answers), contested


LOOKS_LIKE = "a .json file with a list of tasks, as Label Studio exports them (JSON or JSON-MIN)"
register(Reader("label-studio", detects, read, LOOKS_LIKE, parse=parse))
