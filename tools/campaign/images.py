"""Images that change, vanish or break while a command runs. The command ends well or names them, and the store stays right."""

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

from tools.campaign.campaign import Campaign, Found
from tools.campaign.cases import DONE, REFUSED, Case
from tools.campaign.kills import Undisturbed, ready
from tools.campaign.scenarios import SCENARIOS, Scenario, left_behind
from tools.campaign.trial import Trial, run

READING = ("score", "train consensus", "train linear", "train full", "label", "label --run", "predict --out", "thresholds")
CHANGES: dict[str, Callable[[Path, bytes], object]] = {
    "gone": lambda file, other: file.unlink(missing_ok=True),
    "truncated": lambda file, other: os.truncate(file, file.stat().st_size // 2),
    "empty": lambda file, other: os.truncate(file, 0),
    "another image": lambda file, other: file.write_bytes(other),
    "text": lambda file, other: file.write_bytes(b"no image"),
    "a folder": lambda file, other: _replace(file, file.mkdir),
    "a loop of links": lambda file, other: _replace(file, lambda: file.symlink_to(file.name)),
}


def _replace(file: Path, make: Callable[[], None]) -> None:
    file.unlink()
    make()


def images(campaign: Campaign) -> list[Case]:
    """Run the cases."""
    undisturbed = Undisturbed(campaign)
    scenarios = [scenario for name in READING for scenario in SCENARIOS if scenario.name == name]
    return campaign.run(lambda number, rng: _disturb(campaign, scenarios[number % len(scenarios)], undisturbed, rng))


def _disturb(campaign: Campaign, scenario: Scenario, undisturbed: Undisturbed, rng: random.Random) -> Found:
    seconds, expected = undisturbed.of(scenario)
    folder = ready(campaign, scenario)
    world, kept = folder / "world", folder / "kept"
    shutil.copytree(world, kept)
    files = sorted((world / "images").iterdir())
    chosen, kind, moment = rng.sample(files, rng.choice((1, 3, len(files)))), rng.choice(sorted(CHANGES)), rng.uniform(0, seconds)
    other = rng.choice(files).read_bytes() + b" "

    def change() -> None:
        for file in chosen:
            CHANGES[kind](file, other)

    trial = run(scenario.words, folder, meanwhile=(moment, change))
    fault = f"{len(chosen)} images {kind} after {moment:.2f} of {seconds:.2f} s"
    failure = trial.wrong or _unnamed(trial, chosen)
    # With its images back, the same command in the same store gives what an undisturbed one gives.
    shutil.rmtree(world)
    kept.rename(world)
    for name in scenario.outputs:
        path = folder / name
        if name == "run":
            shutil.rmtree(path)
            shutil.copytree(campaign.bench / name, path)
        elif path.exists():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    return Found(scenario.name, fault, REFUSED if trial.code else DONE, failure or _again(scenario, folder, expected))


def _unnamed(trial: Trial, chosen: list[Path]) -> str | None:
    """Return a refusal that names none of the images, nor the set."""
    if (
        trial.code != 2
        or any(file.name in trial.err for file in chosen)
        or "world" in trial.lines[0]
        or "images" in trial.lines[0]
    ):
        return None
    return f"the line names no image: {trial.lines[0][:200]}"


def _again(scenario: Scenario, folder: Path, expected: dict[str, str]) -> str | None:
    trial = run(scenario.words, folder)
    if trial.wrong or trial.code != 0:
        return f"with the images back: {trial.wrong or trial.lines}"
    found = scenario.digest(folder)
    if different := sorted(key for key in {**expected, **found} if expected.get(key) != found.get(key)):
        return f"with the images back, the result differs: {', '.join(different[:4])}"
    return left_behind(folder)
