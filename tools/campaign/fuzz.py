"""Coverage-guided fuzzing of the readers with atheris: each must read a file, or refuse it with a UserError.

python -m tools.campaign fuzz --seconds 60
"""

import os
import random
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tools.campaign.campaign import Campaign
from tools.campaign.damage import damage_bytes
from tools.campaign.trial import fork, wait_for

SLOWEST = 60  # seconds of one input


def _read_set(file: Path) -> object:
    from aevlp.data.readers import read

    return read(file)


def _read_recipe(file: Path) -> object:
    from aevlp.config.recipe import read_recipe

    return read_recipe(file)


def _read_features(file: Path) -> object:
    from aevlp.training.user_features import UserFeatures

    return UserFeatures(str(file))


def _read_thresholds(file: Path) -> object:
    from aevlp.experiments.demo.scenes import CLASSES
    from aevlp.training.thresholds import read_thresholds

    return read_thresholds(file, CLASSES)


def _read_model(file: Path) -> object:
    from aevlp.models.model_folder import load_classifier

    return load_classifier(file.parent)


READERS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "table": ("completed.csv", _read_set),
    "lines": ("completed.jsonl", _read_set),
    "coco": ("coco.json", _read_set),
    "label-studio": ("studio.json", _read_set),
    "fiftyone": ("fiftyone.json", _read_set),
    "recipe": ("recipe.yaml", _read_recipe),
    "thresholds": ("run/thresholds.json", _read_thresholds),
    "features": ("features.npz", _read_features),
    "safetensors": ("featured/model/model.safetensors", _read_model),
    "model config": ("featured/model/config.json", _read_model),
}


def fuzz(campaign: Campaign, seconds: int) -> int:
    """Fuzz every reader for some seconds; return the number of readers that failed."""
    if find_spec("atheris") is None:
        raise SystemExit("atheris is not installed: pip install atheris")
    failed = 0
    for name, (path, read) in READERS.items():
        folder = campaign.fresh()
        code = wait_for(fork(partial(_fuzz, folder, path, read, seconds, campaign.seed)), None)
        print(
            f"fuzz: {name} ({path}): {'no failure' if code == 0 else f'FAILED ({code}), see {folder.parent}/crash-*'}", flush=True
        )
        failed += code != 0
    return failed


def _fuzz(folder: Path, path: str, read: Callable[[Path], object], seconds: int, seed: int) -> int:
    import atheris  # type: ignore[import-not-found, import-untyped, unused-ignore]

    from aevlp.core.errors import UserError

    os.chdir(folder)
    file, corpus = folder / path, folder / "corpus"
    corpus.mkdir()
    original = file.read_bytes()
    for number in range(20):
        content = original if number == 0 else damage_bytes(original, random.Random(number))[0]
        (corpus / str(number)).write_bytes(content[:60_000])
    for name, module in list(sys.modules.items()):
        if name.startswith(("aevlp.data", "aevlp.core", "aevlp.config")):
            _instrument(atheris, module)

    def test(content: bytes) -> None:
        file.write_bytes(content)
        with suppress(UserError):
            read(file)

    limits = [f"-max_total_time={seconds}", f"-timeout={SLOWEST}", "-max_len=60000", f"-seed={seed + 1}", "-rss_limit_mb=4000"]
    atheris.Setup(["fuzz", *limits, f"-artifact_prefix={folder.parent}/", str(corpus)], test)
    atheris.Fuzz()
    return 0


def _instrument(atheris: Any, module: Any) -> None:
    """Let atheris see which lines of a loaded module are reached."""
    for name, value in list(vars(module).items()):
        if getattr(value, "__module__", None) == module.__name__ and hasattr(value, "__code__") and not isinstance(value, type):
            with suppress(Exception):
                vars(module)[name] = atheris.instrument_func(value)
