"""The long commands, each with what it must have written at the end, whatever happened before."""

import csv
import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.campaign.bench import SET
from tools.campaign.trial import Trial, run

TIMES = {"images_per_second", "seconds", "versions"}
"""Keys of JSON that differ between two runs that are the same."""
UNCOMPARED = {"log.txt", "tensorboard", "checkpoints", ".lock", "report.html"}
"""Parts of a folder that hold times, or that may be there or not."""


@dataclass(frozen=True)
class Scenario:
    """A command that is disturbed, and given again until it has done its work."""

    name: str
    words: tuple[str, ...]
    outputs: tuple[str, ...] = ()
    """Files and folders that must be the same as after an undisturbed run."""
    kills: int = 10
    """Share of the kills."""
    before: Callable[[Path], None] | None = None
    """Makes the bench ready."""
    resumes: bool = False
    """Whether `--resume auto` continues it."""
    limit: float = 60.0
    """Seconds; commands that start processes of their own take longer."""

    @property
    def again(self) -> tuple[str, ...]:
        """The command that goes on after a fault."""
        return (*self.words, "--resume", "auto") if self.resumes else self.words

    def digest(self, folder: Path) -> dict[str, str]:
        """Return the SHA-256 of every output, without times."""
        found = {}
        for name in self.outputs:
            path = folder / name
            for file in [path] if path.is_file() else sorted(path.rglob("*")):
                parts = file.relative_to(folder).parts
                if file.is_file() and not UNCOMPARED.intersection(parts):
                    found["/".join(parts)] = hashlib.sha256(_content(file)).hexdigest()
        return found


def _content(file: Path) -> bytes:
    content = file.read_bytes()
    if file.suffix in (".json", ".jsonl"):
        values = [json.loads(content)] if file.suffix == ".json" else [json.loads(line) for line in content.splitlines()]
        return json.dumps([_without_times(value) for value in values], sort_keys=True).encode()
    if file.suffix == ".csv":
        rows = [{key: row[key] for key in row if key not in TIMES} for row in csv.DictReader(content.decode().splitlines())]
        return json.dumps(rows).encode()
    # A comment has the command, which may have --resume; a page says how long it took.
    is_text, timed = file.suffix in (".yaml", ".md"), (b"# made by", b"on Linux")
    return b"\n".join(line for line in content.splitlines() if not line.startswith(timed)) if is_text else content


def _without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_times(item) for key, item in value.items() if key not in TIMES}
    return [_without_times(item) for item in value] if isinstance(value, list) else value


def _remove(*names: str) -> Callable[[Path], None]:
    def remove(folder: Path) -> None:
        for name in names:
            path = folder / name
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    return remove


def _edit(folder: Path) -> None:
    """Change the scored set: one image is new, one has another content, one another name, one is gone."""
    images = sorted((folder / "world" / "images").glob("*"))
    shutil.copy(images[0], images[0].with_name("again.jpg"))
    images[1].write_bytes(images[2].read_bytes() + b" ")
    table = folder / "world" / "labels.csv"
    first = table.read_text().splitlines()
    renamed = images[3].rename(images[3].with_name("renamed.jpg"))
    text = "\n".join(first[:-1]).replace(f"images/{images[3].name}", f"images/{renamed.name}")
    table.write_text(f"{text}\nimages/again.jpg,{first[1].split(',')[1]},train\n")


SCENARIOS = (
    Scenario("score", ("score", *SET), kills=20, before=_remove("store")),
    Scenario("score after edits", ("score", *SET), kills=10, before=_edit),
    Scenario("train full", ("train", *SET, "--out", "new", "--method", "aevlp"), ("new",), 25, resumes=True),
    Scenario("train consensus", ("train", *SET, "--out", "new"), ("new",), 25, _remove("store"), resumes=True),
    Scenario("train linear", ("train", *SET, "--out", "new", "--train.mode", "linear"), ("new",), 20, resumes=True),
    Scenario("train, report", ("train", *SET, "--out", "new", "--report", "true"), ("new",), 10, resumes=True),
    Scenario(
        "train, demo backbone", ("train", *SET, "--out", "new", "--backbone", "demo", "--epochs", "2"), ("new",), 8, resumes=True
    ),
    Scenario("train zero-shot", ("train", *SET, "--out", "new", "--method", "zero-shot"), ("new",), 6, resumes=True),
    Scenario(
        "compare --jobs 2",
        ("compare", *SET, "--out", "sweep", "--methods", "consensus,aevlp", "--jobs", "2", "--epochs", "2"),
        ("sweep",),
        8,
        limit=180.0,
    ),
    Scenario("label", ("label", *SET, "--out", "new.jsonl"), ("new.jsonl",), 16),
    Scenario("label --run", ("label", *SET, "--run", "run", "--out", "new.csv"), ("new.csv",), 12, _remove("store")),
    Scenario("predict --out", ("predict", "run", "world/images", "--out", "new.jsonl"), ("new.jsonl",), 15),
    Scenario("thresholds", ("thresholds", "run", "world", "--thresholds.aim", "count"), ("run",), 15),
    Scenario("export", ("export", "run", "--out", "new.onnx"), ("new.onnx",), 10),
    Scenario("report", ("report", "run"), ("run",), 8),
    Scenario("tune", ("tune", *SET, "--out", "tuned.yaml"), ("tuned.yaml",), 8),
    Scenario("merge", ("merge", "world", "completed.jsonl", "answers.sqlite", "--out", "merged.csv"), ("merged.csv",), 6),
    Scenario("store prune", ("store", "prune", "--store", "store", "--unused-for", "0", "--yes"), ("store",), 10),
    Scenario(
        "reproduce --quick",
        ("reproduce", "table4", "--data", *SET, "--quick", "--seeds", "1", "--out", "paper"),
        ("paper",),
        5,
        limit=180.0,
    ),
)


def left_behind(folder: Path) -> str | None:
    """Return what a finished command may not leave: half-written files, or a store that is damaged."""
    if parts := [path.name for path in folder.rglob("*.part")]:
        return f"half-written files are left: {', '.join(sorted(parts)[:3])}"
    trial = run(("store", "verify", "--store", "store"), folder)
    return trial.wrong or (f"store verify: {trial.err.strip()}" if trial.code else None)


def is_done_already(scenario: Scenario, trial: Trial) -> bool:
    """Return whether a command was refused because its output, which appears whole, is there from before the fault."""
    writes_one_file = scenario.words[0] in ("label", "predict", "export", "merge", "tune")
    return writes_one_file and trial.code == 2 and ": exists; remove it" in trial.err
