"""Train the demo's small CLIP and small backbone from nothing: `python -m tools.demo_models.build`.

Scenes to learn from are drawn from seeds of their own; the demo's pictures are never among them. The two models learn side by
side, each in a process of its own with one thread, so that the weights do not depend on the number of cores.
"""

import argparse
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

from aevlp.models.checkpoint import DEMO_CLIP

MODELS = ("clip", "backbone")
_CLIP_SCENES, _BACKBONE_SCENES = 70_000, 24_000


def main(arguments: list[str] | None = None) -> None:
    """Read the command line and build."""
    parser = argparse.ArgumentParser(prog="python -m tools.demo_models.build", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="of scenes, captions and first weights (0)")
    parser.add_argument("--only", choices=MODELS, help="build only this model")
    parser.add_argument("--out", type=Path, help="folder in which clip/ and backbone/ are written (inside the package)")
    parser.add_argument("--share", type=float, default=1.0, help="of the scenes and steps, for a quick try (1.0)")
    options = parser.parse_args(arguments)
    command = f"python -m tools.demo_models.build --seed {options.seed}"  # what the weights depend on, and no more
    if options.share != 1.0:
        command += f" --share {options.share}"
    folder = options.out or DEMO_CLIP.parent
    wanted = [options.only] if options.only else MODELS
    with ProcessPoolExecutor(len(wanted), mp_context=get_context("spawn")) as pool:
        for done in [pool.submit(build, name, folder / name, options.seed, options.share, command) for name in wanted]:
            done.result()


def build(name: str, folder: Path, seed: int, share: float, command: str) -> None:
    """Build one of MODELS into the folder, with one thread of torch; `share` in (0, 1] scales scenes and steps."""
    import torch

    torch.set_num_threads(1)
    started = time.monotonic()
    maker = {"clip": build_clip, "backbone": build_backbone}[name]
    maker(folder, seed, share, command, lambda line: print(f"[{time.monotonic() - started:5.0f} s] {line}", flush=True))


def build_clip(folder: Path, seed: int, share: float, command: str, log: Callable[[str], None]) -> None:
    """Draw, train, examine and write the small CLIP; `share` in (0, 1] scales scenes and steps."""
    from transformers import AutoTokenizer

    from tools.demo_models.clip_training import DRAWN_SIDE, ClipPlan, train_clip
    from tools.demo_models.figures import zero_shot
    from tools.demo_models.lessons import draw_lessons
    from tools.demo_models.saving import save_record

    started, plan = time.monotonic(), ClipPlan()
    plan = replace(plan, steps=max(2, round(plan.steps * share)))
    log("clip: drawing captioned scenes")
    count = max(2 * plan.batch, round(_CLIP_SCENES * share))
    lessons = draw_lessons("captioned", seed=seed, count=count, side=DRAWN_SIDE, log=log)
    model = train_clip(lessons, folder, seed=seed, plan=plan, log=log)
    figures = zero_shot(model, AutoTokenizer.from_pretrained(folder), count=max(40, round(1000 * share)))
    log(f"clip: {figures}")
    save_record(folder, command=command, seed=seed, seconds=time.monotonic() - started, figures=figures)


def build_backbone(folder: Path, seed: int, share: float, command: str, log: Callable[[str], None]) -> None:
    """Draw, train, examine and write the small backbone; `share` in (0, 1] scales scenes and steps."""
    from tools.demo_models.backbone_training import SIDE, BackbonePlan, train_backbone
    from tools.demo_models.figures import EXAM_SEED, found
    from tools.demo_models.lessons import draw_lessons
    from tools.demo_models.saving import save_record

    started, plan = time.monotonic(), BackbonePlan()
    plan = replace(plan, steps=max(2, round(plan.steps * share)))
    log("backbone: drawing scenes of other things")
    count = max(2 * plan.batch, round(_BACKBONE_SCENES * share))
    lessons = draw_lessons("pretraining", seed=seed, count=count, side=SIDE, log=log)
    model = train_backbone(lessons, folder, seed=seed, plan=plan, log=log)
    exam = draw_lessons("pretraining", seed=EXAM_SEED, count=max(40, round(1000 * share)), side=SIDE, log=log)
    figures = found(model, exam)
    log(f"backbone: {figures}")
    save_record(folder, command=command, seed=seed, seconds=time.monotonic() - started, figures=figures)


if __name__ == "__main__":
    main()
