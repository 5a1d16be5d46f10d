"""Tables that fit a width: lines break between words, and columns that do not fit side by side come below each other."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.measure import Measurement
from rich.table import Column, Table
from rich.text import Text

WIDEST = 10_000  # lines are broken here, not by rich
WORD = re.compile(r"\S*\s*")
PIECE = re.compile(r"(?:[^\s/.]|\.(?![A-Za-z]))*(?:/+|\.(?=[A-Za-z]))?\s*")  # of a path or damp.top_k, up to a place to break it


def fitted(table: Table, width: int, console: Console) -> Iterator[Table | Text]:
    """Yield a table, with its title before and its caption after it, so that no line is wider than `width`.

    Lines break between words, in cells also after the slashes and dots of a long path; no word is cut. Where the columns do not
    fit side by side, the table comes in several parts below each other, and each repeats the columns that tell the rows apart.
    Only a word that is itself wider than `width` sticks out.
    """
    if table.title:
        yield _wrapped(_text(table.title, console, "table.title"), width, breaks_paths=False)
    columns = [_Column(column, console) for column in table.columns]
    for part in _parts(columns, width - _frame(table, 0), _frame(table, 1) - _frame(table, 0)):
        chosen = [columns[place] for place in part]
        room = width - _frame(table, len(chosen))
        widths = _widths(chosen, room) or [column.least for column in chosen]
        yield _narrowed(table, chosen, widths)
    if table.caption:
        yield _wrapped(_text(table.caption, console, "table.caption"), width, breaks_paths=False)


class _Column:
    """A column as text: its heading and its cells, and the widths that it can have."""

    def __init__(self, column: Column, console: Console) -> None:
        self.column = column
        self.heading = _text(column.header, console)
        self.cells = [_text(cell, console) for cell in column.cells]
        # A figure such as "73.36 ± 0.34" stays on one line, whatever its heading does.
        self.is_whole = column.no_wrap or column.justify == "right"
        cells = [_longest_line(cell) if self.is_whole else _longest_word(cell) for cell in self.cells]
        self.least = max([_longest_word(self.heading), *cells])
        self.most = max(_longest_line(text) for text in (self.heading, *self.cells))


def _parts(columns: Sequence[_Column], room: int, gap: int) -> list[list[int]]:
    """Return the columns of each part: all in one if they fit, otherwise those that tell rows apart, and as many as fit."""
    if not columns or sum(column.least + gap for column in columns) <= room:
        return [list(range(len(columns)))]
    count = next((n for n in range(1, len(columns)) if _tells_rows_apart(columns[:n])), 1)
    others = range(count, len(columns))
    if any(sum(columns[place].least + gap for place in (*range(count), other)) > room for other in others):
        count = 1
    parts: list[list[int]] = []
    for place in range(count, len(columns)):
        if not parts or sum(columns[each].least + gap for each in (*parts[-1], place)) > room:
            parts.append(list(range(count)))
        parts[-1].append(place)
    return parts


def _tells_rows_apart(columns: Sequence[_Column]) -> bool:
    rows = list(zip(*([cell.plain for cell in column.cells] for column in columns), strict=True))
    return len(set(rows)) == len(rows)


def _widths(columns: Sequence[_Column], room: int) -> list[int] | None:
    """Return the widths of columns that share `room`: the widest give way first. None: they do not fit."""
    for cap in range(max((column.most for column in columns), default=0), -1, -1):
        widths = [max(column.least, min(column.most, cap)) for column in columns]
        if sum(widths) <= room:
            return widths
    return None


def _narrowed(table: Table, columns: Sequence[_Column], widths: Sequence[int]) -> Table:
    """Return a table of some columns, with every line broken where it must be."""
    made = _like(table)
    for each, width in zip(columns, widths, strict=True):
        made.add_column(_wrapped(each.heading, width), justify=each.column.justify, style=each.column.style, no_wrap=True)
    for number, row in enumerate(table.rows):
        cells = [_wrapped(each.cells[number], width) for each, width in zip(columns, widths, strict=True)]
        made.add_row(*cells, style=row.style, end_section=row.end_section)
    return made


def _like(table: Table) -> Table:
    """Return an empty table of the same looks."""
    return Table(
        box=table.box,
        show_lines=table.show_lines,
        pad_edge=table.pad_edge,
        padding=table.padding,
        show_header=table.show_header,
    )


def _frame(table: Table, count: int) -> int:
    """Return the width of the lines and spaces around `count` columns."""
    made, console = _like(table), Console(width=WIDEST)
    for _ in range(count):
        made.add_column("", width=1)
    return Measurement.get(console, console.options, made).maximum - count


def _text(content: Any, console: Console, style: str = "") -> Text:
    return console.render_str(content, style=style) if isinstance(content, str) else content


def _longest_line(text: Text) -> int:
    return max(map(cell_len, text.plain.split("\n")))


def _longest_word(text: Text) -> int:
    return max((cell_len(piece.strip()) for piece in PIECE.findall(text.plain)), default=0)


def _wrapped(text: Text, width: int, *, breaks_paths: bool = True) -> Text:
    """Return a text with lines of at most `width`, if its words are no wider."""
    lines = []
    for line in text.split("\n", allow_blank=True):
        start, breaks = 0, []
        for word in WORD.finditer(line.plain):
            is_wide = breaks_paths and cell_len(word[0].rstrip()) > width
            for piece in PIECE.finditer(line.plain, *word.span()) if is_wide else [word]:
                if piece.start() > start and cell_len(line.plain[start : piece.end()].rstrip()) > width:
                    start = piece.start()
                    breaks.append(start)
        for part in line.divide(breaks):
            part.rstrip()
            lines.append(part)
    return Text("\n", style=text.style).join(lines)
