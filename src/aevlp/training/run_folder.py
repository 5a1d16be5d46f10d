"""The run folder: its files, the rules for writing to it, and its checkpoint."""

import json
import logging
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from aevlp import __version__
from aevlp.config.config import Config
from aevlp.config.methods import METHODS
from aevlp.config.recipe import read_recipe, recipe_text
from aevlp.config.run_options import all_options
from aevlp.core.errors import UserError
from aevlp.core.files import cannot_write, write_json, write_text
from aevlp.core.locks import Claim, claim_file
from aevlp.core.processes import is_first_process
from aevlp.core.remote import is_hub_model
from aevlp.training.run_records import WHOLE, read_metrics, read_result_file

# Options that may change when a run is resumed: they decide where and how fast it computes, not what.
FREE = {"recipe", "device", "store", "report", "track", "train.workers", "teacher.batch_size", "deterministic"}


@dataclass(frozen=True)
class RunFolder:
    """The files of a run."""

    path: Path

    @property
    def config(self) -> Path:
        """The resolved configuration, reusable as a recipe."""
        return self.path / "config.yaml"

    @property
    def model(self) -> Path:
        """The best model so far, as a standard folder."""
        return self.path / "model"

    @property
    def result(self) -> Path:
        """The figures of a finished run."""
        return self.path / "result.json"

    @property
    def metrics(self) -> Path:
        """The figures of every epoch."""
        return self.path / "metrics.jsonl"

    @property
    def thresholds(self) -> Path:
        """The threshold of every class (`aevlp.training.thresholds`)."""
        return self.path / "thresholds.json"

    @property
    def evidence(self) -> Path:
        """The data of the report beside the figures (`aevlp.reports.evidence`)."""
        return self.path / "evidence.npz"

    @property
    def report(self) -> Path:
        """The page about the run."""
        return self.path / "report.html"

    @property
    def rounds(self) -> Path:
        """The figures of the comparison with the run before (`aevlp rounds`); the page is beside it."""
        return self.path / "rounds.json"

    @property
    def completed(self) -> Path:
        """The completed labels of its image set, which a review of the run shows; `aevlp label` writes them."""
        return self.path / "completed.jsonl"

    @property
    def card(self) -> Path:
        """The model card."""
        return self.model / "README.md"

    @property
    def trained_on(self) -> Path:
        """The digests of the training images."""
        return self.path / "trained-on.bin"

    @property
    def trackers(self) -> Path:
        """The ids of the run at the trackers that can continue one (`aevlp.training.tracking`)."""
        return self.path / "trackers.json"

    @property
    def lock(self) -> Path:
        """The lock of the process that writes here."""
        return self.path / ".lock"

    @property
    def checkpoint(self) -> Path:
        """The state after the last finished epoch."""
        return self.path / "checkpoints" / "last.pt"

    def check_free(self, *, overwrite: bool) -> None:
        """Refuse a folder that is not empty, unless it is a run that may be overwritten."""
        if not self.path.exists() or (self.path.is_dir() and not any(self._content())):
            return
        if not self.config.is_file():
            raise UserError(f"--out {self.path}: exists and is not a run folder; choose another place, or move it away")
        if not overwrite:
            raise UserError(f"--out {self.path}: this run exists; continue it with --resume or replace it with --overwrite")

    def _content(self) -> Iterator[Path]:
        """Return the content of the folder, without the remains of killed processes."""
        return (path for path in self.path.iterdir() if path.suffix != ".part" and path != self.lock)

    def check_resumable(self, config: Config) -> None:
        """Refuse to resume a run that is not there, or was started with other options."""
        if not self.config.is_file():
            raise UserError(f"--resume: {self.path} is not a run folder (no config.yaml); start without --resume")
        # A run of an older version lacks newer options; it behaved as their defaults do.
        usual = {key: option.default for key, option in all_options().items()}
        before, now = usual | read_recipe(self.config), usual | flat_options(config.as_recipe())
        changed = [key for key in {**before, **now} if key not in FREE and before.get(key) != now.get(key)]
        if "none" in (before["store"], now["store"]) and before.get("store") != now["store"]:
            changed.append("store")  # without a store every epoch has its own draw
        if changed:
            shown = ", ".join(f"{key} was {before.get(key)} and is now {now.get(key)}" for key in changed)
            raise UserError(
                f"{self.path} was started with another configuration: {shown}; give the same options, or choose another --out"
            )

    def require_same_data(self, started_on: str, fingerprint: str) -> None:
        """Refuse to resume on other data than the run was started on; both are given by their fingerprints."""
        if started_on != fingerprint:
            raise UserError(f"--resume: {self.path} was started on other images, labels or classes; give the same DATA")

    def claim(self) -> Claim:
        """Return the right to write here; refused while another process has it."""
        if (claim := claim_file(self.lock)) is None:
            raise UserError(f"{self.path}: another process is training into it; wait until it is done, or choose another place")
        return claim

    def create(self, config: Config, command: str) -> None:
        """Create the folder, or empty it, and write its configuration."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            # The folder itself stays: it may be a link or a mount. config.yaml goes last: a kill in between leaves a run folder.
            for path in sorted(self.path.iterdir(), key=lambda path: path == self.config):
                if path == self.lock:
                    continue
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        except OSError as error:
            raise cannot_write(self.path, error) from error
        again = f"run it again: aevlp train DATA --out RUN --recipe {self.config}"
        write_text(self.config, recipe_text(config.as_recipe(), f"made by: {command}", again))

    def require_there(self) -> None:
        """Refuse to go on if the folder was removed or moved since the run began: what is written now would be no run."""
        if not self.config.is_file():
            raise UserError(
                f"{self.path}: removed or moved while it was in use (config.yaml is gone); put it back, or start again"
            )

    def remove_parts(self) -> None:
        """Remove files that a killed process left half-written."""
        for part in [*self.path.glob(".*.part"), *self.checkpoint.parent.glob(".*.part")]:
            shutil.rmtree(part) if part.is_dir() else part.unlink()

    def write_metrics(self, history: list[dict[str, Any]]) -> None:
        """Write `metrics.jsonl`, a line per epoch."""
        write_text(self.metrics, "".join(json.dumps(line) + "\n" for line in history))

    def write_result(self, result: dict[str, Any]) -> None:
        """Write `result.json`; a run that has it is finished."""
        write_json(self.result, result)

    def read_result(self) -> dict[str, Any] | None:
        """Return the content of `result.json`; None if the run is not finished."""
        if not self.result.is_file():
            return None
        return read_result_file(self.result)

    def read_whole_result(self) -> dict[str, Any] | None:
        """Return the content of `result.json`, with all that a run of any version has; None if the run is not finished."""
        found = self.read_result()
        if found is not None and (missing := sorted(WHOLE - found.keys())):
            raise UserError(f"{self.result}: damaged ({missing[0]} is missing); remove it, and --resume makes it again")
        return found

    def read_metrics(self) -> list[dict[str, Any]]:
        """Return the lines of `metrics.jsonl`, one per finished epoch."""
        return read_metrics(self.metrics)

    def tuned(self, config: Config) -> Config:
        """Return the configuration with the options that this run has tuned, so that they are not tuned again."""
        found = (self.read_result() or {}).get("chosen") or {}
        chosen = {key.removeprefix("damp."): value for key, value in found.items() if key.startswith("damp.")}
        options: Any = config.source
        would_tune = getattr(options, "tune", False)
        if not chosen or not would_tune:
            return config
        try:
            return replace(config, source=replace(options, **chosen, tune=False))
        except TypeError as error:  # no option of this name, or no number
            raise UserError(f"{self.result}: damaged (chosen: {error}); remove it, and --resume makes it again") from None

    @property
    def is_zero_shot(self) -> bool:
        """True if its method trains no model."""
        method = METHODS.get(read_recipe(self.config).get("method", ""))  # one that is not known here was trained
        return method is not None and method.loss is None

    def require_model(self) -> None:
        """Refuse a run of a method that trains no model."""
        if self.is_zero_shot:
            raise UserError(
                f"{self.path}: a zero-shot run has no model, only scores of its teacher; train one with aevlp train DATA "
                "--out RUN --method aevlp, or let the teacher alone label a set with aevlp label DATA --out FILE"
            )


def open_run(path: Path) -> RunFolder:
    """Return the run at `path`; refused if there is none, or if a newer version made it."""
    if is_hub_model(path):
        raise UserError(
            f"{path}: a model on the hub is not a run, which this needs; predict, serve, export and aevlp.load take one"
        )
    run = RunFolder(path)
    if not run.config.is_file():
        raise UserError(f"{path}: not a run folder (no config.yaml); train one with aevlp train DATA --out {path}")
    made_by = ((run.read_result() or {}).get("versions") or {}).get("aevlp", "0")
    if _numbers(made_by) > _numbers(__version__):
        raise UserError(f"{path}: made by aevlp {made_by}, which is newer than this one ({__version__}); update aevlp")
    return run


def _numbers(version: str) -> tuple[int, ...]:
    """Return the major and the minor number: patch releases do not change files."""
    return tuple(int(part) for part in re.findall(r"\d+", version)[:2])


def flat_options(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested mappings as key.subkey -> value."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        flat.update(flat_options(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value})
    return flat


class _LogFile(logging.FileHandler):
    """A log file that may fail: what matters is refused where it is written."""

    def handleError(self, record: logging.LogRecord) -> None:
        """Print no traceback when the disk is full or the folder is gone."""

    def close(self) -> None:
        """Close the file, even if what is left cannot be written."""
        with suppress(OSError):
            super().close()


@contextmanager
def log_to(file: Path) -> Iterator[None]:
    """Append everything that the first process logs to a file too, with the time and with debug messages."""
    handler = _LogFile(file, encoding="utf-8", delay=True) if is_first_process() else logging.NullHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    handler.setLevel(logging.DEBUG)
    log = logging.getLogger("aevlp")
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)
        handler.close()
