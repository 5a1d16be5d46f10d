"""The cases of a campaign: a line of JSON each, and the table that counts them."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

TABLE = "campaign.md"
DONE, REFUSED = "done", "refused"
"""The two ends that a command may have: success with sane output, and one line with exit code 2."""


@dataclass(frozen=True)
class Case:
    """One fault and what came of it."""

    part: str
    number: int
    subject: str
    """The command or the server."""
    fault: str
    end: str
    """DONE, REFUSED, or a status of HTTP."""
    failure: str | None
    """Why the case has failed; None: it has not."""
    seconds: float
    repeat: str
    """The command that repeats the case."""


class CaseLog:
    """Cases as they come: into a file, and failures onto the screen with the line that repeats them."""

    def __init__(self, file: Path) -> None:
        self.file, self.cases = file, list[Case]()
        file.parent.mkdir(parents=True, exist_ok=True)

    def add(self, case: Case) -> None:
        """Keep a case."""
        self.cases.append(case)
        with self.file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(case)) + "\n")
        if case.failure is not None:
            print(f"FAILED {case.part} {case.number}: {case.subject}, {case.fault}: {case.failure}\n  {case.repeat}", flush=True)
        elif len(self.cases) % 100 == 0:
            print(f"{case.part}: {len(self.cases)} cases", flush=True)


def repeat_line(part: str, seed: int, number: int) -> str:
    """Return the command that repeats one case."""
    return f"python -m tools.campaign {part} --seed {seed} --only {number}"


def read_cases(files: Iterable[Path]) -> list[Case]:
    """Return the cases of some files, in the order of their numbers."""
    found = [Case(**json.loads(line)) for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    return sorted(found, key=lambda case: case.number)


def table(cases: Sequence[Case], about: str) -> str:
    """Return the counts by part and subject as Markdown, then a line for each failure."""
    lines = [about, "", "| part | subject | cases | ends | failures | slowest, s |", "| --- | --- | --- | --- | --- | --- |"]
    for part in dict.fromkeys(case.part for case in cases):
        ours = [case for case in cases if case.part == part]
        for subject in dict.fromkeys(case.subject for case in ours):
            lines.append(_row(part, subject, [case for case in ours if case.subject == subject]))
        lines.append(_row(f"**{part}**", "**all**", ours))
    failed = [case for case in cases if case.failure is not None]
    lines += ["", f"{len(failed)} of {len(cases)} cases failed.", ""]
    lines += [f"- {case.subject}, {case.fault}: {case.failure}\n  `{case.repeat}`" for case in failed]
    return "\n".join(lines) + "\n"


def _row(part: str, subject: str, cases: Sequence[Case]) -> str:
    ends = ", ".join(f"{end} {count}" for end, count in sorted(Counter(case.end for case in cases).items()))
    failures = sum(case.failure is not None for case in cases)
    return f"| {part} | {subject} | {len(cases)} | {ends} | {failures} | {max(case.seconds for case in cases):.1f} |"
