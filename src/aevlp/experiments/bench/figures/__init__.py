"""The figures; every file in this folder is loaded and registers its figures.

A figure's keyword parameters are its setting; their defaults are the documented one.
"""

from aevlp.core.registry import load_files
from aevlp.experiments.bench.measurement import FIGURES

load_files(__name__)

__all__ = ["FIGURES"]
