"""Verification rules as pure array functions, for numpy and torch.

All rules have one signature (B requests, K drafts of g tokens, V tokens):

    verify(log_p, log_q, drafts, uniforms, lengths=None, carry=None, *, validate=True) -> Verdict

    log_p     [B, K, g+1, V]  log target rows; row i of draft k follows its first i tokens
    log_q     [B, K, g, V]    log draft rows, the law each token was really drawn from; -inf = 0
    drafts    [B, K, g]       drafted token ids; anything (-1) beyond ``lengths``
    uniforms  [B, S]          the tape, S = slots(g, K) numbers in [0, 1); a slot is read once
    lengths   [B] or None     drafted tokens of each request (0..g); rows beyond are never used
    carry                     what a stateful verifier returned last round, or None

``survival(log_p, log_q, drafts, lengths, carry)`` gives P(tau >= i | drafted tokens), i = 1..g:
the acceptance probability of the path instead of its coin (Rao-Blackwell).
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sim.verifiers import block, greedy_block, kseq, token
from sim.verifiers._checks import check_inputs
from sim.verifiers._common import Array, Verdict

__all__ = ["VERIFIERS", "Array", "ArrayVerifier", "Verdict", "check_inputs", "get"]


@dataclass(frozen=True)
class ArrayVerifier:
    """A verification rule: its array function and what a caller has to know about it.

    slots: (gamma, num_drafts) -> uniforms of one round. stateful: carries state between rounds
    and needs full drafts. multi_draft: accepts K > 1. survival: None where it is not offered.
    """

    name: str
    verify: Callable[..., Verdict]
    slots: Callable[[int, int], int]
    stateful: bool = False
    multi_draft: bool = False
    survival: Callable[..., Any] | None = None


VERIFIERS: Mapping[str, ArrayVerifier] = {
    rule.name: rule
    for rule in (
        ArrayVerifier("token", token.verify, token.slots, survival=token.survival),
        ArrayVerifier("block", block.verify, block.slots, survival=block.survival),
        ArrayVerifier(
            "greedy_block",
            greedy_block.verify,
            greedy_block.slots,
            stateful=True,
            survival=greedy_block.survival,
        ),
        ArrayVerifier("kseq", kseq.verify, kseq.slots, multi_draft=True, survival=kseq.survival),
    )
}


def get(name: str) -> ArrayVerifier:
    """The verifier called ``name``.

    Raises:
        ValueError: no such verifier; the message lists the nearest names.
    """
    if name in VERIFIERS:
        return VERIFIERS[name]
    near = difflib.get_close_matches(name, VERIFIERS, n=3, cutoff=0.4) or sorted(VERIFIERS)
    raise ValueError(f"no array verifier {name!r}; did you mean {', '.join(near)}?")
