"""The tables and figures that can be made again: the rows of each, and what the paper has for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from aevlp.core.errors import UserError
from aevlp.experiments.reproduce import paper
from aevlp.experiments.reproduce.paper import Sets

Kind = Literal["methods", "course", "labels", "distributions"]
GRIDS = (2, 3, 4, 5, 6)
NEGATIVE_FRACTIONS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6)
COMPONENTS = ("G", "T", "r", "v4", "R", "L3")
OFF: Mapping[str, Mapping[str, Any]] = {
    "G": {"damp.noise": False},
    "T": {"damp.augment": False},
    "r": {"damp.overlap": 0.0},
    "v4": {"loss.lambda1": 0.7, "loss.lambda2": 0.7},
    "R": {"loss.eta": 0.0},
    "L3": {"damp.negative_fraction": 0.0},
}
"""What switches a component of the method off."""
BACKBONES = {
    "microsoft/resnet-50": "ResNet-50",
    "timm/resnet50.tv_in1k": "ResNet-50",
    "facebook/convnext-large-224": "ConvNeXt-L-1K",
    "facebook/convnext-large-224-22k": "ConvNeXt-L-22K",
    "openai/clip-vit-large-patch14-336": "ViT-L/14",
}
"""Checkpoint -> what the paper calls it."""
OTHERS = {
    "demo": ("demo-clip",),
    "": ("facebook/convnext-large-224", "facebook/convnext-large-224-22k", "openai/clip-vit-large-patch14-336"),
}
"""The recipe's backbone ('': any other) -> those that it is compared with."""
SIDES = {"openai/clip-vit-large-patch14-336": 336, "demo-clip": 48}
"""Backbones that see images of another size than the recipe's, in pixels."""


@dataclass(frozen=True)
class Line:
    """A row of a table, or a place in a figure."""

    name: str
    method: str = "aevlp"
    options: Mapping[str, Any] = field(default_factory=dict)  # that make it what it is
    cells: tuple[str, ...] = ()  # what a table says of it instead of its name


@dataclass(frozen=True)
class Target:
    """A table or a figure of the paper."""

    name: str
    title: str
    kind: Kind
    headings: tuple[str, ...]  # of the columns that say what a row is
    lines: Sequence[Line]
    figures: Mapping[str, Sets] = field(default_factory=dict)  # the paper's, by the name of the row
    is_ranked: bool = False
    remark: str = ""

    @property
    def methods(self) -> list[str]:
        """What its rows train."""
        return list(dict.fromkeys(line.method for line in self.lines))

    @property
    def own(self) -> list[str]:
        """The options that its rows differ in, which nobody else can set."""
        return list(dict.fromkeys(key for line in self.lines for key in line.options))


def _component_line(on: str) -> Line:
    off = {key: value for name in COMPONENTS if name not in on.split() for key, value in OFF[name].items()}
    return Line(on, options=off, cells=tuple("yes" if name in on.split() else "-" for name in COMPONENTS))


_TARGETS = [
    Target(
        "table1",
        "Table 1: every method",
        "methods",
        ("method",),
        [Line(name, name) for name in paper.TABLE1],
        paper.TABLE1,
        is_ranked=True,
    ),
    Target(
        "table2",
        "Table 2: the GPR loss on the labels of several sources",
        "methods",
        ("loss + labels",),
        [Line(name, "aevlp" if name == "gpr+damp" else name) for name in paper.TABLE2],
        paper.TABLE2,
        is_ranked=True,
    ),
    Target(
        "table3",
        "Table 3: how good DAMP's labels are",
        "labels",
        ("of the positive pseudo-labels, in percent",),
        [Line("aevlp")],
        paper.TABLE3,
        remark="Counted over the labels that training does not see. Nothing is trained for this table.",
    ),
    Target(
        "table4",
        "Table 4: components of the method",
        "methods",
        COMPONENTS,
        [_component_line(on) for on in paper.TABLE4],
        paper.TABLE4,
        remark="G: label-to-label noise on the texts; T: views are augmented; r: tiles overlap; v4: positive pseudo-labels are "
        "weighted (-: all 0.7); R: the number of positives is held; L3: negative pseudo-labels.",
    ),
    Target(
        "table5",
        "Table 5: the grid of tiles",
        "course",
        ("tiles along each side",),
        [Line(str(grid), options={"damp.grid": grid}) for grid in GRIDS],
        paper.TABLE5,
    ),
    Target(
        "table6",
        "Table 6: backbones",
        "methods",
        ("backbone",),
        [Line("", options={"model.backbone": "", "model.features": ""})],  # in place of those that `backbone_lines` makes
        paper.TABLE6,
    ),
    Target(
        "fig2",
        "Figure 2: probabilities of positives and negatives on the test images",
        "distributions",
        ("method",),
        [Line(name, name) for name in ("an", "gr", "aevlp")],
        remark="The paper shows the histograms of VOC, without figures: `an` is sure of the negatives and unsure of many "
        "positives; `gr` and `aevlp` have the negatives around 0.2, `aevlp` the positives closer to 1.",
    ),
    Target(
        "fig3",
        "Figure 3: the share of negative pseudo-labels",
        "course",
        ("negative pseudo-labels, % of the classes",),
        [Line(f"{100 * share:.0f}", options={"damp.negative_fraction": share}) for share in NEGATIVE_FRACTIONS],
        remark="The paper shows the curve without figures: best at about 20 to 30 %, a little lower and steady beyond.",
    ),
]
TARGETS = {target.name: target for target in _TARGETS}


def backbone_lines(usual: str, chosen: str | None, side: int | None) -> list[Line]:
    """The rows of Table 6: the recipe's backbone and those it is compared with, or those that the user chose (A,B,..).

    `side` is the image size that the user wants for all; None: each its own.
    """
    names = [name.strip() for name in chosen.split(",")] if chosen is not None else [usual, *OTHERS.get(usual, OTHERS[""])]
    if "" in names:
        raise UserError(f"--backbone {chosen}: a name is empty; separate several by single commas")
    lines: list[Line] = []
    for name in dict.fromkeys(names):
        options = {"model.backbone": name} | ({"model.image_size": SIDES[name]} if name in SIDES and side is None else {})
        called = BACKBONES.get(name, name)
        lines.append(Line(called if called not in [line.name for line in lines] else name, options=options))
    return lines
