"""Dataclass fields as command-line options and recipe keys.

Plain argparse. Values from the command line and from recipe files go through the same `read_value`, so that a wrong one gets the
same one-line error wherever it stands.
"""

import argparse
import ast
import inspect
import math
import os
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from os import PathLike, fspath
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, Literal, NoReturn, Union, get_args, get_origin, get_type_hints

from argcomplete import autocomplete

from aevlp.core.errors import UserError, did_you_mean, require

# Options that people type often have a short name beside their full one.
SHORT_NAMES = {
    "data.format": "--format",
    "data.observe": "--observe",
    "data.zeros": "--zeros",
    "data.proposed": "--proposed",
    "data.answers": "--answers",
    "data.bad_images": "--bad-images",
    "data.image_column": "--image-column",
    "data.label_column": "--label-column",
    "data.classes_without_examples": "--classes-without-examples",
    "teacher.name": "--teacher",
    "teacher.prompts": "--prompts",
    "model.backbone": "--backbone",
    "model.features": "--features",
    "train.epochs": "--epochs",
}


COMPLETING = "_ARGCOMPLETE"
"""Environment variable that a shell sets when it asks for completions in place of running a command."""
LARGEST = 10**18
"""No option is larger: beyond this, numbers no longer fit into the 64 bits of an array's index."""


@dataclass(frozen=True)
class Range:
    """The values that an option may have: `Annotated[int, AtLeast(1)]`. None stands for no limit."""

    low: float | None = None
    high: float | None = None
    excludes_low: bool = False
    excludes_high: bool = False

    def __contains__(self, value: float) -> bool:
        is_high_enough = self.low is None or (value > self.low if self.excludes_low else value >= self.low)
        is_low_enough = self.high is None or (value < self.high if self.excludes_high else value <= self.high)
        return math.isfinite(value) and is_high_enough and is_low_enough

    def __str__(self) -> str:
        if self.high is None:
            return f"{'above' if self.excludes_low else 'at least'} {self.low:g}"
        if self.excludes_low:
            return f"above {self.low:g} and {'below' if self.excludes_high else 'at most'} {self.high:g}"
        return f"from {self.low:g} to {'below ' if self.excludes_high else ''}{self.high:g}"


def AtLeast(low: float) -> Range:
    """Return the range of `low` and everything above it."""
    return Range(low)


def Above(low: float) -> Range:
    """Return the range of everything above `low`."""
    return Range(low, excludes_low=True)


def Between(low: float, high: float, *, excludes_low: bool = False, excludes_high: bool = False) -> Range:
    """Return the range from `low` to `high`."""
    return Range(low, high, excludes_low, excludes_high)


@dataclass(frozen=True)
class Options:
    """Base of the dataclasses whose fields are options of a `section`. The text below a field is its help.

    A field's range stands in its type; a value outside it is refused when the dataclass is made.
    """

    section: ClassVar[str] = ""

    def __init_subclass__(cls, section: str | None = None) -> None:
        if section is not None:
            cls.section = section

    def __post_init__(self) -> None:
        """Check every field's range."""
        hints = get_type_hints(type(self), include_extras=True)
        for field in fields(self):
            value, allowed = getattr(self, field.name), _range_in(hints[field.name])
            if allowed is not None and value is not None:
                key = f"{self.section}.{field.name}" if self.section else field.name.replace("_", "-")
                require(value in allowed, key, str(allowed), value)
                require(value <= LARGEST, key, f"at most {LARGEST:g}", value)


@dataclass(frozen=True)
class Option:
    """One option: its key (`section.field`), type, default and line of help."""

    key: str
    kind: Any
    default: Any
    help: str
    range: Range | None = None

    @property
    def flag(self) -> str:
        """The key as it stands on the command line: an option without a section has hyphens."""
        return self.key if "." in self.key else self.key.replace("_", "-")

    @property
    def values(self) -> str:
        """Its values in plain words: 'a whole number, at least 1, or null'."""
        allowed = "" if self.range is None else f", {self.range}"
        if allowed and NoneType in choices_of(self.kind):
            return f"{describe(self.kind).removesuffix(' or null')}{allowed}, or null"
        return describe(self.kind) + allowed

    @property
    def names(self) -> list[str]:
        """The names on the command line: the short one, if there is one, and the full one."""
        return [*([SHORT_NAMES[self.key]] if self.key in SHORT_NAMES else []), f"--{self.flag}"]


@cache
def _field_docs(kind: type) -> dict[str, str]:
    """Return field name -> the text below it, from the source of the class and its bases."""
    docs: dict[str, str] = {}
    for base in reversed(kind.__mro__[:-1]):
        body = ast.parse(textwrap.dedent(inspect.getsource(base))).body[0]
        assert isinstance(body, ast.ClassDef)
        for line, after in zip(body.body, body.body[1:], strict=False):
            if (
                isinstance(line, ast.AnnAssign)
                and isinstance(line.target, ast.Name)
                and isinstance(after, ast.Expr)
                and isinstance(after.value, ast.Constant)
            ):
                docs[line.target.id] = " ".join(str(after.value.value).split())
    return docs


def options_of(section: str, kind: type) -> list[Option]:
    """Return the options of a dataclass; section '' gives keys without a dot."""
    plain, annotated, docs = get_type_hints(kind), get_type_hints(kind, include_extras=True), _field_docs(kind)
    prefix = f"{section}." if section else ""
    return [Option(prefix + f.name, plain[f.name], f.default, docs[f.name], _range_in(annotated[f.name])) for f in fields(kind)]


def _range_in(hint: Any) -> Range | None:
    """Return the range that a type is annotated with, also as one of several alternatives."""
    if get_origin(hint) is Annotated:
        return next((extra for extra in hint.__metadata__ if isinstance(extra, Range)), None)
    return next((found for choice in choices_of(hint) if choice is not hint and (found := _range_in(choice))), None)


def choices_of(kind: Any) -> tuple[Any, ...]:
    """Return the alternatives of a union type, or the type itself."""
    return get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)


def describe(kind: Any) -> str:
    """Describe a type in plain words: 'a whole number or null'."""
    words = {int: "a whole number", float: "a number", bool: "true or false", str: "a text", NoneType: "null"}
    return " or ".join(" or ".join(get_args(k)) if get_origin(k) is Literal else words[k] for k in choices_of(kind))


def words_of(kind: Any) -> list[str]:
    """Return the words that an option of that type may be; none if it takes a number or any text."""
    words = {bool: ("true", "false"), NoneType: ("null",)}
    found = [get_args(choice) if get_origin(choice) is Literal else words.get(choice) for choice in choices_of(kind)]
    return [] if None in found else [word for choice in found if choice for word in choice]


def read_value(text: str, kind: Any) -> Any:
    """Return the value that `text` means for an option of that type; ValueError if it means none."""
    for choice in sorted(choices_of(kind), key=lambda k: k is str):  # a text takes anything, so it is tried last
        if choice is NoneType and text in ("null", "~", ""):
            return None
        if choice is bool and text.lower() in ("true", "false"):
            return text.lower() == "true"
        if get_origin(choice) is Literal and text in get_args(choice):
            return text
        if choice is str:
            return text
        if choice in (int, float):
            try:
                value = choice(text)
                is_finite = math.isfinite(value)
            except (ValueError, OverflowError):  # no number, or one with hundreds of digits
                continue
            if is_finite:
                return value
    raise ValueError(text)


def typed_value(value: Any, kind: Any) -> Any:
    """Return a value given in Python as an option of that type has it; a text may stand for any value; else ValueError."""
    if isinstance(value, str | PathLike):
        return read_value(fspath(value), kind)
    for choice in choices_of(kind):
        if value is None and choice is NoneType:
            return None
        if isinstance(value, bool) and choice is bool:
            return value
        if choice in (int, float) and isinstance(value, choice | int) and not isinstance(value, bool) and math.isfinite(value):
            return choice(value)
    raise ValueError(value)


def show_value(value: Any) -> str:
    """Return a default as the user would type it."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return f"{value:g}" if isinstance(value, float) else str(value)


class Parser(argparse.ArgumentParser):
    """argparse that raises UserError, takes option names in full only and suggests the nearest one.

    `--help` shows the common options. If there are others, `--help-all` shows them all.
    """

    def __init__(self, command: str, summary: str, example: str = "") -> None:
        super().__init__(
            prog=f"aevlp {command}",
            description=summary + (f"\n\nexample: {example}" if example else ""),
            allow_abbrev=False,
            formatter_class=_Help,
            usage=argparse.SUPPRESS,
            add_help=False,
        )
        self.command = command
        self.foreign_options: dict[str, str] = {}  # option name -> why it is not an option here
        self._rare: list[argparse.Action] = []  # options that only --help-all shows
        self._groups: dict[str, argparse._ArgumentGroup] = {}
        self._negative_number_matcher = re.compile(r"^-(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$")  # argparse knows no exponents
        self.add_argument("-h", "--help", action=_ShowHelp, help="show this text")

    def error(self, message: str) -> NoReturn:
        """Raise the message as one line."""
        raise UserError(f"{message}; see aevlp {self.command} --help")

    def group(self, title: str) -> argparse._ArgumentGroup:
        """Return the group of that title, which `--help` shows under a heading of its own."""
        if title not in self._groups:
            self._groups[title] = self.add_argument_group(title)
        return self._groups[title]

    def add_option(self, option: Option, *, group: str | None = None, rare: bool = False) -> None:
        """Add an option of a dataclass. It is absent from the result unless the user gives it; `--help` hides a rare one."""

        def read(text: str) -> Any:
            try:
                return read_value(text, option.kind)
            except ValueError:
                raise argparse.ArgumentTypeError(f"must be {describe(option.kind)}, not {text!r}") from None

        action = (self if group is None else self.group(group)).add_argument(
            *option.names,
            dest=option.key,
            type=read,
            default=argparse.SUPPRESS,
            metavar="VALUE",
            nargs="?" if option.kind is bool else None,
            const=True if option.kind is bool else None,  # alone it means true
            help=f"{option.help} ({option.values}; default: {show_value(option.default)})".replace("%", "%%"),
        )
        if words := words_of(option.kind):
            action.completer = lambda **_: words  # type: ignore[attr-defined]
        if rare:
            if not self._rare:
                self.add_argument("--help-all", action=_ShowHelp, help=argparse.SUPPRESS)  # the last line of --help names it
            self._rare.append(action)

    def format_help(self, *, everything: bool = False) -> str:
        """Return the help of the common options, or of everything."""
        if everything or not self._rare:
            return super().format_help()
        texts = [action.help for action in self._rare]
        for action in self._rare:
            action.help = argparse.SUPPRESS
        try:
            more = f"\n{len(texts)} more options: aevlp {self.command} --help-all\n"
            return super().format_help() + more
        finally:
            for action, text in zip(self._rare, texts, strict=True):
                action.help = text

    def read(self, argv: Sequence[str]) -> argparse.Namespace:
        """Return the parsed arguments; an unknown option is an error that names the nearest valid one.

        Where a shell asks for completions, print them and exit.
        """
        if COMPLETING in os.environ:
            autocomplete(self, always_complete_options="long")
        known, unknown = self.parse_known_args(argv)
        if unknown:
            word = unknown[0].split("=")[0]
            if word in self.foreign_options:
                raise UserError(self.foreign_options[word])
            names = [name for action in self._actions for name in action.option_strings]
            kind = "unknown option" if word.startswith("-") else "unexpected argument"
            self.error(f"{kind} {word}{did_you_mean(word, names)}")
        return known


class _ShowHelp(argparse.Action):
    """Print the help and exit; `--help-all` shows the rare options too."""

    def __init__(self, option_strings: Sequence[str], dest: str, help: str) -> None:
        super().__init__(option_strings, dest=argparse.SUPPRESS, default=argparse.SUPPRESS, nargs=0, help=help)

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        assert isinstance(parser, Parser)
        print(parser.format_help(everything="--help-all" in self.option_strings), end="")
        parser.exit()


class _Help(argparse.RawDescriptionHelpFormatter):
    """Help with room for long option names."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=34, width=120)


def overlay(options: Iterable[Option], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return key -> value: the given values over the options' defaults."""
    return {option.key: values.get(option.key, option.default) for option in options}


def section_values(values: Mapping[str, Any], section: str) -> dict[str, Any]:
    """Return the values of one section, by field name."""
    prefix = f"{section}."
    return {key.removeprefix(prefix): value for key, value in values.items() if key.startswith(prefix)}
