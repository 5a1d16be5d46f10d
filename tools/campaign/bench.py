"""The bench: a small world with a store, runs, labels and answers, made by the commands themselves. Every case gets a copy."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from aevlp.experiments.demo.scenes import write_world
from tools.campaign.sets import write_benchmarks
from tools.campaign.trial import fork, run, wait_for

RECIPE = """\
method: consensus
device: cpu
report: false
store: store
data:
  observe: single
teacher:
  name: demo
model:
  backbone: backbone
  image_size: 32
train:
  epochs: 3
  batch_size: 8
  workers: 1
  learning_rate: 1e-3
  head_learning_rate: 1e-2
damp:
  draws: 1
  temperature: 0.04
"""
TRAIN, TEST = 24, 12  # images
READY = "ready"
SET = ("world", "--recipe", "recipe.yaml")
COMMANDS: tuple[tuple[str, ...], ...] = (
    ("score", *SET),
    ("train", *SET, "--out", "run", "--report", "true"),
    ("train", *SET, "--out", "linear", "--train.mode", "linear"),
    ("train", *SET, "--out", "featured", "--features", "features.npz"),
    ("label", *SET, "--out", "completed.jsonl"),
    ("label", *SET, "--run", "run", "--out", "completed.csv"),
    ("label", *SET, "--out", "coco.json", "--out-format", "coco"),
    ("label", *SET, "--out", "studio.json", "--out-format", "label-studio"),
    ("label", *SET, "--out", "fiftyone.json", "--out-format", "fiftyone"),
)
"""The commands that make the bench, in order."""


def build(folder: Path) -> Path:
    """Make the bench in a folder, unless it is there, and return it. Its files name the folder, so it is made in place."""
    if (folder / READY).is_file():
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    if wait_for(fork(lambda: _write_inputs(folder)), None) != 0:
        raise SystemExit(f"{folder}: the inputs of the bench could not be made")
    for words in COMMANDS:
        _required(words, folder)
    shutil.copy(folder / "world" / "classes.txt", folder)
    shutil.copytree(folder / "run" / "model", folder / "moved")  # a model without its run
    shutil.copytree(folder / "run", folder / "half")  # a run that was killed after its last epoch
    for name in ("result.json", "thresholds.json", "report.html", "evidence.npz", "model/thresholds.json"):
        (folder / "half" / name).unlink(missing_ok=True)
    (folder / READY).touch()
    return folder


def copy(bench: Path, trial: Path, without: Sequence[str] = ()) -> Path:
    """Replace a folder by a copy of the bench, without some of its parts, and return it."""
    shutil.rmtree(trial, ignore_errors=True)
    top = str(bench)
    shutil.copytree(bench, trial, symlinks=True, ignore=lambda folder, names: without if folder == top else ())
    return trial


def _required(words: Sequence[str], folder: Path) -> None:
    trial = run(words, folder)
    if trial.code != 0:
        raise SystemExit(f"the bench cannot be made: aevlp {' '.join(words)}: {trial.err}")


def _write_inputs(folder: Path) -> int:
    """Write what the commands need; runs torch, so in a process of its own."""
    import numpy as np

    from aevlp.data.annotations import COMPLETE
    from aevlp.data.answers import ACCEPTED, REJECTED, AnswerStore, GivenAnswer
    from aevlp.experiments.bench.models import save_clip, save_resnet
    from aevlp.experiments.demo.scenes import CLASSES

    write_world(folder / "world", train=TRAIN, test=TEST)
    shape = {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1], "layer_type": "basic"}
    save_resnet(folder / "backbone", side=32, **shape)
    save_clip(folder / "teacher", side=32, width=24, layers=1, heads=2, dimension=16)
    (folder / "recipe.yaml").write_text(RECIPE)
    (folder / "prompts.yaml").write_text("".join(f"{name}: [a photo of a {name}, '{name} here']\n" for name in CLASSES))
    names = sorted(f"images/{path.name}" for path in (folder / "world" / "images").iterdir())
    rows = np.random.default_rng(0).normal(size=(len(names), 12)).astype(np.float32)
    np.savez(folder / "features.npz", features=rows, images=np.array(names))
    write_benchmarks(folder, sorted((folder / "world" / "images").iterdir()))
    store = AnswerStore(folder / "answers.sqlite")
    images = [f"world/{name}" for name in names]
    for number, image in enumerate(images[:6]):
        given = GivenAnswer(image, CLASSES[number % 3], ACCEPTED if number % 2 else REJECTED)
        store.record("anna", [given, GivenAnswer(image, COMPLETE, ACCEPTED)], kind="audit", keys=2, seconds=1.5)
    store.keep_audit(images[:8])
    return 0
