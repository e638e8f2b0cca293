"""Derivations on symbols: each prints its steps, and has checked itself when it is returned."""

from collections.abc import Callable

from theory.derivations.derivation import Derivation
from theory.derivations.lengths import best_gamma, ensemble_slopes, iid_lengths, slope_in_alpha
from theory.derivations.lossless import block_gain, losslessness

DERIVATIONS: dict[str, Callable[[], Derivation]] = {
    "token_lossless_1": lambda: losslessness("token", 1),
    "token_lossless_2": lambda: losslessness("token", 2),
    "block_lossless_1": lambda: losslessness("block", 1),
    "block_lossless_2": lambda: losslessness("block", 2),
    "block_gain": block_gain,
    "iid_lengths": iid_lengths,
    "slope_in_alpha": slope_in_alpha,
    "ensemble_slopes": ensemble_slopes,
    "best_gamma": best_gamma,
}
"""All derivations by name; each takes a second or two at most."""

__all__ = [
    "DERIVATIONS",
    "Derivation",
    "best_gamma",
    "block_gain",
    "ensemble_slopes",
    "iid_lengths",
    "losslessness",
    "slope_in_alpha",
]
