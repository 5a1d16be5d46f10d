"""A trained model onto the Hugging Face hub: its folder, card and thresholds, and the report. Loads without torch."""

from dataclasses import dataclass
from pathlib import Path

from huggingface_hub import CommitOperationAdd, HfApi
from huggingface_hub import errors as hub_errors

from aevlp.core.debug_log import to_debug_log
from aevlp.core.errors import UserError, one_line
from aevlp.inference.model_location import ModelLocation
from aevlp.models.hub import LOGIN, MODEL_FILES, REQUIRED, require_name, why_refused, within_seconds

CARD, REPORT = "README.md", "report.html"


@dataclass(frozen=True)
class Pushed:
    """A model that is on the hub now."""

    name: str
    address: str
    is_public: bool


def push_model(location: ModelLocation, name: str, *, public: bool = False, report: bool = True) -> Pushed:
    """Upload a model in one commit, into a repository that is made unless it exists. It is private unless `public`.

    A name without an owner gets the user's. A public repository is refused unless `public`.
    """
    files = files_to_push(location, report=report)
    require_name(name)
    api = HfApi()
    with to_debug_log("huggingface_hub"):
        try:
            owner = str(within_seconds(api.whoami)["name"])
            name = name if "/" in name else f"{owner}/{name}"
            api.create_repo(name, private=not public, exist_ok=True)
            if api.model_info(name).private is public:
                if not public:
                    raise UserError(f"{name}: exists and is public; say --public if that is meant, or choose another name")
                api.update_repo_settings(name, private=False)
            operations = [CommitOperationAdd(there, here) for there, here in files.items()]
            api.create_commit(name, operations, commit_message=f"Upload {location.given.resolve().name}")
        except hub_errors.LocalTokenNotFoundError as error:
            raise UserError(f"{name}: the hub takes models from those it knows; {LOGIN}") from error
        except hub_errors.HfHubHTTPError as error:
            raise UserError(f"{name}: {why_refused(error)}") from error
        except UserError:
            raise
        except Exception as error:  # the kinds of network errors differ between versions of the hub's client
            raise UserError(f"{name}: the hub cannot be reached ({one_line(error)}); the same command again goes on") from error
    return Pushed(name, f"{api.endpoint}/{name}", public)


def files_to_push(location: ModelLocation, *, report: bool) -> dict[str, Path]:
    """Return name on the hub -> file; a model without its weights is refused. Nothing else in the folders is uploaded."""
    files = {file: location.model / file for file in (*MODEL_FILES, CARD)}
    if location.thresholds is not None:
        files["thresholds.json"] = location.thresholds
    if report:
        files[REPORT] = location.model.parent / REPORT
    if missing := [file for file in REQUIRED if not files[file].is_file()]:
        raise UserError(f"{location.given}: no trained model here ({missing[0]} is missing); is the training finished?")
    return {there: here for there, here in files.items() if here.is_file()}
