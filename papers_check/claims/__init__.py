"""Published claims, one module a paper, each checked afresh by exact computation."""

from __future__ import annotations

from functools import cache

from papers_check.claims import (
    adaedl,
    block_verification,
    cascades,
    diversed,
    draft_length_audit,
    eagle3,
    engines,
    greedy_multipath,
    hierarchical,
    hybrid,
    leviathan,
    mentored,
    optimal_multi_draft,
    ouroboros,
    own,
    pacer,
    pearl,
    specdecpp,
    specinfer,
    spectr,
    spectr_gbv,
    spectr_gbv_bound,
    suffix_decoding,
    svip,
    traversal,
)
from papers_check.claims.base import Certificate, Claim, Finding, Verdict

CLAIMS: tuple[Claim, ...] = (
    *leviathan.CLAIMS,
    *spectr.CLAIMS,
    *specinfer.CLAIMS,
    *block_verification.CLAIMS,
    *hierarchical.CLAIMS,
    *optimal_multi_draft.CLAIMS,
    *greedy_multipath.CLAIMS,
    *traversal.CLAIMS,
    *spectr_gbv.CLAIMS,
    *spectr_gbv_bound.CLAIMS,
    *pacer.CLAIMS,
    *svip.CLAIMS,
    *adaedl.CLAIMS,
    *specdecpp.CLAIMS,
    *pearl.CLAIMS,
    *draft_length_audit.CLAIMS,
    *diversed.CLAIMS,
    *cascades.CLAIMS,
    *mentored.CLAIMS,
    *hybrid.CLAIMS,
    *suffix_decoding.CLAIMS,
    *eagle3.CLAIMS,
    *ouroboros.CLAIMS,
    *engines.CLAIMS,
    *own.CLAIMS,
)
"""Every claim: verification, several drafts, windows, relaxed rules, drafters, engines, ours."""


@cache
def finding(claim: Claim) -> Finding:
    """The finding of a claim, computed once a process."""
    return claim.check()


__all__ = ["CLAIMS", "Certificate", "Claim", "Finding", "Verdict", "finding"]
