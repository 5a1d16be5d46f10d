"""The files that the product reads, each with its kind and the commands that read it."""

from collections.abc import Callable
from dataclasses import dataclass

from tools.campaign import sanity
from tools.campaign.bench import SET
from tools.campaign.sanity import Check


@dataclass(frozen=True)
class Use:
    """A command that reads a file, and the check of what it writes."""

    name: str
    words: tuple[str, ...]
    check: Check = sanity.plain
    prepare: Callable[[], object] | None = None


@dataclass(frozen=True)
class Target:
    """A file, or a pattern of files, of the bench."""

    path: str
    kind: str
    uses: tuple[Use, ...]
    share: int = 4
    names: tuple[str, ...] = ()
    """Other words by which a refusal may name it, such as the folder that it is a part of."""


def _serve_nothing() -> None:
    """Let servers start and end at once."""
    from aevlp.inference.review import app as review
    from aevlp.inference.serve import app as serve

    for module in (review, serve):
        vars(module)["serve_until_stopped"] = lambda app, listener: None


PREDICT = Use("predict", ("predict", "run", "world/images", "--out", "new.jsonl"), sanity.predictions)
PREDICT_MODEL = Use("predict", ("predict", "run/model", "world/images", "--out", "new.jsonl", "--calibrated"), sanity.predictions)
PREDICT_MOVED = Use("predict", ("predict", "moved", "world/images", "--out", "new.jsonl"), sanity.predictions)
PREDICT_ROWS = Use("predict", ("predict", "featured", "features.npz", "--out", "new.jsonl"), sanity.predictions)
EVAL = Use("eval", ("eval", "run", "world"))
REPORT = Use("report", ("report", "run"), sanity.page("run/report.html"))
THRESHOLDS = Use("thresholds", ("thresholds", "run", "world"))
EXPORT = Use("export", ("export", "run", "--out", "new.onnx"))
SERVE = Use("serve", ("serve", "run", "--port", "0"), prepare=_serve_nothing)
ROUNDS = Use("rounds", ("rounds", "linear", "run", "world", "--split", "test"), sanity.page("run/rounds.html"))
LABEL = Use("label", ("label", *SET, "--out", "new.jsonl"), sanity.completed)
LABEL_RUN = Use("label", ("label", *SET, "--run", "run", "--out", "new.jsonl"), sanity.completed)
LABEL_ANSWERS = Use("label", ("label", *SET, "--answers", "answers.sqlite", "--out", "new.jsonl"), sanity.completed)
PROMPTS = Use("label", ("label", *SET, "--prompts", "prompts.yaml", "--out", "new.jsonl"), sanity.completed)
RESUME = Use(
    "train --resume", ("train", *SET, "--out", "half", "--resume", "--report", "true"), sanity.same_weights("half", "run")
)
RESUME_ANY = Use("train --resume", ("train", *SET, "--out", "half", "--resume", "--report", "true"), sanity.trained("half"))
FINISHED = Use("train --resume", ("train", *SET, "--out", "run", "--resume", "--report", "true"))
TRAIN = Use("train", ("train", *SET, "--out", "new", "--epochs", "1"), sanity.trained("new"))
TRAIN_ROWS = Use("train", ("train", *SET, "--out", "new", "--features", "features.npz", "--epochs", "1"), sanity.trained("new"))
TRAIN_AGAIN = Use("train", ("train", *SET, "--out", "new", "--report", "true"), sanity.same_weights("new", "run"))
TEACHER = Use("score", ("score", *SET, "--teacher", "teacher", "--store", "other"))
SCORE = Use("score", ("score", *SET))
VERIFY = Use("store verify", ("store", "verify", "--store", "store"))
LIST = Use("store list", ("store", "list", "--store", "store"))
PRUNE = Use("store prune", ("store", "prune", "--unused-for", "0", "--yes", "--store", "store"))
AUDIT = Use("audit", ("audit", "completed.jsonl"))
REVIEW = Use("review", ("review", "completed.jsonl", "--recipe", "recipe.yaml", "--port", "0"), prepare=_serve_nothing)
REVIEW_RUN = Use("review", ("review", "run", "--port", "0", "--answers", "new.sqlite"), prepare=_serve_nothing)


def _check(path: str) -> Use:
    return Use("check", ("check", path))


def _merge(path: str) -> Use:
    return Use("merge", ("merge", "world", path, "--out", "merged.csv"), sanity.merged)


def _label(path: str) -> Use:
    return Use("label", ("label", path, *SET[1:], "--out", "new.jsonl"), sanity.completed)


def _of_file(path: str) -> tuple[Use, ...]:
    return (_check(path), _check(path), _merge(path), _label(path))


MODEL = ("run/model", " run ", "run:", "run/thresholds.json")
TARGETS = (
    Target("run/config.yaml", "yaml", (PREDICT, EVAL, REPORT, THRESHOLDS, LABEL_RUN, FINISHED, SERVE, ROUNDS, REVIEW_RUN), 10),
    Target("run/result.json", "json", (PREDICT, EVAL, REPORT, THRESHOLDS, LABEL_RUN, FINISHED, SERVE, ROUNDS), 12),
    Target("run/thresholds.json", "json", (PREDICT, EVAL, REPORT, LABEL_RUN, SERVE, ROUNDS, FINISHED), 10),
    Target("moved/thresholds.json", "json", (PREDICT_MOVED,), 4, ("moved",)),
    Target("run/metrics.jsonl", "jsonl", (REPORT, FINISHED), 8),
    Target("run/evidence.npz", "npz", (REPORT, REPORT, FINISHED), 10),
    Target("run/trained-on.bin", "bytes", (LABEL_RUN, ROUNDS), 3),
    Target("run/model/config.json", "json", (PREDICT, EVAL, SERVE, LABEL_RUN), 10, MODEL),
    Target("run/model/preprocessor_config.json", "json", (PREDICT, SERVE, EVAL), 6, MODEL),
    Target("run/model/model.safetensors", "safetensors", (PREDICT, PREDICT_MODEL, EVAL, LABEL_RUN), 12, MODEL),
    Target("run/model/model.safetensors", "safetensors", (EXPORT,), 1, MODEL),
    Target("half/checkpoints/last.pt", "bytes", (RESUME,), 5, ("half/checkpoints",)),
    Target("half/checkpoints/previous.pt", "bytes", (RESUME,), 2, ("half/checkpoints",)),
    Target("half/config.yaml", "yaml", (RESUME_ANY,), 4, ("half",)),
    Target("half/metrics.jsonl", "jsonl", (RESUME,), 3, ("half",)),
    Target("half/model/model.safetensors", "safetensors", (RESUME_ANY,), 3, ("half/model",)),
    Target("half/model/config.json", "json", (RESUME_ANY,), 2, ("half/model",)),
    Target("store/*/manifest.json", "json", (VERIFY, LIST, PRUNE, TRAIN_AGAIN, LABEL), 6, ("store",)),
    Target("store/*/draw-*/*.npy", "bytes", (VERIFY, TRAIN_AGAIN, LIST), 8, ("store",)),
    Target("store/*/last_use.bin", "bytes", (VERIFY, LIST, PRUNE, SCORE), 3, ("store",)),
    Target("store/files.sqlite", "sqlite", (VERIFY, LIST, TRAIN_AGAIN, SCORE), 6, ("store",)),
    Target("answers.sqlite", "sqlite", (AUDIT, LABEL_ANSWERS, REVIEW, _merge("answers.sqlite"), _check("completed.jsonl")), 10),
    Target("recipe.yaml", "yaml", (TRAIN, SCORE, LABEL), 12),
    Target("prompts.yaml", "yaml", (PROMPTS,), 5),
    Target("features.npz", "npz", (PREDICT_ROWS, TRAIN_ROWS), 8),
    Target("featured/model/config.json", "json", (PREDICT_ROWS,), 4, ("featured/model", "featured:", "featured/thresholds.json")),
    Target(
        "featured/model/model.safetensors",
        "safetensors",
        (PREDICT_ROWS,),
        3,
        ("featured/model", "featured:", "featured/thresholds.json"),
    ),
    Target("backbone/config.json", "json", (TRAIN,), 5, ("backbone",)),
    Target("backbone/model.safetensors", "safetensors", (TRAIN,), 4, ("backbone",)),
    Target("backbone/preprocessor_config.json", "json", (TRAIN,), 3, ("backbone",)),
    Target("teacher/config.json", "json", (TEACHER,), 5, ("teacher",)),
    Target("teacher/model.safetensors", "safetensors", (TEACHER,), 4, ("teacher",)),
    Target("teacher/preprocessor_config.json", "json", (TEACHER,), 3, ("teacher",)),
    Target("teacher/tokenizer.json", "json", (TEACHER,), 4, ("teacher",)),
    Target("teacher/tokenizer_config.json", "json", (TEACHER,), 3, ("teacher",)),
    Target("world/labels.csv", "csv", (_check("world"), _check("world"), TRAIN, EVAL), 10, ("world",)),
    Target("world/classes.txt", "bytes", (_check("world"), EVAL, LABEL), 4, ("world",)),
    Target("world/images/*.jpg", "image", (_check("world"), PREDICT, SCORE, LABEL, TRAIN), 10, ("world",)),
    Target("completed.jsonl", "jsonl", (*_of_file("completed.jsonl"), AUDIT, REVIEW), 12),
    Target("completed.csv", "csv", _of_file("completed.csv"), 10),
    Target("coco.json", "json", _of_file("coco.json"), 10),
    Target("studio.json", "json", _of_file("studio.json"), 10),
    Target("fiftyone.json", "json", _of_file("fiftyone.json"), 8),
    Target("voc/VOC2012/ImageSets/Main/*.txt", "bytes", (_check("voc"),), 4, ("voc",)),
    Target("nus/*/*.txt", "bytes", (_check("nus"),), 3, ("nus",)),
    Target("nus/Groundtruth/TrainTestLabels/*.txt", "bytes", (_check("nus"),), 3, ("nus",)),
    Target("cub/*/*.txt", "bytes", (_check("cub"),), 3, ("cub",)),
    Target("cub/CUB_200_2011/attributes/*.txt", "bytes", (_check("cub"),), 3, ("cub",)),
    Target("npy/*.npy", "bytes", (_check("npy"),), 6, ("npy",)),
    Target("npy/classes.txt", "bytes", (_check("npy"),), 1, ("npy",)),
)
