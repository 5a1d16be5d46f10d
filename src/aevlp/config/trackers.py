"""The names of experiment trackers, and whether they are installed. Loads without torch."""

import os
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version

from aevlp.core.errors import OptionError, UserError, did_you_mean

TRACKERS = {
    "tensorboard": ("tensorboard", "tensorboardX"),
    "mlflow": ("mlflow", "mlflow-skinny"),
    "wandb": ("wandb",),
    "aim": ("aim",),
    "clearml": ("clearml",),
    "comet_ml": ("comet-ml",),
    "dvclive": ("dvclive",),
    "swanlab": ("swanlab",),
    "trackio": ("trackio",),
}
"""Trackers of `accelerate` -> the packages that bring them, any of which will do."""
EXTRA = ("tensorboard", "mlflow", "wandb")
"""Trackers that the extra `tracking` installs."""
NONE = "none"
QUIET = {
    "WANDB_SILENT": "true",
    "WANDB_CONSOLE": "off",
    "WANDB_ERROR_REPORTING": "false",
    "MLFLOW_LOGGING_LEVEL": "WARNING",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "3",
}
"""Environment in which trackers keep the terminal to us, and give up on a server within seconds; the user's own values win."""


def tracker_names(track: str | None) -> list[str]:
    """Return the trackers that the value of `--track` means; an unknown name is refused.

    None stands for TensorBoard where it is installed.
    """
    if track is None:
        return ["tensorboard"] if _is_installed("tensorboard") else []
    names = list(dict.fromkeys(name.strip() for name in track.split(",")))
    if names == [NONE]:
        return []
    for name in names:
        if name not in TRACKERS:
            known = ", ".join(TRACKERS)
            raise OptionError("track", f"{track}: no tracker {name!r}{did_you_mean(name, TRACKERS)}; known are {known}, or none")
    return names


def require_trackers(track: str | None) -> None:
    """Refuse a tracker that is not installed, or that would ask for a password in the middle of the work."""
    for name in tracker_names(track):
        if not _is_installed(name):
            package = "'aevlp[tracking]'" if name in EXTRA else TRACKERS[name][0]
            raise UserError(f"--track {name}: it is not installed; pip install {package}")
    if "wandb" in tracker_names(track):
        be_quiet()
        wandb = import_module("wandb")
        if wandb.setup().settings.mode not in ("offline", "disabled", "dryrun") and not wandb.login(prompt=False):
            raise UserError("--track wandb: nobody is logged in; run wandb login, or set WANDB_MODE=offline to write files only")


def be_quiet() -> None:
    """Set the environment of trackers, before they are loaded."""
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)


def _is_installed(name: str) -> bool:
    """Return whether a package of the tracker is installed. A folder of that name, as W&B makes, is none."""
    for package in TRACKERS[name]:
        try:
            version(package)
        except PackageNotFoundError:
            continue
        return True
    return False
