"""Requests of the page, with a limit on everything that they carry."""

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

MOST_CELLS = 48  # of a grid
MOST_ANSWERS = 200  # about one image
MOST_ROWS = 2**31 - 1
LONGEST_ACTION = 300.0  # seconds; whoever takes longer has had a rest
LONGEST_NAME = 40
RESERVED = ";|=@"  # they separate the parts of an answer in a table


def checked_name(who: str) -> str:
    """Return a person's name, without spaces around it; refuse one that a table of answers cannot hold."""
    who = who.strip()
    if not who or len(who) > LONGEST_NAME or not who.isprintable() or set(who) & set(RESERVED):
        raise ValueError(f"a name has 1 to {LONGEST_NAME} printable letters and none of {RESERVED}")
    return who


Number = Annotated[int, Field(ge=0, le=MOST_ROWS)]
CellList = Annotated[list[Number], Field(max_length=MOST_CELLS)]


class Person(BaseModel):
    """The person who asks, with the window and the image set."""

    model_config = ConfigDict(extra="forbid")
    who: Annotated[str, AfterValidator(checked_name)]
    holder: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9-]{8,40}$")]
    set: Annotated[str, StringConstraints(max_length=32)]


class TimedRequest(Person):
    """An action, and what it has cost."""

    keys: Annotated[int, Field(ge=0, le=10_000)] = 0
    seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0

    @property
    def spent(self) -> float:
        """The seconds that count."""
        return min(self.seconds, LONGEST_ACTION)


class AskGrid(Person):
    """Ask for a grid."""

    label: Number | None = None
    ahead: bool = False


class SettleGrid(TimedRequest):
    """Answer a grid."""

    cells: CellList
    marked: CellList = []
    left: CellList = []
    accepts: bool


class SkipGrid(Person):
    """Put a grid off."""

    cells: CellList


class AskImage(Person):
    """Ask for an image."""

    mode: Literal["image", "audit"] = "image"
    row: Number | None = None
    ahead: bool = False


class LeaveImage(Person):
    """Put an image off."""

    row: Number


class LabelAnswer(BaseModel):
    """An answer about one label: 1 accepted, -1 rejected, 0 withdrawn."""

    model_config = ConfigDict(extra="forbid")
    label: Number
    value: Literal[-1, 0, 1]


class AnswerImage(TimedRequest):
    """Answer labels of an image."""

    mode: Literal["image", "audit"] = "image"
    row: Number
    answers: Annotated[list[LabelAnswer], Field(max_length=MOST_ANSWERS)] = []
    complete: bool | None = None


class AcceptAbove(TimedRequest):
    """Accept all proposals above the audited line."""

    label: Number | None = None
    expected: Number


class AskPlan(Person):
    """Ask what fits into some minutes."""

    minutes: Annotated[float, Field(gt=0, le=10_000, allow_inf_nan=False)] = 30.0


class AskTiles(Person):
    """Ask for the teacher's scores of the tiles of an image."""

    row: Number
    labels: CellList = []
