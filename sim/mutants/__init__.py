"""Faulty decoders, each with a fault seen in public engines: what a losslessness test must find.

Each is given three times: as an array function that runs at millions of rounds a second, as an
exact program that predicts its law in rationals, and by what exposes it (``Mutant``).
"""

from __future__ import annotations

from collections.abc import Mapping

from sim.mutants import block_faults, contract_faults, token_faults
from sim.mutants.mutant import Mutant

__all__ = ["MUTANTS", "Mutant"]

MUTANTS: Mapping[str, Mutant] = {
    mutant.name: mutant
    for mutant in (*token_faults.FAULTS, *contract_faults.FAULTS, *block_faults.FAULTS)
}
