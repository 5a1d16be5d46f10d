"""The page of a comparison of two rounds: figures before and after, and the labels that changed, with their pictures."""

from pathlib import Path
from typing import Any

import numpy as np
from rich.markup import escape
from rich.table import Table

from aevlp.core.files import write_json, write_text
from aevlp.core.progress import duration
from aevlp.inference.rounds import RoundComparison
from aevlp.reports.examples import SplitPredictions, example_grid
from aevlp.reports.layout import render_page
from aevlp.reports.pictures import shown_examples
from aevlp.training.run_folder import RunFolder

MOST_CLASSES = 400
MOST_CLASSES_SHOWN = 10  # in the terminal


def write_rounds(found: RoundComparison, run: RunFolder) -> Path:
    """Write the page into the folder of the later run, with its main figures as JSON beside it; return the page's path."""
    galleries = [
        (heading, reading, shown_examples(grid), grid.total)
        for heading, reading, flags in (
            ("Corrected", "Wrong before, right after.", found.corrected),
            ("Spoilt", "Right before, wrong after.", found.spoilt),
        )
        if (grid := example_grid(_predictions(found), flags)).total
    ]
    rows = list(zip(found.per_class, found.truth.sum(0).tolist(), strict=True))
    rows.sort(key=lambda row: -abs((row[0].after or 0.0) - (row[0].before or 0.0)))
    page = render_page(
        "rounds.html.j2",
        title=f"{found.before.name} and {found.after.name}",
        found=found,
        verdict=verdict(found),
        warnings=warnings_of(found),
        cost=cost_of(found),
        rows=rows[:MOST_CLASSES],
        others=max(len(rows) - MOST_CLASSES, 0),
        galleries=galleries,
        shown_classes=sorted({item.example.label for _, _, items, _ in galleries for item in items}),
        images=len(found.truth),
        changed=int((found.given[0] != found.given[1]).sum()),
    )
    write_text(run.rounds.with_suffix(".html"), page)
    write_json(run.rounds, as_json(found))
    return run.rounds.with_suffix(".html")


def as_json(found: RoundComparison) -> dict[str, Any]:
    """Return the main figures of a comparison."""
    figures = {
        each.name: {"before": each.before, "after": each.after, "low": each.low, "high": each.high} for each in found.overall
    }
    return {
        "before": str(found.before.resolve()),
        "after": str(found.after.resolve()),
        "images": len(found.truth),
        "figures": figures,
        "corrected": int(found.corrected.sum()),
        "spoilt": int(found.spoilt.sum()),
        "verdict": verdict(found),
    }


def verdict(found: RoundComparison) -> str:
    """Return in one sentence whether the model got better."""
    main = found.overall[0]
    if main.before is None or main.after is None:
        return "No class has a positive among these images: nothing can be compared."
    change = main.after - main.before
    sure = "better than" if main.low > 0 else "worse than" if main.high < 0 else "not clearly different from"
    return (
        f"{found.after.name} is {sure} {found.before.name}: mAP {main.before:.1f} before, {main.after:.1f} after "
        f"({change:+.1f}, 90 % interval {main.low:+.1f} to {main.high:+.1f}) on {len(found.truth)} fully labelled images."
    )


def warnings_of(found: RoundComparison) -> list[str]:
    """Return what makes the comparison less certain than it looks."""
    return [
        f"{path.name} was trained on {count} of the {found.of} images of the split {found.split}: they are left out. A run "
        "that is trained after the audit is compared on all of them."
        for path, count in zip((found.before, found.after), found.trained_on, strict=True)
        if count
    ]


def cost_of(found: RoundComparison) -> str | None:
    """Return what the answers have cost, in one sentence; None: there are none."""
    effort = found.effort
    if effort is None or not effort.answers:
        return None
    time = f", {duration(effort.seconds)} of a person's time" if effort.seconds else ""
    return (
        f"The answers so far: {effort.answers:,} labels settled with {effort.keys:,} keys and clicks in {effort.actions:,} "
        f"actions{time}."
    )


def overall_table(found: RoundComparison) -> Table:
    """Return a table of the main figures and of the classes that certainly changed."""
    table = Table(
        "", "before", "after", "difference (90 % interval)", title=f"{len(found.truth)} images of the split {found.split}"
    )
    changed = sorted((each for each in found.per_class if each.is_certain), key=lambda each: -abs(each.low + each.high))
    for each in (*found.overall, *changed[:MOST_CLASSES_SHOWN]):
        if each.before is not None and each.after is not None:
            name = each.name if each in found.overall else f"AP of {escape(each.name)}"
            change = f"{each.after - each.before:+.1f} ({each.low:+.1f} to {each.high:+.1f})"
            table.add_row(name, f"{each.before:.1f}", f"{each.after:.1f}", change)
    return table


def _predictions(found: RoundComparison) -> SplitPredictions:
    labels = np.where(found.truth, 1, -1).astype(np.int8)
    return SplitPredictions(found.paths, found.classes, labels, True, found.probabilities[1], found.thresholds[1])
