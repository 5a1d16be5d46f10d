"""The configuration of a run: all options, resolved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aevlp.config.methods import Method, find_method
from aevlp.config.run_options import SECTIONS, RunOptions, ThresholdOptions, TrainOptions, options_for
from aevlp.core.errors import UserError
from aevlp.core.options import Options, overlay, section_values
from aevlp.core.processes import EngineOptions
from aevlp.data.dataset import Split
from aevlp.data.load import DataOptions
from aevlp.losses.registry import LossOptions
from aevlp.models.options import ModelOptions, TeacherOptions
from aevlp.sources import SourceContext

if TYPE_CHECKING:
    from accelerate import Accelerator


@dataclass(frozen=True)
class Config:
    """All options of a training run."""

    recipe: str
    method: Method
    run: RunOptions
    engine: EngineOptions
    data: DataOptions
    teacher: TeacherOptions  # the defaults, if the method has no teacher
    model: ModelOptions
    train: TrainOptions
    thresholds: ThresholdOptions
    loss: LossOptions
    source: Options
    head: Options | None  # None: the backbone's own head

    def __post_init__(self) -> None:
        """Refuse options that exclude each other."""
        if self.train.mode != "full" and self.method.head is not None and self.method.head.sees_map:
            raise UserError(
                f"--train.mode {self.train.mode}: the head {self.method.head.name} needs a feature map, and this mode keeps only "
                f"pooled features; use {'another method' if self.model.features else '--train.mode full'}"
            )
        if self.model.features is not None and self.train.mode != "linear":
            raise UserError(
                f"--features {self.model.features}: features alone have no backbone to train, as --train.mode {self.train.mode} "
                "would; leave the mode out, or say --features null"
            )

    @property
    def warmup(self) -> int:
        """Epochs of the head alone, before the backbone is trained too."""
        return self.train.linear_init if self.train.mode == "linear-then-full" else 0

    def source_context(
        self,
        split: Split,
        classes: Sequence[str],
        store_root: Path | None,
        accelerator: Accelerator,
        validation: Split | None = None,
    ) -> SourceContext:
        """Return what the label source of this run may know."""
        return SourceContext(
            split,
            classes,
            accelerator,
            store_root,
            validation,
            self.teacher,
            self.run.seed,
            self.train.epochs if self.method.loss is not None else 0,
            self.train.learning_rate,
            self.train.expected_positives,
            released_code=self.run.compat == "released-code",
        )

    def as_recipe(self) -> dict[str, Any]:
        """Return the options that the method has, as the nested mapping of a recipe file."""
        sections = {
            "data": self.data,
            "model": self.model,
            "train": self.train,
            "thresholds": self.thresholds,
            **self._own_sections(),
        }
        return {
            "recipe": self.recipe,
            "method": self.method.name,
            **asdict(self.run),
            **asdict(self.engine),
            **{name: asdict(options) for name, options in sections.items()},
        }

    def _own_sections(self) -> dict[str, Any]:
        own: dict[str, Any] = {"teacher": self.teacher, "loss": self.loss, self.method.source.section: self.source}
        if self.method.head is not None:
            own[self.method.head.name] = self.head
        return {name: own[name] for name in self.method.sections}


def build_config(recipe: str, method: str, values: Mapping[str, Any]) -> Config:
    """Return the configuration from key -> value. Missing keys have their defaults; keys of other methods are ignored."""
    found = find_method(method)
    merged = overlay(options_for(found), values)

    def filled(section: str, kind: type[Any]) -> Any:
        return kind(**section_values(merged, section))

    return Config(
        recipe=recipe,
        method=found,
        run=RunOptions(**{f.name: merged[f.name] for f in fields(RunOptions) if f.name in merged}),
        engine=EngineOptions(**{f.name: merged[f.name] for f in fields(EngineOptions)}),
        **{name: filled(name, kind) for name, kind in SECTIONS.items()},
        teacher=filled("teacher", TeacherOptions),
        loss=filled("loss", found.loss_options),
        source=filled(found.source.section, found.source.options),
        head=None if found.head is None else filled(found.head.name, found.head.options),
    )
