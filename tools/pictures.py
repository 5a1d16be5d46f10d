"""Draw the pictures of docs/how-it-works.md with the code that they explain: python -m tools.pictures [--out docs/pictures].

views.png: a scene of the demo and its 17 views; teacher.png: what the demo's small CLIP sees in them, and the pseudo-labels;
loss.png: the terms of the GPR loss over the probability. Every number in them is computed, none is drawn by hand.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from aevlp.damp.labels import final_scores, pseudo_labels, scores
from aevlp.damp.text import class_embeddings, text_embeddings
from aevlp.damp.views import ViewSettings, decode, plan_views, render
from aevlp.data.image_files import digests
from aevlp.data.readers import read
from aevlp.experiments.demo.scenes import write_world
from aevlp.losses.gpr import GprOptions, gpr
from aevlp.models.teacher import Teacher, load_teacher

TEMPERATURE = 0.04  # that of the recipe `demo`
LABELLED = 4  # labels that the scene in the pictures has
RULE = {"local_threshold": 0.0, "global_threshold": 0.5, "top_k": 3, "negative_fraction": 0.2}  # those of the recipe `default`
EPOCHS = 8
INK, ACCENT, MUTED = "#1f2933", "#0b6e99", "#b8c4ce"


def main(argv: Sequence[str] | None = None) -> None:
    """Draw all pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("docs/pictures"))
    out: Path = parser.parse_args(argv).out
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        world = Path(folder) / "world"
        write_world(world, seed=5, train=40, test=1)
        table = read(world, None)
        row = int(np.flatnonzero((table.labels == 1).sum(1) == LABELLED)[0])
        path, labels = table.paths[row], table.labels[row] == 1
        teacher = load_teacher("demo", torch.device("cpu"))
        settings = ViewSettings(size=teacher.image_size, grid=4, overlap=0.2, augment=True, seed=0)
        pixels = decode(path, settings)
        plan = plan_views(settings, 0, digests([path])[0], pixels.shape[1], pixels.shape[0])
        views = render(pixels, plan, settings)
        draw_views(pixels, plan.boxes, views).savefig(out / "views.png", dpi=110)
        draw_teacher(pixels, plan.boxes, views, teacher, table.classes, labels).savefig(out / "teacher.png", dpi=110)
    draw_loss().savefig(out / "loss.png", dpi=110)


def draw_views(pixels: Tensor, boxes: Tensor, views: Tensor) -> Figure:
    """Show the image [H, W, 3] with its boxes [V, 4], and the views [V, S, S, 3] that the teacher gets."""
    figure = Figure(figsize=(9, 4.6), layout="constrained")
    parts = figure.subfigures(1, 2, squeeze=False, width_ratios=[1, 1.05])
    image, right = parts[0, 0].subplots(), parts[0, 1]
    _show(image, pixels, "the image, cut into 4 x 4 tiles,\neach enlarged at random")
    for x0, y0, x1, y1 in boxes[1:].tolist():
        image.add_patch(Rectangle((x0, y0), x1 - x0, y1 - y0, fill=False, edgecolor=ACCENT, linewidth=1))
    right.suptitle(
        "what the teacher sees: some tiles are mirrored\nor weakly augmented, anew in every draw", fontsize=10, color=INK
    )
    for axes, view in zip(right.subplots(4, 4).flat, views[1:], strict=True):
        _show(axes, view)
    return figure


def draw_teacher(
    pixels: Tensor,
    boxes: Tensor,
    views: Tensor,
    teacher: Teacher,
    classes: Sequence[str],
    labels: np.ndarray[tuple[int], np.dtype[np.bool_]],
) -> Figure:
    """Show each tile's first class, and the scores of the whole image, of the best tile, and the final ones, by class."""
    mean, std = torch.tensor(teacher.mean), torch.tensor(teacher.std)
    normalised = ((views.float() / 255 - mean) / std).permute(0, 3, 1, 2)
    with torch.no_grad():
        embeddings = torch.nn.functional.normalize(teacher.encode_images(normalised).float(), dim=-1)
        texts = text_embeddings(teacher.encode_texts, [[f"a photo of a {name}"] for name in classes])
    whole, tiles = scores(embeddings[None], class_embeddings(texts, None), TEMPERATURE)
    observed = torch.zeros(1, len(classes), dtype=torch.int8)
    final, _ = final_scores(whole, tiles, observed, local_threshold=RULE["local_threshold"])
    found = pseudo_labels(whole, tiles, observed, **RULE)[0].tolist()  # type: ignore[arg-type]

    figure = Figure(figsize=(9, 4.6), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=[1, 1.15])
    _show(left, pixels, "each tile's first class\n(score of 0.5 or more)")
    for (x0, y0, x1, y1), tile in zip(boxes[1:].tolist(), tiles[0], strict=True):
        best = int(tile.argmax())
        if tile[best] >= RULE["global_threshold"]:
            left.add_patch(Rectangle((x0, y0), x1 - x0, y1 - y0, fill=False, edgecolor=ACCENT, linewidth=1))
            text = f"{classes[best]}\n{tile[best]:.2f}"
            left.text(
                (x0 + x1) / 2,
                (y0 + y1) / 2,
                text,
                ha="center",
                va="center",
                fontsize=7,
                color="white",
                bbox={"facecolor": INK, "alpha": 0.7, "pad": 1},
            )
    order = final[0].argsort().tolist()
    height = np.arange(len(order))
    right.barh(height, tiles[0].amax(0)[order].numpy(), color=MUTED, label="the best tile")
    right.barh(height, whole[0][order].numpy(), height=0.4, color=INK, label="the whole image")
    right.plot(final[0][order].numpy(), height, "o", color=ACCENT, markersize=4, label="final: the mean of the two")
    right.axvline(RULE["global_threshold"], color=INK, linewidth=0.8, linestyle=":")
    marks = {1: " +", -1: " -", 0: ""}
    names = [f"{'* ' if labels[c] else ''}{classes[c]}{marks[found[c]]}" for c in order]
    right.set_yticks(height, names, fontsize=7)
    right.set_xlim(0, 1)
    right.set_title("scores;  * is there,  + and -: pseudo-labels", fontsize=10, color=INK)
    right.legend(fontsize=7, loc="lower right", frameon=False)
    right.spines[["top", "right"]].set_visible(False)
    return figure


def draw_loss() -> Figure:
    """Show the loss of one label over the probability that the classifier gives it, by what is known of it and by epoch."""
    p = torch.linspace(0.002, 0.998, 400, dtype=torch.float64)
    options = GprOptions(schedule_epochs=EPOCHS)
    kinds = {"confirmed positive": (1, 0), "unknown": (0, 0), "negative pseudo-label": (0, -1), "positive pseudo-label": (0, 1)}
    figure = Figure(figsize=(9, 2.7), layout="constrained")
    for axes, (name, (observed, pseudo)) in zip(figure.subplots(1, 4, sharey=True), kinds.items(), strict=True):
        for epoch in (1, EPOCHS // 2, EPOCHS):
            arguments = {**options.at(epoch, EPOCHS, 1), "eta": 0.0, "expected_positives": 1.0}
            cells = [_cell(value, observed, pseudo, arguments) for value in p.logit()]
            axes.plot(p.numpy(), cells, color=ACCENT, alpha=0.25 + 0.75 * epoch / EPOCHS, label=f"epoch {epoch}")
        axes.set_title(name, fontsize=9, color=INK)
        axes.set_xlabel("probability", fontsize=8)
        axes.set_ylim(0, 3)
        axes.tick_params(labelsize=7)
        axes.spines[["top", "right"]].set_visible(False)
    figure.axes[0].set_ylabel("loss of this label", fontsize=8)
    figure.axes[1].legend(fontsize=7, frameon=False)
    return figure


def _cell(logit: Tensor, observed: int, pseudo: int, arguments: dict[str, float]) -> float:
    """Return the loss of a single label."""
    return float(gpr(logit.view(1, 1), torch.tensor([[observed]]), torch.tensor([[pseudo]]), **arguments))


def _show(axes: Axes, pixels: Tensor, title: str = "") -> None:
    axes.imshow(pixels.numpy())
    axes.set_axis_off()
    if title:
        axes.set_title(title, fontsize=10, color=INK)


if __name__ == "__main__":
    main()
