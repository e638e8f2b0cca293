"""E[tau] of the relaxed rules over a row tree: token verification with q acc for min(p, q).

    P(tau >= t) = sum over x_1..x_t of prod_i q(x_i) acc(x_i)   (rows and acc at each prefix),

summed over t = 1..gamma. It is an average along the kernel of ACCEPTED tokens, q acc/alpha; it is
not a product of mean acceptances, and no averaging under p, q or nu gives it. The published
product formula prod_i (1 - TV(q_i, nu_i)) is right only if acceptance depends on the position
alone. Derived here; for a rule with maximal coupling, q acc = min(q, nu).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from theory.accepted_length.calls import Rule
from theory.fields import Array, Number
from theory.models import RowTree, prefixes
from theory.verifiers.relaxed import at, is_dynamic, load_rule


def survival(
    rule: str, p_tree: RowTree, q_tree: RowTree, gamma: int, /, **params: Any
) -> tuple[Number, ...]:
    """P(tau >= t) for t = 1..gamma in a block after the empty prefix.

    Raises:
        ValueError: an unknown or lossless rule, or a parameter outside its range.
    """
    position = load_rule(rule).position
    reach: Array = p_tree.field.array([1])
    tail = []
    for level in range(gamma):
        rows = zip(
            prefixes(p_tree.vocab, level), p_tree.levels[level], q_tree.levels[level], strict=True
        )
        kept = np.stack([position(p, q, **at(params, prefix)).kept(q) for prefix, p, q in rows])
        reach = (reach[:, None] * kept).reshape(-1)
        tail.append(reach.sum())
    return tuple(tail)


def rule_flows(rule: str, /, **params: Any) -> Rule:
    """A relaxed rule as (kept, corrected) flows over rows [..., V], for ``accepted_length.calls``.

    The bonus there is drawn from p, and the parameters must be the same in every context.

    Raises:
        ValueError: a bonus from elsewhere, or parameters that depend on the context.
    """
    module = load_rule(rule)
    if module.bonus_from(**params) != "target" or is_dynamic(params):
        raise ValueError(f"{rule!r}: these flows need fixed parameters and a bonus from the target")

    def flows(p: Array, q: Array) -> tuple[Array, Array]:
        vocab = p.shape[-1]
        rows = list(zip(p.reshape(-1, vocab), q.reshape(-1, vocab), strict=True))
        kept = np.stack([module.position(a, b, **params).kept(b) for a, b in rows])
        law = np.stack([module.declared(a, b, **params) for a, b in rows])
        return kept.reshape(p.shape), (law - kept).reshape(p.shape)

    return flows


def _form(rule: str) -> Callable[..., Number]:
    def expected(
        p_tree: RowTree, q_tree: RowTree, gamma: int, num_drafts: int = 1, **params: Any
    ) -> Number:
        if num_drafts != 1:
            raise ValueError(f"{rule!r} verifies one draft, got num_drafts={num_drafts}")
        return sum(survival(rule, p_tree, q_tree, gamma, **params))

    expected.__doc__ = f"Expected accepted length of the {rule} rule."
    return expected


LOSSY_FORMS: dict[str, Callable[..., Number]] = {
    name: _form(name) for name in ("ensemble", "lenience", "mentored", "cascade", "typical")
}
"""``form(p_tree, q_tree, gamma, num_drafts=1, **params)`` by rule name."""
