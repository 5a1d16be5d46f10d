"""Train the demo's small CLIP and small backbone from scratch: `python -m tools.demo_models.build`.

Training scenes are drawn from seeds of their own; the demo's pictures are never among them. The two models are trained side by
side, each in a process of its own with one thread, so that the weights do not depend on the number of cores.
"""

import argparse
import hashlib
import json
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import AutoTokenizer

from aevlp.core.processes import end_with_parent
from aevlp.models.pretrained import DEMO_CLIP
from tools.demo_models.backbone_training import SIDE, BackbonePlan, train_backbone
from tools.demo_models.clip_training import DRAWN_SIDE, ClipPlan, train_clip
from tools.demo_models.figures import TEST_SEED, backbone_figures, zero_shot
from tools.demo_models.scenes import draw_training_scenes

MODELS = ("clip", "backbone")
_CLIP_SCENES, _BACKBONE_SCENES = 35_000, 24_000


def main(arguments: list[str] | None = None) -> None:
    """Read the command line and build."""
    parser = argparse.ArgumentParser(prog="python -m tools.demo_models.build", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="of scenes, captions and first weights (0)")
    parser.add_argument("--only", choices=MODELS, help="build only this model")
    parser.add_argument("--out", type=Path, help="folder in which clip/ and backbone/ are written (inside the package)")
    parser.add_argument("--share", type=float, default=1.0, help="of the scenes and steps, for a quick try (1.0)")
    options = parser.parse_args(arguments)
    command = f"python -m tools.demo_models.build --seed {options.seed}"  # only what the weights depend on
    if options.share != 1.0:
        command += f" --share {options.share}"
    folder = options.out or DEMO_CLIP.parent
    wanted = [options.only] if options.only else MODELS
    with ProcessPoolExecutor(len(wanted), mp_context=get_context("spawn"), initializer=end_with_parent) as pool:
        for done in [pool.submit(build, name, folder / name, options.seed, options.share, command) for name in wanted]:
            done.result()


def build(name: str, folder: Path, seed: int, share: float, command: str) -> None:
    """Build one of MODELS into the folder, with one thread of torch; `share` in (0, 1] scales scenes and steps."""
    torch.set_num_threads(1)
    started = time.monotonic()
    maker = {"clip": build_clip, "backbone": build_backbone}[name]
    maker(folder, seed, share, command, lambda line: print(f"[{time.monotonic() - started:5.0f} s] {line}", flush=True))


def build_clip(folder: Path, seed: int, share: float, command: str, log: Callable[[str], None]) -> None:
    """Draw, train, test and write the small CLIP; `share` in (0, 1] scales scenes and steps."""
    started, plan = time.monotonic(), ClipPlan()
    plan = replace(plan, steps=max(2, round(plan.steps * share)))
    log("clip: drawing captioned scenes")
    count = max(2 * plan.batch, round(_CLIP_SCENES * share))
    scenes = draw_training_scenes("captioned", seed=seed, count=count, side=DRAWN_SIDE, log=log)
    model = train_clip(scenes, folder, seed=seed, plan=plan, log=log)
    figures = zero_shot(model, AutoTokenizer.from_pretrained(folder), count=max(40, round(1000 * share)))
    log(f"clip: {figures}")
    save_record(folder, command=command, seed=seed, seconds=time.monotonic() - started, figures=figures)


def build_backbone(folder: Path, seed: int, share: float, command: str, log: Callable[[str], None]) -> None:
    """Draw, train, test and write the small backbone; `share` in (0, 1] scales scenes and steps."""
    started, plan = time.monotonic(), BackbonePlan()
    plan = replace(plan, steps=max(2, round(plan.steps * share)))
    log("backbone: drawing scenes of other things")
    count = max(2 * plan.batch, round(_BACKBONE_SCENES * share))
    scenes = draw_training_scenes("pretraining", seed=seed, count=count, side=SIDE, log=log)
    model = train_backbone(scenes, folder, seed=seed, plan=plan, log=log)
    unseen = draw_training_scenes("pretraining", seed=TEST_SEED, count=max(40, round(1000 * share)), side=SIDE, log=log)
    figures = backbone_figures(model, unseen)
    log(f"backbone: {figures}")
    save_record(folder, command=command, seed=seed, seconds=time.monotonic() - started, figures=figures)


def save_record(folder: Path, *, command: str, seed: int, seconds: float, figures: dict[str, Any]) -> None:
    """Write build.json: command, versions, figures and sha256 of the weights beside it."""
    record = {
        "command": command,
        "seed": seed,
        "seconds": round(seconds, 1),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "sha256": hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest(),
        "bytes": (folder / "model.safetensors").stat().st_size,
        "figures": figures,
    }
    (folder / "build.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
