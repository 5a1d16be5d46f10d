"""Draw the package's rooms, the imports between them and the way of `aevlp train` through them: docs/house.svg.

    python -m tools.house            writes the picture
    python -m tools.house --check    exits 1 if the picture is not current

The picture is drawn from the source: imports inside functions and under TYPE_CHECKING count too. It holds no line counts, so
that it changes only with the rooms, their modules and the imports between them.
"""

from __future__ import annotations

import argparse
import ast
import sys
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

REPOSITORY = Path(__file__).parent.parent
PACKAGE = REPOSITORY / "src" / "aevlp"
PICTURE = REPOSITORY / "docs" / "house.svg"

ROOMS = {  # from the top of the house to its bottom, with the hue of each in degrees
    **{"core": 215, "data": 200, "losses": 185, "models": 165, "store": 145, "damp": 110, "sources": 75},
    **{"config": 45, "training": 25, "inference": 5, "reports": 340, "experiments": 305, "cli": 270},
}


@dataclass(frozen=True)
class Step:
    """A call on the way of `aevlp train`."""

    module: str
    caller: str | None  # a module of an earlier step
    deed: str
    registered: bool = False  # the caller finds the module by its name in a registry, not by an import


PATH = (
    Step("cli.train", None, "reads the command"),
    Step("cli.arguments", "cli.train", "reads its options"),
    Step("config.recipe", "cli.arguments", "builds the Config"),
    Step("experiments.train", "cli.train", "makes one run of it"),
    Step("data.load", "experiments.train", "reads images and labels"),
    Step("experiments.finalize", "experiments.train", "trains and finishes it"),
    Step("training.run", "experiments.finalize", "claims the run folder"),
    Step("training.setup", "training.run", "prepares what is trained"),
    Step("models.classifier", "training.setup", "builds the classifier"),
    Step("sources.damp", "training.setup", "is the label source", registered=True),
    Step("damp.view_embeddings", "sources.damp", "plans the views"),
    Step("models.teacher", "damp.view_embeddings", "loads the teacher"),
    Step("training.loop", "training.run", "runs the epochs"),
    Step("store.fill", "damp.view_embeddings", "scores and keeps the views"),
    Step("damp.labels", "sources.damp", "makes pseudo-labels"),
    Step("losses.gpr", "training.loop", "is the loss of a batch", registered=True),
    Step("training.evaluate", "training.loop", "measures on validation"),
    Step("models.model_folder", "training.loop", "keeps the best model"),
    Step("training.checkpoint", "training.loop", "keeps a checkpoint"),
    Step("training.finalize", "experiments.finalize", "measures on the test split"),
    Step("training.thresholds", "training.finalize", "fits the thresholds"),
    Step("reports.model_card", "experiments.finalize", "writes the model card"),
    Step("reports.run_page", "experiments.finalize", "writes the report"),
)
EPOCH = ("damp.labels", "training.checkpoint")  # first and last step of what every epoch repeats


def modules(package: Path = PACKAGE) -> dict[str, Path]:
    """Return the file of every module, by its name without the package's: "data.load", and "data" for its `__init__.py`."""
    files = {".".join(file.relative_to(package).with_suffix("").parts): file for file in sorted(package.rglob("*.py"))}
    return {name.removesuffix(".__init__"): file for name, file in files.items()}


def imports(file: Path, known: Mapping[str, Path]) -> Iterator[str]:
    """Yield the modules of the package that a file imports anywhere."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("aevlp."):
            module = node.module.removeprefix("aevlp.")
            for alias in node.names:
                inner = f"{module}.{alias.name}"
                yield inner if inner in known else module
        elif isinstance(node, ast.Import):
            yield from (alias.name.removeprefix("aevlp.") for alias in node.names if alias.name.startswith("aevlp."))


def room_of(module: str) -> str:
    """Return the room of a module."""
    return module.split(".")[0]


def imports_between_rooms(known: Mapping[str, Path]) -> Counter[tuple[str, str]]:
    """Count the imports of modules of another room, by (importing room, imported room)."""
    pairs = {(name, other) for name, file in known.items() for other in imports(file, known)}
    rooms = Counter((room_of(one), room_of(other)) for one, other in pairs)
    return Counter({(one, other): n for (one, other), n in rooms.items() if one != other and {one, other} <= ROOMS.keys()})


def purpose(room: str, known: Mapping[str, Path]) -> str:
    """Return the first line of a room's docstring."""
    text = ast.get_docstring(ast.parse(known[room].read_text(encoding="utf-8"))) or ""
    return text.split("\n")[0].replace("`", "")


def is_registered(file: Path) -> bool:
    """Return whether a module registers something: it calls a function whose name begins with `register`."""
    calls = (node.func for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))) if isinstance(node, ast.Call))
    return any(isinstance(function, ast.Name) and function.id.startswith("register") for function in calls)


def mistakes(path: Sequence[Step], known: Mapping[str, Path]) -> list[str]:
    """Return a line for every step that the code does not bear out."""
    found = []
    seen: set[str] = set()
    for step in path:
        if step.module not in known:
            found.append(f"{step.module}: no such module")
        elif step.caller is not None and step.caller not in seen:
            found.append(f"{step.module}: {step.caller} is not an earlier step")
        elif step.registered and not is_registered(known[step.module]):
            found.append(f"{step.module}: registers nothing")
        elif step.caller is not None and not step.registered and step.module not in imports(known[step.caller], known):
            found.append(f"{step.module}: {step.caller} does not import it")
        else:
            seen.add(step.module)
    return found


# Measures of the picture, in pixels.
MARGIN, HEAD = 28, 104  # around everything; height above the first room
PITCH, BOX = 70, 58  # from room to room; height of a room
LANE = 16  # from lane to lane of the imports
BOX_LEFT = MARGIN + LANE * len(ROOMS) + 14
BOX_WIDTH, WRAP = 404, 61  # width of a room; letters of a line in it
STEPS_LEFT = BOX_LEFT + BOX_WIDTH + 30
STEP = 23  # from step to step of the way
NODE = 9.5  # radius of a step
SUBLANE = 20  # from a module to one that it calls in the same room
WIDTH = STEPS_LEFT + STEP * len(PATH) + MARGIN - 6
LEGEND_COLUMNS, LEGEND_LINE = 3, 23
LEGEND_TOP = HEAD + PITCH * len(ROOMS) + 36
HEIGHT = LEGEND_TOP + LEGEND_LINE * -(-len(PATH) // LEGEND_COLUMNS) + MARGIN
DOTS = ((1, 2.9, "1"), (5, 4.2, "2 to 5"), (sys.maxsize, 5.8, "6 or more"))  # up to so many imports, radius, words

STYLE = """
text { font-family: system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", Arial, sans-serif; fill: #1f2733; }
.title { font-size: 23px; font-weight: 700; }
.head { font-size: 13px; font-weight: 700; }
.note { font-size: 12px; fill: #5b6675; }
.room { font-size: 15px; font-weight: 700; }
.count { font-size: 11.5px; fill: #5b6675; text-anchor: end; }
.purpose { font-size: 11.5px; fill: #3c4655; }
.number { font-size: 10.5px; font-weight: 700; fill: #fff; text-anchor: middle; }
.module { font-size: 12px; font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; }
.guide { stroke: #e6eaef; stroke-width: 1; }
.call { stroke: #2b3442; stroke-width: 1.6; fill: none; stroke-linejoin: round; }
""".strip()


def colour(room: str, lightness: int = 42) -> str:
    """Return a room's colour."""
    return f"hsl({ROOMS[room]}, 55%, {lightness}%)"


def row(room: str) -> int:
    """Return the height of a room's middle."""
    return HEAD + list(ROOMS).index(room) * PITCH + BOX // 2


def lane(room: str) -> int:
    """Return the place of the lane that leads up to a room; the higher the room, the further out."""
    return MARGIN + 8 + list(ROOMS).index(room) * LANE


def text(x: float, y: float, kind: str, words: str) -> str:
    """Return a line of text."""
    return f'<text x="{x:g}" y="{y:g}" class="{kind}">{escape(words, quote=False)}</text>'


def dot_radius(count: int) -> float:
    """Return the radius of the dot for so many imports."""
    return next(radius for most, radius, _ in DOTS if count <= most)


def draw_rooms(known: Mapping[str, Path]) -> Iterator[str]:
    """Draw a box for every room: its name, its purpose and its number of modules."""
    for room in ROOMS:
        top = row(room) - BOX // 2
        count = sum(room_of(name) == room and file.name != "__init__.py" for name, file in known.items())
        yield f'<line x1="{BOX_LEFT + BOX_WIDTH}" y1="{row(room)}" x2="{WIDTH - MARGIN}" y2="{row(room)}" class="guide"/>'
        yield (
            f'<rect x="{BOX_LEFT}" y="{top}" width="{BOX_WIDTH}" height="{BOX}" rx="7" '
            f'fill="{colour(room, 97)}" stroke="{colour(room, 75)}"/>'
        )
        yield f'<rect x="{BOX_LEFT}" y="{top + 8}" width="4" height="{BOX - 16}" rx="2" fill="{colour(room)}"/>'
        yield text(BOX_LEFT + 15, top + 19, "room", room)
        yield text(BOX_LEFT + BOX_WIDTH - 12, top + 19, "count", f"{count} modules")
        words = purpose(room, known)
        if len(textwrap.wrap(words, WRAP)) > 2:
            words = words.split(". ")[0].rstrip(".") + "."
        lines = textwrap.wrap(words, WRAP, max_lines=2, placeholder=" …")
        for number, line in enumerate(lines):
            yield text(BOX_LEFT + 15, top + 35 + 15 * number, "purpose", line)


def draw_imports(between: Mapping[tuple[str, str], int]) -> Iterator[str]:
    """Draw a lane up to every room that others import, and a row from every importing room with a dot on each of its lanes."""
    enters, leaves = -9, 9  # a room's arrow comes in above its middle, its row goes out below
    for room in ROOMS:
        others = [other for other in ROOMS if (room, other) in between]
        if others:
            y = row(room) + leaves
            yield f'<path d="M{BOX_LEFT} {y}H{lane(others[0])}" stroke="{colour(room, 78)}" stroke-width="1.2" fill="none"/>'
    for room in ROOMS:
        users = [other for other in ROOMS if (other, room) in between]
        if users:
            x, y = lane(room), row(room) + enters
            yield (
                f'<path d="M{x} {row(users[-1]) + leaves}V{y + 8}Q{x} {y} {x + 8} {y}H{BOX_LEFT - 7}" '
                f'stroke="{colour(room)}" stroke-width="1.5" fill="none"/>'
            )
            yield f'<path d="M{BOX_LEFT - 1} {y}l-8 -4v8z" fill="{colour(room)}"/>'
    for one, other in sorted(between):
        radius = dot_radius(between[one, other])
        title = f"{one} imports {other}"
        yield (
            f'<circle cx="{lane(other)}" cy="{row(one) + leaves}" r="{radius:g}" fill="{colour(other)}" stroke="#fff">'
            f"<title>{title}</title></circle>"
        )


def places(path: Sequence[Step]) -> dict[str, tuple[float, float]]:
    """Return the place of every step: further right the later, in the row of its room, lower if its own room calls it."""
    by_module = {step.module: step for step in path}

    def depth(step: Step) -> int:
        if step.caller is None or room_of(step.caller) != room_of(step.module):
            return 0
        return 1 + depth(by_module[step.caller])

    deepest = {room: max((depth(step) for step in path if room_of(step.module) == room), default=0) for room in ROOMS}
    return {
        step.module: (
            STEPS_LEFT + STEP * number,
            row(room_of(step.module)) + SUBLANE * (depth(step) - deepest[room_of(step.module)] / 2),
        )
        for number, step in enumerate(path)
    }


def draw_steps(path: Sequence[Step]) -> Iterator[str]:
    """Draw the way: from every caller along its row, then up or down to the module that it calls."""
    at = places(path)
    first, last = (at[module][0] for module in EPOCH)
    top, bottom = row("core") - BOX / 2 - 4, row("cli") + BOX / 2 + 4
    yield (
        f'<rect x="{first - STEP / 2:g}" y="{top:g}" width="{last - first + STEP:g}" height="{bottom - top:g}" '
        'rx="8" fill="#fff4dc"/>'
    )
    yield text(first - STEP / 2 + 8, top + 17, "note", "every epoch")
    for step in path:
        if step.caller is not None:
            (x0, y0), (x, y) = at[step.caller], at[step.module]
            bend = 6 if y > y0 else -6
            yield f'<path d="M{x0:g} {y0:g}H{x - 6:g}Q{x:g} {y0:g} {x:g} {y0 + bend:g}V{y:g}" class="call"/>'
    for number, step in enumerate(path, 1):
        x, y = at[step.module]
        yield from draw_node(x, y, number, room_of(step.module))


def draw_node(x: float, y: float, number: int, room: str) -> Iterator[str]:
    """Draw a numbered step in its room's colour."""
    yield f'<circle cx="{x:g}" cy="{y:g}" r="{NODE}" fill="{colour(room, 38)}" stroke="#fff" stroke-width="1.5"/>'
    yield text(x, y + 3.8, "number", str(number))


def draw_legend(path: Sequence[Step]) -> Iterator[str]:
    """Name the steps below the picture, column by column."""
    per_column = -(-len(path) // LEGEND_COLUMNS)
    column_width = (WIDTH - 2 * MARGIN) / LEGEND_COLUMNS
    yield text(MARGIN, LEGEND_TOP - 16, "head", "The steps of aevlp train, with the method aevlp")
    for index, step in enumerate(path):
        x = MARGIN + 10 + index // per_column * column_width
        y = LEGEND_TOP + 8 + index % per_column * LEGEND_LINE
        yield from draw_node(x, y, index + 1, room_of(step.module))
        yield text(x + 18, y + 4, "module", step.module)
        yield text(x + 18 + 158, y + 4, "note", step.deed)


def draw_headings() -> Iterator[str]:
    """Draw the title and the headings of the three parts."""
    yield text(MARGIN, 44, "title", "aevlp: thirteen rooms, and the way of a training through them")
    yield text(MARGIN, 72, "head", "Imports")
    yield text(MARGIN, 88, "note", "only from rooms above")
    x = BOX_LEFT
    yield text(x, 72, "head", "Rooms")
    yield text(x, 88, "note", "A dot: this room imports the room its lane leads to.")
    yield text(STEPS_LEFT - NODE, 72, "head", "aevlp train photos")
    yield text(STEPS_LEFT - NODE, 88, "note", "Each line is a call; time runs to the right.")
    x = WIDTH - MARGIN - 262
    yield text(x, 44, "note", "Imports:")
    x += 62
    for _, radius, words in DOTS:
        yield f'<circle cx="{x}" cy="40" r="{radius:g}" fill="#5b6675"/>'
        yield text(x + 10, 44, "note", words)
        x += 30 + 6 * len(words)


def draw() -> str:
    """Return the picture of the package as it is."""
    known = modules()
    if found := mistakes(PATH, known):
        raise SystemExit("tools/house.py: the way of aevlp train is out of date:\n" + "\n".join(found))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" role="img">',
        "<title>The rooms of aevlp, the imports between them, and the way of a training through them</title>",
        f"<style>\n{STYLE}\n</style>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" rx="12" fill="#fff"/>',
        *draw_headings(),
        *draw_imports(imports_between_rooms(known)),
        *draw_rooms(known),
        *draw_steps(PATH),
        *draw_legend(PATH),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def main(argv: Sequence[str] | None = None) -> None:
    """Write the picture, or check it."""
    parser = argparse.ArgumentParser(prog="python -m tools.house", description="Draw docs/house.svg.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if the picture is not current")
    given = parser.parse_args(argv)
    drawn = draw()
    if not given.check:
        PICTURE.write_text(drawn, encoding="utf-8")
    elif not PICTURE.is_file() or PICTURE.read_text(encoding="utf-8") != drawn:
        raise SystemExit("docs/house.svg is not current; draw it again: python -m tools.house")


if __name__ == "__main__":
    main()
