"""Merge answers of several people and tools into one file of labels: read them, join them, write the file and the conflicts."""

import csv
import io
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from aevlp.core.errors import UserError
from aevlp.core.files import write_text
from aevlp.core.remote import RemotePath
from aevlp.core.spreadsheets import path_cell, text_cell
from aevlp.core.tables import next_steps
from aevlp.data.annotations import WHOLE_IMAGE
from aevlp.data.answers import AnswerStore, answers_file
from aevlp.data.dataset import ImageTable
from aevlp.data.label_file import ParsedLabels
from aevlp.data.load import NO_ANSWERS, DataOptions, read_answered
from aevlp.data.merge import AnswerSource, Joined, RowFinder, file_source, join, own_source, store_source
from aevlp.data.readers import read, reader_of
from aevlp.data.records import table_records
from aevlp.inference.completion.formats import LabelFile, find_format

COLUMNS = ("image", "label", "answer", "source", "who", "when")
WHOLE = "(complete)"  # in place of a label
SHOWN = 5  # conflicts in the terminal
SQLITE = b"SQLite format 3\0"  # beginning of every file of SQLite


@dataclass(frozen=True, eq=False)
class Merge:
    """The outcome of a merge."""

    joined: Joined
    sources: tuple[AnswerSource, ...]
    data: Path
    file: Path

    @property
    def table(self) -> ImageTable:
        """The image set with the answers."""
        return self.joined.table

    def summary(self) -> str:
        """Return the figures in a few lines, as `aevlp merge` prints them; the last ones are the next steps."""
        table, changed, conflicts = self.table, self.joined.changed, self.joined.conflicts
        lines = [f"{len(table.names)} images, {len(table.classes)} classes"]
        for source in self.sources:
            others = f"; {source.foreign} about images or classes that {self.data} does not have" if source.foreign else ""
            lines.append(f"{source.name}: {len(source.statements)} answers{others}")
            lines += source.notes
        lines.append(
            f"new: {changed['accepted']} labels accepted, {changed['rejected']} rejected, {changed['complete']} images complete"
        )
        if conflicts:
            lines.append(f"{len(conflicts)} conflicts; these stay as they are in {self.data}:")
            for each in conflicts[:SHOWN]:
                lines.append(f"  {table.names[each.row]}, {_label(table, each.column)}: {'; '.join(map(str, each.statements))}")
            if len(conflicts) > SHOWN:
                lines.append(f"  ... all of them are in {conflicts_file(self.file)}")
        lines.append(f"written: {self.file}" + (f", {conflicts_file(self.file)}" if conflicts else ""))
        return "\n".join([*lines, next_steps(["check", self.file], ["train", self.file, "--out", "RUN"])])


def conflicts_file(out: Path) -> Path:
    """Return the file of the conflicts, beside the merged file."""
    return out.with_name(f"{out.stem}-conflicts.csv")


def merge_labels(
    data: Path, answers: Sequence[Path], out: Path, *, out_format: str | None = None, options: DataOptions | None = None
) -> Merge:
    """Join the answers about the image set at `data` and write its labels to `out`.

    `answers` are stores of `aevlp review` or files of labels that people have changed. Nothing is decided where they contradict
    each other: `conflicts_file(out)` lists these labels. All refusals come before anything is written.
    """
    format = find_format(out, out_format)
    format.check_path(out)
    options = options or DataOptions()
    has_own = options.answers is None and not isinstance(data, RemotePath)
    if has_own and any(_is_same(path, answers_file(data)) for path in answers):
        options = replace(options, answers=NO_ANSWERS)  # it counts as a source of its own
    table = read_answered(data, options)
    file = LabelFile(out, table.root, table.classes)
    format.check(file)
    finder, states = RowFinder(table), table.annotations.states(table.labels)
    sources: list[AnswerSource] = []
    for path in answers:
        if _is_store(path):
            sources.append(store_source(AnswerStore(path, must_exist=True), path.name, table, finder))
        else:
            sources += [file_source(parsed, table, finder, states) for parsed in _parsed(path)]
    joined = join(table, [own_source(table, str(data)), *sources])
    merged = Merge(joined, tuple(sources), data, out)
    listed = _conflicts(file, joined) if joined.conflicts else None
    _refuse_other_list(out, listed)
    if listed is not None:
        write_text(conflicts_file(out), listed)
    try:
        format.write(file, table_records(joined.table))
    except BaseException:
        conflicts_file(out).unlink(missing_ok=True)
        raise
    return merged


def _refuse_other_list(out: Path, listed: str | None) -> None:
    """Refuse a list of conflicts that is there and is not this one; this one is left by a merge that was killed."""
    there = conflicts_file(out)
    if os.path.lexists(there) and (
        listed is None or not there.is_file() or there.read_bytes() != listed.encode(errors="surrogateescape")
    ):
        raise UserError(f"--out {out}: {there}, the list of conflicts, exists; move it away or choose another name")


def _is_same(one: Path, other: Path) -> bool:
    return one.exists() and other.exists() and one.samefile(other)


def _is_store(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(SQLITE)) == SQLITE


def _parsed(path: Path) -> list[ParsedLabels]:
    """Return the labels at a path, by each person; of an image set that is no single file, with absolute names."""
    reader = reader_of(path)
    if reader.parse is not None:
        return [parsed for parsed in reader.parse(path) if parsed.placed]
    table = read(path)
    records = [replace(record, name=str((table.root / record.name).absolute())) for record in table_records(table)]
    return [ParsedLabels(path, [(str(path), record) for record in records], table.classes)]


def _label(table: ImageTable, column: int) -> str:
    return WHOLE if column == WHOLE_IMAGE else table.classes[column]


def _conflicts(file: LabelFile, joined: Joined) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for each in joined.conflicts:
        cell = (path_cell(file.relative(joined.table.names[each.row])), _label(joined.table, each.column))
        for said in each.statements:
            writer.writerow(map(text_cell, (*cell, said.word, said.source, said.answer.who, said.answer.at)))
    return text.getvalue()
