"""The promises of the losses.

Most of them hold for every loss, so the tests go through the registry, and a newly registered loss is held to them with no
line changed here. What they cannot know of a loss, any file of this folder (such as the loss's own test file) may define:

- NAIVE = {"name": function}: the loss as a sum over cells in plain Python, called like the loss. Every loss needs one.
- OTHER_OPTIONS = {"name": {"key": value}}: options away from their defaults; the loss is tested with them as well.
- FLAT = {"name": {"key": value}}: for a loss that holds some of its parts constant to autograd, options with which these do
  not depend on the logits; or None where there are none, and the file tests the gradient itself.
"""

import pkgutil
from importlib import import_module
from typing import Any


def collected(attribute: str) -> dict[str, Any]:
    """What all files of this folder define as that dict, in one. For use inside a test: it imports every test file."""
    found: dict[str, Any] = {}
    for file in pkgutil.iter_modules(__path__):
        found.update(getattr(import_module(f"{__name__}.{file.name}"), attribute, {}))
    return found
