"""Checks that the output of a command that ended well makes sense."""

import csv
import json
import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from safetensors.numpy import load_file

from tools.campaign.trial import Trial

Check = Callable[[Path, Trial], str | None]
NUMBERS = re.compile(r"(?<![\w./'-])-?(nan|inf|infinity)(?![\w./'-])", re.IGNORECASE)


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def strict_json(text: str) -> Any:
    """Return the value of a JSON text; NaN and Infinity are no JSON."""
    return json.loads(text, parse_constant=_refuse_constant)


def plain(folder: Path, trial: Trial) -> str | None:
    """Refuse a text for people with numbers that are none."""
    found = NUMBERS.search(trial.out)
    return f"'{found[0]}' in the output" if found else None


def predictions(folder: Path, trial: Trial) -> str | None:
    """Refuse predictions that are not finite probabilities from 0 to 1 of the same classes."""
    lines = [strict_json(line) for line in (folder / "new.jsonl").read_text().splitlines()]
    if not lines:
        return "no predictions"
    classes = list(lines[0]["probabilities"])
    for line in lines:
        values = line["probabilities"]
        if list(values) != classes or not all(isinstance(p, float | int) and 0 <= p <= 1 for p in values.values()):
            return f"probabilities that are none: {str(values)[:80]}"
        if line.get("labels") is not None and not set(line["labels"]) <= set(classes):
            return f"labels that are no classes: {line['labels']}"
    return None


def completed(folder: Path, trial: Trial) -> str | None:
    """Refuse completed labels whose confidences are not from 0 to 1."""
    for text in (folder / "new.jsonl").read_text().splitlines():
        for value in _confidences(strict_json(text)):
            if not 0 <= value <= 1:
                return f"a confidence of {value}"
    return None


def _confidences(value: Any) -> Iterator[float]:
    for key, item in value.items() if isinstance(value, dict) else ():
        if key == "confidence":
            yield item
        yield from _confidences(item)


def merged(folder: Path, trial: Trial) -> str | None:
    """Refuse a table with numbers that are none."""
    rows = list(csv.reader((folder / "merged.csv").open(newline="")))
    return "no rows" if len(rows) < 2 else plain(folder, trial)


def trained(name: str) -> Check:
    """Return a check of a finished run: figures are numbers, and all weights are finite."""

    def check(folder: Path, trial: Trial) -> str | None:
        strict_json((folder / name / "result.json").read_text())
        for line in (folder / name / "metrics.jsonl").read_text().splitlines():
            strict_json(line)
        weights = load_file(folder / name / "model" / "model.safetensors")
        if not all(math.isfinite(float(abs(array.astype(float)).sum())) for array in weights.values()):
            return "weights that are not finite"
        return plain(folder, trial)

    return check


def page(name: str) -> Check:
    """Return a check of a page: it is whole, and has no numbers that are none."""

    def check(folder: Path, trial: Trial) -> str | None:
        text = (folder / name).read_text()
        text = re.sub(r"<script.*?</script>|<style.*?</style>|data:[^\"]*", "", text, flags=re.DOTALL)
        if not text.rstrip().endswith("</html>"):
            return f"{name} breaks off"
        found = NUMBERS.search(re.sub(r"<[^>]*>", " ", text))
        return f"'{found[0]}' in {name}" if found else plain(folder, trial)

    return check


def same_weights(name: str, original: str) -> Check:
    """Return a check that a run has the very weights of another one of the bench."""

    def check(folder: Path, trial: Trial) -> str | None:
        files = [folder / each / "model" / "model.safetensors" for each in (name, original)]
        if files[0].read_bytes() != files[1].read_bytes():
            return "other weights than those of an undisturbed run"
        return trained(name)(folder, trial)

    return check
