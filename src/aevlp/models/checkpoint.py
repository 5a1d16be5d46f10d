"""Where a checkpoint's files are (a folder, the demo, the hub's cache, the hub) and how it wants its images."""

import hashlib
import json
import logging
import math
import re
import threading
import warnings
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aevlp.core.errors import UserError, one_line

if TYPE_CHECKING:
    from huggingface_hub.hf_api import ModelInfo

PROBE_SECONDS = 5.0
PROCESSOR_FILES = ("processor_config.json", "preprocessor_config.json")
WEIGHTS, PICKLED = "model.safetensors", "pytorch_model.bin"
LOADERS = {"teacher": "AutoModel", "backbone": "AutoModelForImageClassification"}
CONVERTER, CONVERSION = "SFconvertbot", "Adding `safetensors` variant of this model"
TOKENIZER_FILES = (".model", "tokenizer.json", "merges.txt", "vocab.txt")
CLIP_MEAN, CLIP_STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
HALF = (0.5, 0.5, 0.5)
DEMO = Path(__file__).parent / "demo"
DEMO_CLIP, DEMO_BACKBONE = DEMO / "clip", DEMO / "backbone"

log = logging.getLogger("aevlp")


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint whose files are on this machine."""

    name: str
    """As the user gave it."""
    folder: Path
    fingerprint: str
    """Names the weights: `owner/name@commit` from the hub, else a hash of the files' content, wherever they lie."""


@dataclass(frozen=True)
class ImageSettings:
    """What a checkpoint expects of its input: squares of `size` pixels, normalised with `mean` and `std`."""

    size: int
    mean: tuple[float, float, float]
    std: tuple[float, float, float]


def local_checkpoint(name: str, *, role: str, demo: str) -> Checkpoint:
    """The checkpoint called `name`, downloaded only if it is neither a folder nor in the hub's cache.

    `role` is "teacher" or "backbone": the option that messages speak of; a teacher must have a tokenizer.
    `demo` is the folder under the package's `demo/` that the name "demo" stands for; "demo-clip" is the demo's CLIP for both.
    """
    embedded = {"demo": demo, "demo-clip": "clip"}.get(name)
    folder = DEMO / embedded if embedded else Path(name).expanduser()
    if folder.is_dir() or embedded:
        if problem := _problem(folder, role):
            raise UserError(f"--{role} {name}: the folder {folder} {problem}")
        return Checkpoint(name, folder, _content_hash(folder))
    if folder.exists():
        raise UserError(f"--{role} {name}: this is a file; give the folder that holds the checkpoint")
    if folder.is_absolute() or name.startswith(".") or name.count("/") > 1 or "\\" in name:
        raise UserError(f"--{role} {name}: there is no such folder")
    with _logged("huggingface_hub"):
        folder = _snapshot(name, role)
    return Checkpoint(name, folder, f"{name}@{folder.name}")


def image_settings(folder: Path) -> ImageSettings:
    """Size, mean and std from the checkpoint's preprocessor file; what it leaves out, from the model's family."""
    config = read_json(folder / "config.json")
    vision = config.get("vision_config") or config
    given = _preprocessor(folder, config)
    crop, size = given.get("crop_size"), given.get("size")
    size = crop if crop and (given.get("do_center_crop") or not size) else size or vision.get("image_size")
    if not size and "num_patches" in vision:  # SigLIP2 of free aspect ratio: a square of all its patches
        size = math.isqrt(vision["num_patches"]) * vision.get("patch_size", 16)
    if str(config.get("model_type")).startswith("siglip"):
        mean, std = HALF, HALF
    else:
        mean, std = (CLIP_MEAN, CLIP_STD) if "vision_config" in config else (IMAGENET_MEAN, IMAGENET_STD)
    mean, std = given.get("image_mean") or mean, given.get("image_std") or std
    if given.get("do_normalize") is False:
        mean, std = (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)
    if not (are_three_numbers(mean) and are_three_numbers(std)):
        raise UserError(f"{folder}: the preprocessor's image_mean and image_std must be three numbers each")
    return ImageSettings(_side(size or 224, folder), (mean[0], mean[1], mean[2]), (std[0], std[1], std[2]))


@contextmanager
def quiet_loading() -> Iterator[None]:
    """While it lasts, what transformers would print (bars, load reports, warnings) goes to the debug log."""
    from transformers.utils import logging as transformers_logging

    bars = transformers_logging.is_progress_bar_enabled()
    if bars:
        transformers_logging.disable_progress_bar()
    try:
        with _logged("transformers", "huggingface_hub"):
            yield
    finally:
        if bars:
            transformers_logging.enable_progress_bar()


def are_three_numbers(value: object) -> bool:
    """Whether `value` can be a mean or a std: one number per colour channel."""
    return isinstance(value, list | tuple) and len(value) == 3 and all(isinstance(v, int | float) for v in value)


def read_json(file: Path) -> dict[str, Any]:
    """The JSON object in `file`."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{file} cannot be read as JSON ({one_line(error)})") from error
    if not isinstance(content, dict):
        raise UserError(f"{file} is not a JSON object")
    return content


def pickled_only(folder: Path, loader: str) -> str | None:
    """What to say, after the folder's name, of weights that would have to be unpickled; None where there are others.

    `loader` is the class of transformers that converts them.
    """
    config = folder / "config.json"
    named = read_json(config).get("transformers_weights") if config.is_file() else None
    if named is not None and ".safetensors" not in str(named):
        return f"names {named} as its weights in config.json, which are not safetensors and are never opened; take that line out"
    there = [name for name in (WEIGHTS, PICKLED) if (folder / name).is_file() or (folder / f"{name}.index.json").is_file()]
    if there != [PICKLED]:
        return None
    code = f"from transformers import {loader} as M; M.from_pretrained({str(folder)!r}).save_pretrained({str(folder)!r})"
    return (
        f"has only pickled weights ({PICKLED}), which could run any code and are never opened; if you trust them, convert them "
        f'once: python -c "{code}"'
    )


def _problem(folder: Path, role: str) -> str | None:
    """What keeps the folder from being a checkpoint for this role, as the end of a sentence that names the folder."""
    if not folder.is_dir():
        return "does not exist"
    if not (folder / "config.json").is_file():
        return "has no config.json: it is not a transformers checkpoint"
    try:
        kind = str(read_json(folder / "config.json").get("model_type"))
        weights = _weights(folder)
    except UserError as error:
        return f"is broken: {error}"
    if role == "backbone" and kind.endswith("_vision_model"):
        return (
            f"has an image encoder alone ({kind}), which transformers makes no classifier of; give the whole model's checkpoint"
        )
    if problem := pickled_only(folder, LOADERS[role]):
        return problem
    if not weights:
        return f"has no weights ({WEIGHTS})"
    if lacking := [file.name for file in weights if not file.is_file()]:
        return f"lacks the weights file {lacking[0]}"
    if role == "teacher" and not any(file.name.endswith(TOKENIZER_FILES) for file in folder.iterdir()):
        return "has no tokenizer (tokenizer.json, or vocab.json with merges.txt)"
    return None


def _weights(folder: Path) -> list[Path]:
    """The files that transformers would load; of a sharded checkpoint also the shards that are missing."""
    if (folder / WEIGHTS).is_file():
        return [folder / WEIGHTS]
    if (index := folder / f"{WEIGHTS}.index.json").is_file():
        shards = read_json(index).get("weight_map")
        if not isinstance(shards, dict) or not shards:
            raise UserError(f"{index} has no weight_map")
        return [index, *(folder / shard for shard in sorted(set(shards.values())))]
    return []


def _content_hash(folder: Path) -> str:
    """A hash of all that an image's embedding depends on: weights, architecture, normalisation."""
    digest = hashlib.blake2b(digest_size=16)
    for file in [folder / "config.json", *(folder / name for name in PROCESSOR_FILES), *_weights(folder)]:
        if file.is_file():
            with file.open("rb") as stream:
                content = hashlib.file_digest(stream, hashlib.blake2b).digest()
            digest.update(file.name.encode() + b"\0" + content)
    return digest.hexdigest()


def _snapshot(name: str, role: str) -> Path:
    """The folder of a hub repository's files: from the cache if it is whole there, else downloaded."""
    from huggingface_hub import constants, snapshot_download
    from huggingface_hub import errors as hub_errors

    cache = f"not in the cache {constants.HF_HUB_CACHE}"
    try:
        # Few files are asked for: that the rest is there is judged below, as one format of the weights is enough.
        wanted = ["config.json", *PROCESSOR_FILES]
        cached = Path(snapshot_download(name, local_files_only=True, allow_patterns=wanted))
        problem = _problem(cached, role)
        if problem is None:
            return cached
        cache = f"its copy in the cache, {cached}, {problem}"
    except hub_errors.HFValidationError as error:
        raise UserError(f"--{role} {name}: neither a folder nor a name on the hub (owner/name)") from error
    except hub_errors.LocalEntryNotFoundError:
        pass
    if (converted := next((folder for folder in _cached_proposals(name) if not _problem(folder, role)), None)) is not None:
        return converted
    try:
        folder = _download(name, role)
    except UserError:
        raise
    except Exception as error:  # the kinds of network errors differ between versions of the hub's client
        if isinstance(error, hub_errors.GatedRepoError):
            why = f"access must be asked for at https://huggingface.co/{name}; then run `hf auth login`"
        elif isinstance(error, hub_errors.RepositoryNotFoundError):
            why = "no such folder here and no such model on the hub (a private one needs `hf auth login`)"
        else:
            why = (
                f"{cache}, and it could not be fetched from the hub ({one_line(error)}); give a folder with the "
                f"checkpoint, or set HF_HOME to a cache that has it, or use the demo {role}: --{role} demo"
            )
        raise UserError(f"--{role} {name}: {why}") from error
    if problem := _problem(folder, role):
        raise UserError(f"--{role} {name}: the model on the hub {problem}")
    return folder


def _download(name: str, role: str) -> Path:
    """The snapshot folder of `name` after fetching the files that a checkpoint consists of."""
    from huggingface_hub import snapshot_download

    revision, files = None, _files(name)
    if PICKLED in files and not _safetensors(files):
        if (revision := _converted(name)) is None:
            raise UserError(
                f"--{role} {name}: the model on the hub has only pickled weights ({PICKLED}), which could run any code and are "
                f"never opened; fetch it with `hf download {name} --local-dir FOLDER`, and --{role} FOLDER says how to convert it"
            )
        files = _files(name, revision)
    texts = [file for file in files if "/" not in file and file.endswith((".json", ".txt", ".model"))]
    log.info("downloading %s", name)
    # With the hub's own progress bar.
    return Path(snapshot_download(name, revision=revision, allow_patterns=[*texts, *_safetensors(files)]))


def _files(name: str, revision: str | None = None) -> list[str]:
    return [sibling.rfilename for sibling in _hub_answer(name, revision).siblings or []]


def _safetensors(files: list[str]) -> list[str]:
    return [file for file in files if re.fullmatch(r"model(-\d+-of-\d+)?\.safetensors", file)]


def _converted(name: str) -> str | None:
    """The revision in which the hub's own converter proposes safetensors in place of a model's pickled weights, if it does."""
    from huggingface_hub import HfApi

    proposals = HfApi().get_repo_discussions(name, author=CONVERTER, discussion_type="pull_request", discussion_status="open")
    return next((p.git_reference for p in proposals if (p.author, p.title) == (CONVERTER, CONVERSION)), None)


def _cached_proposals(name: str) -> Iterator[Path]:
    """The snapshots of a model's proposed revisions that were fetched before."""
    from huggingface_hub import constants
    from huggingface_hub.file_download import repo_folder_name

    model = Path(constants.HF_HUB_CACHE, repo_folder_name(repo_id=name, repo_type="model"))
    for reference in sorted((model / "refs" / "refs" / "pr").glob("*")):
        yield model / "snapshots" / reference.read_text().strip()


def _hub_answer(name: str, revision: str | None = None) -> "ModelInfo":
    """What the hub says of `name`, asked once; an error after PROBE_SECONDS.

    The request's own time limit counts for each address of the host, and not for finding the addresses.
    Where packets are dropped rather than refused that adds up to minutes: hence the thread.
    """
    from huggingface_hub import HfApi

    answer: Future[ModelInfo] = Future()

    def ask() -> None:
        try:
            answer.set_result(HfApi().model_info(name, revision=revision, timeout=PROBE_SECONDS))
        except Exception as error:
            answer.set_exception(error)

    threading.Thread(target=ask, daemon=True).start()  # an executor would wait for it at exit
    return answer.result(timeout=PROBE_SECONDS)


def _preprocessor(folder: Path, config: dict[str, Any]) -> dict[str, Any]:
    """The settings of the checkpoint's image processor, in the order in which transformers looks for them."""
    together, alone = (folder / name for name in PROCESSOR_FILES)
    if together.is_file() and isinstance(nested := read_json(together).get("image_processor"), dict):
        return nested
    if alone.is_file():
        return read_json(alone)
    if isinstance(timm := config.get("pretrained_cfg"), dict):
        sides = timm.get("input_size", [None])
        return {"size": sides[-1], "image_mean": timm.get("mean"), "image_std": timm.get("std")}
    log.warning("%s has no preprocessor_config.json: its model family's usual image settings are used", folder)
    return {}


def _side(size: Any, folder: Path) -> int:
    """The side of the square that `size` describes: 224, [224, 224], {"shortest_edge": 224}, {"height", "width"}."""
    if isinstance(size, dict):
        size = [size[key] for key in ("height", "width", "shortest_edge", "longest_edge") if key in size][:2]
    sides = set(size) if isinstance(size, list) else {size}
    if len(sides) != 1 or not isinstance(side := sides.pop(), int) or side < 1:
        raise UserError(f"{folder}: images must be squares, but the preprocessor's size is {size}")
    return side


@contextmanager
def _logged(*libraries: str) -> Iterator[None]:
    """While it lasts, these libraries' log messages and all Python warnings go to the debug log only."""
    loggers = [logging.getLogger(name) for name in libraries]
    before = [(logger.handlers, logger.propagate) for logger in loggers]
    for logger in loggers:
        logger.handlers, logger.propagate = [_ToDebugLog()], False
    try:
        with warnings.catch_warnings(record=True) as caught:
            yield
    finally:
        for logger, (handlers, propagate) in zip(loggers, before, strict=True):
            logger.handlers, logger.propagate = handlers, propagate
        for warning in caught:
            log.debug("%s", warning.message)


class _ToDebugLog(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        log.debug("%s: %s", record.name, record.getMessage())
