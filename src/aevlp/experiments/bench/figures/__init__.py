"""The figures, one file each. Every file in this folder that registers a figure is found by itself.

A figure's keyword parameters are its setting; their defaults are the documented one.
"""

import pkgutil
from importlib import import_module

from aevlp.experiments.bench.registry import FIGURES

for _module in pkgutil.iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

__all__ = ["FIGURES"]
