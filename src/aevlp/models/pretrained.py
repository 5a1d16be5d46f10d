"""Files of a checkpoint: in a folder, in the package (the demo's), in the hub's cache, or downloaded from the hub."""

import hashlib
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from huggingface_hub import HfApi, constants, snapshot_download
from huggingface_hub import errors as hub_errors
from huggingface_hub.file_download import repo_folder_name
from transformers.utils import logging as transformers_logging

from aevlp.core.debug_log import to_debug_log
from aevlp.core.errors import UserError, one_line
from aevlp.core.files import read_json
from aevlp.models import hub
from aevlp.models.image_settings import PROCESSOR_FILES
from aevlp.models.safe_loading import foreign_code

WEIGHTS, PICKLED = "model.safetensors", "pytorch_model.bin"
LOADERS = {"teacher": "AutoModel", "backbone": "AutoModelForImageClassification"}
CONVERTER, CONVERSION = "SFconvertbot", "Adding `safetensors` variant of this model"
TOKENIZER_FILES = (".model", "tokenizer.json", "merges.txt", "vocab.txt")
DEMO_CLIP, DEMO_BACKBONE = (Path(__file__).parent / "demo" / name for name in ("clip", "backbone"))

log = logging.getLogger("aevlp")


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint whose files are on this machine."""

    folder: Path
    fingerprint: str
    """Identifies the weights: `owner/name@commit` from the hub, else a hash of the files' content, independent of their path."""


def local_checkpoint(name: str, *, role: str) -> Checkpoint:
    """Return the checkpoint called `name`, downloaded only if it is neither a folder nor in the hub's cache.

    `role` is "teacher" or "backbone", the option that messages name; a teacher must have a tokenizer. The name "demo" means the
    demo's model for this role, "demo-clip" the demo's CLIP for both.
    """
    demo = {"demo": DEMO_CLIP if role == "teacher" else DEMO_BACKBONE, "demo-clip": DEMO_CLIP}
    folder = demo.get(name) or _path_of(name, role)
    if folder.is_dir() or name in demo:
        if problem := _problem(folder, role):
            raise UserError(f"--{role} {name}: the folder {folder} {problem}")
        return Checkpoint(folder, _content_hash(folder))
    if folder.exists():
        raise UserError(f"--{role} {name}: this is a file; give the folder that holds the checkpoint")
    if folder.is_absolute() or name.startswith(".") or name.count("/") > 1 or "\\" in name:
        raise UserError(f"--{role} {name}: there is no such folder")
    with to_debug_log("huggingface_hub"):
        folder = _snapshot(name, role)
    return Checkpoint(folder, f"{name}@{folder.name}")


@contextmanager
def quiet_loading() -> Iterator[None]:
    """Within it, what transformers would print (progress bars, load reports, warnings) goes to the debug log."""
    has_bars = transformers_logging.is_progress_bar_enabled()
    if has_bars:
        transformers_logging.disable_progress_bar()
    try:
        with to_debug_log("transformers", "huggingface_hub"):
            yield
    finally:
        if has_bars:
            transformers_logging.enable_progress_bar()


def weights_problem(folder: Path, loader: str) -> str | None:
    """Return the end of a sentence that names the folder if its weights are elsewhere or could only be unpickled; else None.

    `loader` is the class of transformers that converts them.
    """
    config = folder / "config.json"
    named = read_json(config).get("transformers_weights") if config.is_file() else None
    if named not in (None, WEIGHTS):
        return f"names {named} as its weights in config.json, which are never opened; remove that line and bring {WEIGHTS}"
    present = [name for name in (WEIGHTS, PICKLED) if (folder / name).is_file() or (folder / f"{name}.index.json").is_file()]
    if present != [PICKLED]:
        return None
    code = f"from transformers import {loader} as M; M.from_pretrained({str(folder)!r}).save_pretrained({str(folder)!r})"
    return (
        f"has only pickled weights ({PICKLED}), which could run any code and are never opened; if you trust them, convert them "
        f'once: python -c "{code}"'
    )


def _problem(folder: Path, role: str) -> str | None:
    """Return why the folder is no checkpoint for this role, as the end of a sentence that names it; None if it is one."""
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
        return f"has only an image encoder ({kind}), which is no classifier for transformers; give the whole model's checkpoint"
    if problem := weights_problem(folder, LOADERS[role]) or foreign_code(folder):
        return problem
    if not weights:
        return f"has no weights ({WEIGHTS})"
    if missing := [file.name for file in weights if not file.is_file()]:
        return f"lacks the weights file {missing[0]}"
    if role == "teacher" and not any(file.name.endswith(TOKENIZER_FILES) for file in folder.iterdir()):
        return "has no tokenizer (tokenizer.json, or vocab.json with merges.txt)"
    return None


def _weights(folder: Path) -> list[Path]:
    """Return the files that transformers would load; of a sharded checkpoint also the shards that are missing."""
    if (folder / WEIGHTS).is_file():
        return [folder / WEIGHTS]
    if (index := folder / f"{WEIGHTS}.index.json").is_file():
        shards = read_json(index).get("weight_map")
        if not isinstance(shards, dict) or not shards:
            raise UserError(f"{index} has no weight_map")
        if outside := [name for name in shards.values() if not isinstance(name, str) or Path(name).name != name]:
            raise UserError(f"{index} names {outside[0]} as weights; only files in the same folder are read")
        return [index, *(folder / shard for shard in sorted(set(shards.values())))]
    return []


def _content_hash(folder: Path) -> str:
    """Return a hash of everything that an image's embedding depends on: weights, architecture, normalisation."""
    digest = hashlib.blake2b(digest_size=16)
    for file in [folder / "config.json", *(folder / name for name in PROCESSOR_FILES), *_weights(folder)]:
        if file.is_file():
            with file.open("rb") as stream:
                content = hashlib.file_digest(stream, hashlib.blake2b).digest()
            digest.update(file.name.encode() + b"\0" + content)
    return digest.hexdigest()


def is_on_this_machine(name: str, *, role: str) -> bool:
    """Return whether a checkpoint needs no download: it is a folder, the demo's, or in the hub's cache."""
    if name in ("demo", "demo-clip") or _path_of(name, role).exists():
        return True
    with to_debug_log("huggingface_hub"):
        return _cached(name, role)[0] is not None


def _path_of(name: str, role: str) -> Path:
    """Return the path that a name would have on this machine; refuse one that no file can have."""
    try:
        path = Path(name).expanduser()
        path.exists()
    except (OSError, RuntimeError) as error:  # too long, or of an unknown user
        shown = name if len(name) <= 80 else f"{name[:40]}... ({len(name):,} characters)"
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"--{role} {shown}: no file or model can have this name ({reason}); check it") from error
    return path


def _cached(name: str, role: str) -> tuple[Path | None, str]:
    """Return the folder of a hub repository's files in the cache, or None; and why it is not there."""
    cache = f"not in the cache {constants.HF_HUB_CACHE}"
    try:
        # Only these files are asked for: one format of the weights is enough, and `_problem` checks that one is there.
        wanted = ["config.json", *PROCESSOR_FILES]
        cached = Path(snapshot_download(name, local_files_only=True, allow_patterns=wanted))
        problem = _problem(cached, role)
        if problem is None:
            return cached, ""
        cache = f"its copy in the cache, {cached}, {problem}"
    except hub_errors.HFValidationError as error:
        raise UserError(f"--{role} {name}: neither a folder nor a name on the hub (owner/name)") from error
    except hub_errors.LocalEntryNotFoundError:
        pass
    return next((folder for folder in _cached_proposals(name) if not _problem(folder, role)), None), cache


def _snapshot(name: str, role: str) -> Path:
    """Return the folder of a hub repository's files: from the cache if it is complete there, else downloaded."""
    folder, cache = _cached(name, role)
    if folder is not None:
        return folder
    try:
        folder = _download(name, role)
    except UserError:
        raise
    except Exception as error:  # the kinds of network errors differ between versions of the hub's client
        if isinstance(error, hub_errors.GatedRepoError):
            why = f"access must be requested at https://huggingface.co/{name}; then run `hf auth login`"
        elif isinstance(error, hub_errors.RepositoryNotFoundError):
            why = "no such folder here and no such model on the hub (a private one needs `hf auth login`)"
        else:
            without = ", or train without a teacher: --method gr" if role == "teacher" else ""
            why = (
                f"{cache}, and it could not be fetched from the hub ({one_line(error)}); give a folder with the "
                f"checkpoint, or set HF_HOME to a cache that has it{without} "
                f"(--{role} demo is for the demo's drawings, not photos)"
            )
        raise UserError(f"--{role} {name}: {why}") from error
    if problem := _problem(folder, role):
        raise UserError(f"--{role} {name}: the model on the hub {problem}")
    return folder


def _download(name: str, role: str) -> Path:
    """Fetch the files of a checkpoint and return the snapshot's folder."""
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


def _safetensors(files: list[str]) -> list[str]:
    return [file for file in files if re.fullmatch(r"model(-\d+-of-\d+)?\.safetensors", file)]


def _converted(name: str) -> str | None:
    """Return the revision in which the hub's own converter proposes safetensors for a model's pickled weights, if any."""
    proposals = HfApi().get_repo_discussions(name, author=CONVERTER, discussion_type="pull_request", discussion_status="open")
    return next((p.git_reference for p in proposals if (p.author, p.title) == (CONVERTER, CONVERSION)), None)


def _cached_proposals(name: str) -> Iterator[Path]:
    """Yield the cached snapshots of a model's proposed revisions."""
    model = Path(constants.HF_HUB_CACHE, repo_folder_name(repo_id=name, repo_type="model"))
    for reference in sorted((model / "refs" / "refs" / "pr").glob("*")):
        yield model / "snapshots" / reference.read_text().strip()


def _files(name: str, revision: str | None = None) -> list[str]:
    """Return the names of a model's files on the hub, requested once; an error after a few seconds."""
    info = hub.within_seconds(lambda: HfApi().model_info(name, revision=revision, timeout=hub.PROBE_SECONDS))
    return [sibling.rfilename for sibling in info.siblings or []]
