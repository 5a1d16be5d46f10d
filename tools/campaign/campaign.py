"""What the parts of a campaign share: the seed, the folder, and the numbers of the cases to run."""

import random
import shutil
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.campaign import bench
from tools.campaign.cases import Case, CaseLog, repeat_line


@dataclass(frozen=True)
class Found:
    """What a case came to."""

    subject: str
    fault: str
    end: str
    failure: str | None


@dataclass(frozen=True)
class Campaign:
    """A part of a campaign as it is run."""

    part: str
    folder: Path
    seed: int
    count: int
    only: int | None = None
    shard: tuple[int, int] = (0, 1)
    """This process runs the cases from the first number on, in steps of the second."""

    @property
    def _trial(self) -> Path:
        return self.folder / f"trial-{self.part}-{self.shard[0]}"

    @property
    def bench(self) -> Path:
        """The bench, which all parts share; it is made when it is not there."""
        return bench.build(self.folder / "bench")

    def fresh(self, without: Sequence[str] = ()) -> Path:
        """Return a fresh copy of the bench, without some of its parts."""
        return bench.copy(self.bench, self._trial, without)

    def rng(self, number: int) -> random.Random:
        """Return the random numbers of a case; they do not depend on the cases before."""
        return random.Random(f"{self.seed}/{self.part}/{number}")

    @property
    def numbers(self) -> Iterable[int]:
        """The numbers of the cases to run."""
        return range(self.shard[0], self.count, self.shard[1]) if self.only is None else [self.only]

    def run(self, case: Callable[[int, random.Random], Found]) -> list[Case]:
        """Run the cases; return them."""
        log = CaseLog(self.folder / self.part / f"cases-{self.shard[0]}.jsonl")
        for number in self.numbers:
            started = time.monotonic()
            found = case(number, self.rng(number))
            seconds, repeat = time.monotonic() - started, repeat_line(self.part, self.seed, number)
            log.add(Case(self.part, number, found.subject, found.fault, found.end, found.failure, round(seconds, 2), repeat))
        if self.only is None:
            shutil.rmtree(self._trial, ignore_errors=True)
        return log.cases
