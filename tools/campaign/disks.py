"""Full disks: a limit on the size of files, or a small file system, under every command that writes.

A command ends with one line that says that the disk is full, and what there was is kept: given again with space, it ends as if
nothing had happened.
"""

import os
import random
import shutil
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tools.campaign.campaign import Campaign, Found
from tools.campaign.cases import DONE, REFUSED, Case
from tools.campaign.kills import Undisturbed, finished, ready
from tools.campaign.scenarios import SCENARIOS, Scenario
from tools.campaign.trial import limit_files, run

MEGABYTE = 1_000_000
SIZES = (0, 100, 2_000, 10_000, 30_000, 60_000, 200_000, MEGABYTE, 4 * MEGABYTE)  # bytes of the largest file
FULL = ("disk is full", "disk I/O error")
"""Words of a refusal; the second are SQLite's for a file that may not grow, while a full disk has the first."""
WRITING = [scenario for scenario in SCENARIOS if scenario.limit <= 60 and scenario.name != "store prune"]


def disks(campaign: Campaign) -> list[Case]:
    """Run the cases; a third of them on a small file system, if this user may mount one."""
    undisturbed = Undisturbed(campaign)

    def case(number: int, rng: random.Random) -> Found:
        scenario = WRITING[number % len(WRITING)]
        _, expected = undisturbed.of(scenario)
        folder = ready(campaign, scenario)
        if number % 3 == 0 and os.geteuid() == 0:
            return _small_disk(scenario, folder, rng, expected)
        size = rng.choice(SIZES)
        return _full(scenario, folder, f"files of at most {size} bytes", expected, partial(limit_files, size))

    return campaign.run(case)


def _small_disk(scenario: Scenario, folder: Path, rng: random.Random, expected: dict[str, str]) -> Found:
    """Run a scenario in a file system that has a little space beyond the bench."""
    spare = rng.choice((0, 20_000, 100_000, 400_000, 2 * MEGABYTE, 6 * MEGABYTE))
    content = folder.with_name(f"{folder.name}-content")
    shutil.rmtree(content, ignore_errors=True)
    folder.rename(content)
    folder.mkdir()
    blocks = sum(-(-file.stat().st_size // 4096) + 1 for file in content.rglob("*") if not file.is_symlink())
    mounted = ["mount", "-t", "tmpfs", "-o", f"size={blocks * 4096 + spare}", "campaign", str(folder)]
    subprocess.run(mounted, check=True)
    try:
        shutil.copytree(content, folder, symlinks=True, dirs_exist_ok=True)
        enlarge = ["mount", "-o", "remount,size=200m", str(folder)]
        return _full(
            scenario, folder, f"a disk with {spare} bytes left", expected, None, lambda: subprocess.run(enlarge, check=True)
        )
    finally:
        subprocess.run(["umount", str(folder)], check=True)
        shutil.rmtree(content, ignore_errors=True)


def _full(
    scenario: Scenario,
    folder: Path,
    fault: str,
    expected: dict[str, str],
    prepare: Callable[[], None] | None,
    make_space: Callable[[], object] | None = None,
) -> Found:
    trial = run(scenario.words, folder, prepare=prepare, limit=scenario.limit)
    end = DONE if trial.code == 0 else REFUSED
    failure = trial.wrong
    if failure is None and trial.code == 2 and not any(words in trial.lines[0] for words in FULL):
        failure = f"refused without saying that the disk is full: {trial.lines[0][:200]}"
    if failure is None and trial.code == 2 and (parts := list(folder.rglob("*.part"))):
        failure = f"half-written files are left: {parts[0].name}"
    if make_space is not None:
        make_space()
    return Found(scenario.name, fault, end, failure or finished(scenario, folder, expected))
