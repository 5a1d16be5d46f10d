"""The tables and figures that can be reproduced: the rows of each, the paper's values for them, and the request for one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from aevlp.core.errors import UserError
from aevlp.experiments.reproduce import paper
from aevlp.experiments.reproduce.paper import Sets

Kind = Literal["methods", "curve", "labels", "distributions"]
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
"""Component of the method -> the options that switch it off."""
BACKBONES = {
    "microsoft/resnet-50": "ResNet-50",
    "timm/resnet50.tv_in1k": "ResNet-50",
    "facebook/convnext-large-224": "ConvNeXt-L-1K",
    "facebook/convnext-large-224-22k": "ConvNeXt-L-22K",
    "openai/clip-vit-large-patch14-336": "ViT-L/14",
}
"""Checkpoint -> its name in the paper."""
OTHER_BACKBONES = {
    "demo": ("demo-clip",),
    "": ("facebook/convnext-large-224", "facebook/convnext-large-224-22k", "openai/clip-vit-large-patch14-336"),
}
"""The recipe's backbone ('': any other) -> the backbones it is compared with."""
SIDES = {"openai/clip-vit-large-patch14-336": 336, "demo-clip": 48}
"""Backbone -> its image size in pixels, where that is not the recipe's."""


@dataclass(frozen=True)
class TargetRow:
    """A row of a table, or a point of a figure."""

    name: str
    method: str = "aevlp"
    options: Mapping[str, Any] = field(default_factory=dict)  # in which it differs from other rows
    cells: tuple[str, ...] = ()  # shown in a table in place of its name


@dataclass(frozen=True)
class ReproduceTarget:
    """A table or a figure of the paper."""

    name: str
    title: str
    kind: Kind
    headings: tuple[str, ...]  # of the columns that describe a row
    rows: Sequence[TargetRow]
    paper: Mapping[str, Sets] = field(default_factory=dict)  # name of a row -> the paper's values
    is_ranked: bool = False
    remark: str = ""

    @property
    def methods(self) -> list[str]:
        """The methods that its rows train."""
        return list(dict.fromkeys(row.method for row in self.rows))

    @property
    def own(self) -> list[str]:
        """The options in which its rows differ; the user cannot set them."""
        return list(dict.fromkeys(key for row in self.rows for key in row.options))


@dataclass(frozen=True)
class ReproduceRequest:
    """A target, the image set to make it on, and the options of its runs."""

    target: ReproduceTarget
    rows: Sequence[TargetRow]
    recipe: str
    data: Path | None  # None: the embedded world
    out: Path
    seeds: int
    jobs: int
    quick: bool
    protocol_options: Mapping[str, Any]  # those of the paper's protocol, set for every row
    options: Mapping[str, Any]  # the same, overridden by those of --quick and of the user
    command: str

    @property
    def image_set(self) -> Path:
        """The path of the image set."""
        return self.out / "world" if self.data is None else self.data

    @property
    def runs(self) -> Path:
        """The folder of the runs, by the name of the training."""
        return self.out / "runs"

    @property
    def chart_title(self) -> str:
        """The title above the chart; the warning of --quick is on a line of its own, where a long title cannot cut it off."""
        return self.target.title + ("\n(quick: the figures mean nothing)" if self.quick else "")


def _component_row(on: str) -> TargetRow:
    off = {key: value for name in COMPONENTS if name not in on.split() for key, value in OFF[name].items()}
    return TargetRow(on, options=off, cells=tuple("yes" if name in on.split() else "-" for name in COMPONENTS))


_TARGETS = [
    ReproduceTarget(
        "table1",
        "Table 1: every method",
        "methods",
        ("method",),
        [
            *(TargetRow(name, name) for name in paper.TABLE1),
            *(TargetRow(name, name, cells=(f"{name} (not in the paper)",)) for name in ("zero-shot", "zero-shot-views")),
        ],
        paper.TABLE1,
        is_ranked=True,
        remark="zero-shot and zero-shot-views train nothing: they are the scores of the teacher, with fitted thresholds.",
    ),
    ReproduceTarget(
        "table2",
        "Table 2: the GPR loss on the labels of several sources",
        "methods",
        ("loss + labels",),
        [TargetRow(name, "aevlp" if name == "gpr+damp" else name) for name in paper.TABLE2],
        paper.TABLE2,
        is_ranked=True,
    ),
    ReproduceTarget(
        "table3",
        "Table 3: how good DAMP's labels are",
        "labels",
        ("of the positive pseudo-labels, in percent",),
        [TargetRow("aevlp")],
        paper.TABLE3,
        remark="Counted over the labels that training does not see. Nothing is trained for this table.",
    ),
    ReproduceTarget(
        "table4",
        "Table 4: components of the method",
        "methods",
        COMPONENTS,
        [_component_row(on) for on in paper.TABLE4],
        paper.TABLE4,
        remark="G: label-to-label noise on the texts; T: views are augmented; r: tiles overlap; v4: positive pseudo-labels are "
        "weighted (-: all 0.7); R: the number of positives is held; L3: negative pseudo-labels.",
    ),
    ReproduceTarget(
        "table5",
        "Table 5: the grid of tiles",
        "curve",
        ("tiles along each side",),
        [TargetRow(str(grid), options={"damp.grid": grid}) for grid in GRIDS],
        paper.TABLE5,
    ),
    ReproduceTarget(
        "table6",
        "Table 6: backbones",
        "methods",
        ("backbone",),
        [TargetRow("", options={"model.backbone": "", "model.features": ""})],  # in place of those that `backbone_rows` makes
        paper.TABLE6,
    ),
    ReproduceTarget(
        "fig2",
        "Figure 2: probabilities of positives and negatives on the test images",
        "distributions",
        ("method",),
        [TargetRow(name, name) for name in ("an", "gr", "aevlp")],
        remark="The paper shows the histograms of VOC, without figures: `an` is sure of the negatives and unsure of many "
        "positives; `gr` and `aevlp` have the negatives around 0.2, `aevlp` the positives closer to 1.",
    ),
    ReproduceTarget(
        "fig3",
        "Figure 3: the share of negative pseudo-labels",
        "curve",
        ("negative pseudo-labels, % of the classes",),
        [TargetRow(f"{100 * share:.0f}", options={"damp.negative_fraction": share}) for share in NEGATIVE_FRACTIONS],
        remark="The paper shows the curve without figures: best at about 20 to 30 %, a little lower and steady beyond.",
    ),
]
TARGETS = {target.name: target for target in _TARGETS}


def backbone_rows(default: str, chosen: str | None, side: int | None) -> list[TargetRow]:
    """Return the rows of Table 6: the recipe's backbone and the ones it is compared with, or those that the user chose (A,B,..).

    `side` is the image size that the user wants for all; None: each its own.
    """
    names = [name.strip() for name in chosen.split(",")] if chosen is not None else []
    if "" in names:
        raise UserError(f"--backbone {chosen}: a name is empty; separate several by single commas")
    rows: dict[str, TargetRow] = {}
    for name in dict.fromkeys(names or [default, *OTHER_BACKBONES.get(default, OTHER_BACKBONES[""])]):
        options = {"model.backbone": name} | ({"model.image_size": SIDES[name]} if name in SIDES and side is None else {})
        shown = BACKBONES.get(name, name)
        row = TargetRow(name if shown in rows else shown, options=options)
        rows[row.name] = row
    return list(rows.values())
