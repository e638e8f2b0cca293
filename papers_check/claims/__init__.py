"""Published claims, one module a paper, each checked afresh by exact computation."""

from __future__ import annotations

from papers_check.claims import block_verification, leviathan, spectr
from papers_check.claims.base import Claim, Finding, Verdict

CLAIMS: tuple[Claim, ...] = (
    *leviathan.CLAIMS,
    *spectr.CLAIMS,
    *block_verification.CLAIMS,
)

__all__ = ["CLAIMS", "Claim", "Finding", "Verdict"]
