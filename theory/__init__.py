"""Exact theory of speculative decoding: laws, expected lengths, bounds, windows, frontiers."""

from theory.analysis import Analysis, analyse
from theory.catalogue import VERIFIERS
from theory.fields import EXACT, FLOAT, SYMBOLIC
from theory.models import MarkovModel, RowTree, TableModel, load_model
from theory.transport import bounds

__all__ = [
    "EXACT",
    "FLOAT",
    "SYMBOLIC",
    "VERIFIERS",
    "Analysis",
    "MarkovModel",
    "RowTree",
    "TableModel",
    "analyse",
    "bounds",
    "load_model",
]
