"""Mutations: damaged files. A command that reads one ends well with sane output, or with one line that names the file."""

import random
import shutil
from pathlib import Path

from tools.campaign.campaign import Campaign, Found
from tools.campaign.cases import DONE, REFUSED, Case
from tools.campaign.damaged_files import damage_file
from tools.campaign.targets import TARGETS, Target, Use
from tools.campaign.trial import Trial, run

LARGE = ("linear", "featured", "half", "teacher", "voc", "nus", "cub", "npy")
"""Parts of the bench that a case is given only if its words name them."""


def mutations(campaign: Campaign) -> list[Case]:
    """Run the mutations. Every target gets its share of them."""
    schedule = [number for number, target in enumerate(TARGETS) for _ in range(target.share)]
    random.Random(0).shuffle(schedule)  # the same for every seed, so that a case keeps its target
    return campaign.run(lambda number, rng: _mutate(campaign, TARGETS[schedule[number % len(schedule)]], rng))


def _mutate(campaign: Campaign, target: Target, rng: random.Random) -> Found:
    use = rng.choice(target.uses)
    named = {word.partition("/")[0] for word in (*use.words, target.path)}
    folder = campaign.fresh(without=[name for name in LARGE if name not in named])
    file = rng.choice(sorted(folder.glob(target.path)))
    before = file.read_bytes()
    damage = damage_file(file, target.kind, rng)
    _prepare(use, folder)
    is_same = file.is_file() and not file.is_symlink() and file.read_bytes() == before
    trial = run(use.words, folder, prepare=use.prepare)
    fault = f"{file.relative_to(folder)}: {damage}"
    end = DONE if trial.code == 0 else REFUSED if trial.code == 2 else "failed"
    return Found(use.name, fault, end, trial.wrong or _judge(trial, target, use, folder, file, is_same=is_same))


def _prepare(use: Use, folder: Path) -> None:
    """Put the file that a run is reviewed by into the run."""
    if use.words[:2] == ("review", "run"):
        text = (folder / "completed.jsonl").read_text().replace('"world/', '"../world/')
        (folder / "run" / "completed.jsonl").write_text(text)
        shutil.copy(folder / "classes.txt", folder / "run")


def _judge(trial: Trial, target: Target, use: Use, folder: Path, file: Path, *, is_same: bool) -> str | None:
    """Return why an end is not a good one."""
    if trial.code == 0:
        try:
            return use.check(folder, trial)
        except (OSError, ValueError, KeyError, TypeError) as error:
            return f"the output makes no sense: {type(error).__name__}: {error}"
    if is_same:
        return f"refused although nothing is wrong: {trial.lines[0]}"
    (line,) = trial.lines
    parent = file.parent.relative_to(folder).as_posix()
    known = [file.name, *target.names, *([parent] if parent != "." else [])]
    if not line.startswith("--") and not any(name in line for name in known):
        return f"the line does not name the file: {line[:200]}"
    return None
