"""The checks of `aevlp doctor`: their names, the devices they are for, and the steps they take. Loads without torch."""

from dataclasses import dataclass

from aevlp.core.registry import Registry

ALL = ("cpu", "cuda", "mps")
GPUS = ("cuda", "mps")
ANSWER = "answer.json"  # of a step: whether it passed, and what was seen


@dataclass(frozen=True)
class Step:
    """A function of `aevlp.experiments.doctor.steps` and its argument; each step has a process of its own."""

    function: str
    argument: str = ""


@dataclass(frozen=True)
class Check:
    """A check: the last step's answer is the check's. The others prepare it and fail only if something is wrong."""

    name: str
    summary: str
    steps: tuple[Step, ...]
    devices: tuple[str, ...] = ALL
    reference: str | None = None  # the check that leaves, on the CPU, what this one compares with


SURVEY = Step("survey")
CHECKS: Registry[Check] = Registry("check")
_WHOLE = Step("train_whole", "whole")

for check in (
    Check("train-fp32", "an epoch in fp32; its loss is that of a CPU", (Step("train", "fp32"),), reference="train-fp32"),
    Check(
        "train-bf16",
        "the same with bf16 autocast; its loss is near that in fp32",
        (Step("train", "bf16"),),
        reference="train-fp32",
    ),
    Check("train-fp16", "the same with fp16 autocast and a GradScaler", (Step("train", "fp16"),), GPUS, "train-fp32"),
    Check("teacher-fp32", "embeddings of views; they are those of a CPU", (Step("embed", "fp32"),), reference="teacher-fp32"),
    Check(
        "teacher-bf16",
        "the same with bf16 autocast; they are near those in fp32",
        (Step("embed", "bf16"),),
        reference="teacher-fp32",
    ),
    Check("teacher-fp16", "the same with fp16 autocast", (Step("embed", "fp16"),), GPUS, "teacher-fp32"),
    Check("teacher-int8", "the same with linear layers in 8 bits", (Step("embed", "int8"),), ("cpu",), "teacher-fp32"),
    Check("repeat", "two equal trainings, scoring included, give the same weights", (_WHOLE, Step("train_again", "repeated"))),
    Check(
        "resume",
        "a training that stops after an epoch and goes on in another process gives the same weights",
        (_WHOLE, Step("train_begin", "resumed"), Step("train_again", "resumed")),
    ),
    Check("pinned-memory", "pinned memory, copied while the device computes, arrives whole", (Step("pin"),), ("cuda",)),
    Check("scoring-speed", "images scored per second, and the share of the bare teacher's rate", (Step("scoring_speed"),)),
    Check(
        "training-speed",
        "images trained per second, and the share of the bare step's rate",
        (Step("training_speed", "deterministic"),),
    ),
    Check("fastest-speed", "the same with --deterministic false", (Step("training_speed", "fastest"),), ("cuda",)),
):
    CHECKS.add(check.name, check)
