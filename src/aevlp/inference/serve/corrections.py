"""Corrections of labels that people send from the page: checked, and kept as answers like those of `aevlp review`."""

from collections.abc import Callable, Collection
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, ValidationError
from starlette.requests import ClientDisconnect, Request

from aevlp.data.annotations import COMPLETE
from aevlp.data.answers import ACCEPTED, ANSWERS_FILE, REJECTED, AnswerStore, GivenAnswer
from aevlp.inference.hosts import is_from_elsewhere
from aevlp.inference.review.requests import checked_name
from aevlp.inference.serve.uploads import Refusal, in_time

MOST_BYTES = 500_000  # of a request
MOST_IMAGES = 1000
LONGEST_NAME = 1000
MOST_LABELS = 10_000  # of an image
NAMELESS = "somebody"


def checked_image(name: str) -> str:
    """Return the name of an image, relative to the folder of the answers; refuse one that leads out of it."""
    if not name.isprintable() or "\\" in name or name != str(PurePosixPath(name)) or name.startswith("/") or name == ".":
        raise ValueError("an image is named as its file is, relative to the folder of the answers")
    if ".." in PurePosixPath(name).parts:
        raise ValueError("the name of an image does not lead out of the folder of the answers")
    return name


def _labels(description: str) -> Any:
    return Field(default=[], max_length=MOST_LABELS, description=description)


class Correction(BaseModel):
    """The labels of one image, as a person sees them."""

    model_config = ConfigDict(extra="forbid")
    image: Annotated[
        str,
        StringConstraints(min_length=1, max_length=LONGEST_NAME),
        AfterValidator(checked_image),
        Field(description="name of its file"),
    ]
    present: list[str] = _labels("classes that are in it")
    absent: list[str] = _labels("classes that are not in it")
    complete: bool = Field(default=False, description="no other class is in it")


class Corrections(BaseModel):
    """The body of a request."""

    model_config = ConfigDict(extra="forbid")
    who: Annotated[str, AfterValidator(checked_name)] = Field(default=NAMELESS, description="the person's name")
    corrections: Annotated[list[Correction], Field(min_length=1, max_length=MOST_IMAGES)]


def schema() -> dict[str, Any]:
    """Return the JSON schema of a request, in one piece, for OpenAPI."""
    whole = Corrections.model_json_schema()
    whole["properties"]["corrections"]["items"] = whole.pop("$defs")["Correction"]
    return whole


async def read_corrections(request: Request, classes: Collection[str], take: Callable[[int], None]) -> Corrections:
    """Return the corrections of a request; refuse one of another page, beyond the limits, or that makes no sense."""
    if is_from_elsewhere(request.headers):
        raise Refusal(403, "another page may not use this server")
    if request.headers.get("content-type", "").split(";")[0].strip().lower() != "application/json":
        raise Refusal(415, "send JSON (content-type: application/json)")
    body = bytearray()
    try:
        async for piece in in_time(request.stream()):
            body += piece
            if len(body) > MOST_BYTES:
                raise Refusal(413, f"the corrections have more than {MOST_BYTES:,} bytes; send fewer at once")
            take(len(piece))
    except ClientDisconnect:
        raise Refusal(400, "the request breaks off before its end; send it again") from None
    try:
        found = Corrections.model_validate_json(bytes(body))
    except ValidationError as error:
        raise _refusal(error) from None
    _check_labels(found, frozenset(classes))
    return found


def _refusal(error: ValidationError) -> Refusal:
    first = error.errors(include_url=False, include_context=False)[0]
    if first["type"] == "json_invalid":
        return Refusal(400, "the corrections cannot be read as JSON; send them again")
    place = ".".join(map(str, first["loc"])) or "the request"
    return Refusal(422, f"{place}: {str(first['msg']).removeprefix('Value error, ')}")


def _check_labels(found: Corrections, classes: frozenset[str]) -> None:
    for each in found.corrections:
        if unknown := next((name for name in (*each.present, *each.absent) if name not in classes), None):
            raise Refusal(422, f"{each.image}: {unknown!r} is not a class of this model; api/model lists them")
        if both := next((name for name in each.present if name in each.absent), None):
            raise Refusal(422, f"{each.image}: {both!r} cannot be both present and absent; send one of them")
        if not each.present and not each.absent and not each.complete:
            raise Refusal(422, f"{each.image}: nothing is said about its labels; send what is present, absent or complete")


def keep(store: AnswerStore, found: Corrections) -> int:
    """Record corrections as one action and return the number of answers; they are on disk when it returns."""
    answers = [
        GivenAnswer(each.image, label, value)
        for each in found.corrections
        for labels, value in ((each.present, ACCEPTED), (each.absent, REJECTED), ([COMPLETE] * each.complete, ACCEPTED))
        for label in dict.fromkeys(labels)
    ]
    store.record(found.who, answers, kind="image")
    return len(answers)


def as_file(found: Corrections) -> bytes:
    """Return a file of answers that holds these corrections alone."""
    with TemporaryDirectory(prefix="aevlp-serve-") as folder:
        path = Path(folder) / ANSWERS_FILE
        keep(AnswerStore(path), found)
        return path.read_bytes()
