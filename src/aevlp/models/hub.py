"""Models on the Hugging Face hub: `hub:OWNER/NAME`. Loads without torch.

Files go to the cache of `huggingface_hub`, and come from there where the hub cannot be reached.
"""

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import TypeVar

from huggingface_hub import HfApi, snapshot_download
from huggingface_hub import errors as hub_errors
from huggingface_hub.utils._validators import validate_repo_id

from aevlp.core.debug_log import to_debug_log
from aevlp.core.errors import UserError, one_line
from aevlp.core.remote import HUB

PROBE_SECONDS = 5.0
REQUIRED = ("config.json", "model.safetensors")
MODEL_FILES = (*REQUIRED, "preprocessor_config.json", "thresholds.json")
"""Files of a model on the hub that are used; no other is downloaded."""
LOGIN = "run `hf auth login`, or set HF_TOKEN"

log = logging.getLogger("aevlp")
ResultT = TypeVar("ResultT")


def fetch_model(name: str) -> Path:
    """Return the folder of a hub model's files: the newest, or those in the cache where the hub cannot be reached."""
    require_name(name)
    with to_debug_log("huggingface_hub"):
        try:
            info = within_seconds(lambda: HfApi().model_info(name, timeout=PROBE_SECONDS))
        except Exception as error:  # the kinds of network errors differ between versions of the hub's client
            if isinstance(error, hub_errors.HfHubHTTPError) and error.response.status_code < 500:
                raise UserError(f"{HUB}{name}: {why_refused(error)}") from error
            if (folder := _cached(name)) is not None:
                log.info("%s%s: the hub cannot be reached; the model is that of the cache", HUB, name)
                return folder
            raise UserError(
                f"{HUB}{name}: not in the cache, and the hub cannot be reached ({one_line(error)}); connect to it, or set "
                "HF_HOME to a cache that has the model"
            ) from error
        files = {sibling.rfilename for sibling in info.siblings or []}
        if missing := [file for file in REQUIRED if file not in files]:
            raise UserError(f"{HUB}{name}: no model that aevlp can read ({missing[0]} is missing); push one: aevlp push RUN NAME")
        folder, used = _cached(name), files.intersection(MODEL_FILES)
        is_newest = folder is not None and folder.name == info.sha and all((folder / file).is_file() for file in used)
        return folder if folder is not None and is_newest else _download(name)


def require_name(name: str) -> None:
    """Refuse what cannot be the name of a model on the hub."""
    try:
        validate_repo_id(name)
    except hub_errors.HFValidationError as error:
        raise UserError(f"{HUB}{name}: not a name on the hub; it is OWNER/NAME, of letters, digits, - _ .") from error


def why_refused(error: hub_errors.HfHubHTTPError) -> str:
    """Return why the hub has refused a request and what to do, as the end of a sentence that names the model."""
    if isinstance(error, hub_errors.GatedRepoError):
        return f"access must be requested on its page first; then {LOGIN}"
    status = error.response.status_code
    if isinstance(error, hub_errors.RepositoryNotFoundError) or status == 404:
        return f"no such model on the hub, or a private one that your token may not read; check the name, or {LOGIN}"
    if status == 401:
        return f"the hub does not accept your token; {LOGIN}"
    if status == 403:
        return "your token may not do this; take one that may write there, or a name of your own"
    return f"the hub has refused it ({one_line(error)}); try again later"


def within_seconds(ask: Callable[[], ResultT]) -> ResultT:
    """Return the answer to a request, made once; an error after PROBE_SECONDS.

    The request's own time limit applies to each address of the host, and not to the name lookup. Where packets are dropped
    rather than refused that adds up to minutes, hence the thread.
    """
    answer: Future[ResultT] = Future()

    def run() -> None:
        try:
            answer.set_result(ask())
        except Exception as error:
            answer.set_exception(error)

    threading.Thread(target=run, daemon=True).start()  # an executor would wait for it at exit
    return answer.result(timeout=PROBE_SECONDS)


def _download(name: str) -> Path:
    """Return the snapshot of a model's newest revision, downloaded as far as the cache lacks it."""
    try:
        # By no commit: only then the cache notes which one is the newest, and finds it again without a network.
        return Path(snapshot_download(name, allow_patterns=list(MODEL_FILES)))
    except hub_errors.HfHubHTTPError as error:
        raise UserError(f"{HUB}{name}: {why_refused(error)}") from error
    except Exception as error:
        raise UserError(f"{HUB}{name}: the download failed ({one_line(error)}); try again") from error


def _cached(name: str) -> Path | None:
    """Return the folder of a model in the cache, if all that it needs is there."""
    try:
        folder = Path(snapshot_download(name, local_files_only=True, allow_patterns=list(MODEL_FILES)))
    except hub_errors.LocalEntryNotFoundError:
        return None
    return folder if all((folder / file).is_file() for file in REQUIRED) else None
