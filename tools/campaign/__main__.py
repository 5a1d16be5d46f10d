"""Run a fault campaign against the commands and servers of aevlp.

    python -m tools.campaign all --out FOLDER [--seed N]                  everything; writes FOLDER/campaign.md
    python -m tools.campaign kills --out FOLDER --count 200 --seed 1      one part
    python -m tools.campaign mutations --seed 1234 --only 77              one case again
    python -m tools.campaign table --out FOLDER                           the table of the cases so far

Exits with 1 if a case has failed. A failed case prints the line that repeats it.
"""

import argparse
import os
import platform
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from tools.campaign.campaign import Campaign
from tools.campaign.cases import TABLE, Case, read_cases, table
from tools.campaign.trial import fork, preload, wait_for

COUNTS = {"kills": 240, "interrupts": 120, "mutations": 2200, "requests": 1100, "disks": 80, "images": 80}
"""Cases of each part in a whole campaign."""
SHARDS = {"kills": 3, "interrupts": 2, "mutations": 4}
"""Processes that a long part is shared among."""


def part_of(name: str) -> Callable[[Campaign], list[Case]]:
    """Return the function that runs a part."""
    from tools.campaign import disks, images, kills, mutations, requests

    return {
        "kills": kills.kills,
        "interrupts": kills.interrupts,
        "mutations": mutations.mutations,
        "requests": requests.requests,
        "disks": disks.disks,
        "images": images.images,
    }[name]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the tool."""
    parser = argparse.ArgumentParser(prog="python -m tools.campaign", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("part", choices=["all", *COUNTS, "schemas", "fuzz", "table"])
    parser.add_argument("--out", type=Path, default=Path("campaign"), help="folder for the cases and the table (campaign)")
    parser.add_argument("--seed", type=int, default=0, help="of all faults (0)")
    parser.add_argument("--count", type=int, help="of cases (as many as in a whole campaign)")
    parser.add_argument("--only", type=int, help="the number of one case to repeat")
    parser.add_argument("--jobs", type=int, default=2, help="parts at a time, in a whole campaign (2)")
    parser.add_argument("--seconds", type=int, default=60, help="of fuzzing each reader (60)")
    options = parser.parse_args(arguments)
    folder = options.out.absolute()
    if options.part == "table":
        print(write_table(folder, read_all(folder), f"seed {options.seed}"))
        return
    preload()
    if options.part == "schemas":
        from tools.campaign.schemas import schemas

        sys.exit(schemas(Campaign("schemas", folder, options.seed, 0)))
    if options.part == "fuzz":
        from tools.campaign.fuzz import fuzz

        sys.exit(fuzz(Campaign("fuzz", folder, options.seed, 0), options.seconds))
    started = time.time()
    if options.part == "all":
        for name in COUNTS:
            shutil.rmtree(folder / name, ignore_errors=True)
        _run_all(folder, options.seed, options.count, options.jobs)
        cases = read_all(folder)
    else:
        count = COUNTS[options.part] if options.count is None else options.count
        shutil.rmtree(folder / options.part, ignore_errors=True)
        cases = part_of(options.part)(Campaign(options.part, folder, options.seed, count, options.only))
    about = f"{time.strftime('%Y-%m-%d', time.gmtime(started))}, seed {options.seed}, {platform.system()} {platform.machine()}, "
    about += f"{os.cpu_count()} cores, {(time.time() - started) / 60:.0f} minutes"
    print(write_table(folder, cases, about))
    sys.exit(any(case.failure is not None for case in cases))


def read_all(folder: Path) -> list[Case]:
    """Return the cases of all parts in a folder."""
    return [case for name in COUNTS for case in read_cases((folder / name).glob("*.jsonl"))]


def write_table(folder: Path, cases: Sequence[Case], about: str) -> str:
    """Write the table of a campaign, and return it."""
    text = table(cases, about)
    (folder / TABLE).write_text(text, encoding="utf-8")
    return text


def _run_all(folder: Path, seed: int, count: int | None, jobs: int) -> None:
    """Run every part in forked processes, so many at a time; `count` limits the cases of each."""
    _ = Campaign("kills", folder, seed, 0).bench  # before there are several to make it
    waiting = [
        Campaign(name, folder, seed, most if count is None else min(count, most), shard=(shard, SHARDS.get(name, 1)))
        for name, most in COUNTS.items()
        for shard in range(SHARDS.get(name, 1))
    ]
    running, broken = dict[int, Campaign](), list[str]()
    while waiting or running:
        while waiting and len(running) < jobs:
            campaign = waiting.pop(0)
            running[fork(partial(_run_part, campaign))] = campaign
        for pid in list(running):
            if (code := wait_for(pid, 0.5)) is not None:
                campaign = running.pop(pid)
                broken += [f"{campaign.part} ({campaign.shard[0]}) ended with {code}"] if code else []
    if broken:
        raise SystemExit(f"the campaign is not whole: {'; '.join(broken)}; table writes its table")


def _run_part(campaign: Campaign) -> int:
    part_of(campaign.part)(campaign)
    return 0


if __name__ == "__main__":
    main()
