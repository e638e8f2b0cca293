"""Windows that peek, which are NOT lossless: counter-examples, and what repairs one of them.

A rule peeks if it ends the block *before* a token because of that token's value: drawn tokens are
looked at and dropped. The tokens that are sent are then no longer a sample of the draft, and the
output law is biased, whatever the verifier (p = (1/2, 1/2), q = (3/4, 1/4), drop x when q(x) < 2/5:
the first token has law (5/8, 3/8)). So is the *clairvoyant oracle* taken for a decoder: drafting
exactly up to the first rejection and then drawing a bonus from p instead of the residual gives
min(p, q) + (1 - alpha) p. As an accounting of speed the oracle is fine (``theory.windows.ladder``).

**Free repair**: the first dropped token can still be tested, since its acceptance needs only the
target row before it, the row that the bonus would have been drawn from. Accepted, it takes the
bonus's place; rejected, the residual does. This makes dropping *one* token exact at no cost; in a
dropped block of two or more the later tokens stay biased. Derived here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from theory.drafting import Window
from theory.effects import Effects
from theory.fields import minimum
from theory.models import Prefix, Rows
from theory.verifiers.common import Carry, Program, Round, only_draft
from theory.windows.rule import Rule, Stopping

Worth = Callable[[Prefix, Rows], bool]
"""``worth(path, draft)``: whether the newest block of ``path`` deserves to be sent."""


def until_unworthy(worth: Worth, block: int = 1) -> Rule:
    """The honest rule behind a peeking one: stop after an unworthy block, which is sent."""

    def stop(path: Prefix, draft: Rows) -> bool:
        return bool(path) and len(path) % block == 0 and not worth(path, draft)

    return stop


def sent(path: Prefix, draft: Rows, worth: Worth, block: int = 1) -> int:
    """How much of a drawn path a peeking rule sends: an unworthy last block is dropped."""
    return len(path) - block * until_unworthy(worth, block)(path, draft)


def dropping(worth: Worth, block: int = 1) -> Window:
    """The peeking window: draw block after block, drop the first unworthy one and stop."""
    whole = Stopping(until_unworthy(worth, block))

    def window(fx: Effects, draft: Rows, cap: int, k: int) -> Prefix:
        path = whole(fx, draft, cap, k)
        return path[: sent(path, draft, worth, block)]

    return window


def free_repair(verifier: Program, worth: Worth, block: int = 1) -> Program:
    """A stateless verifier that also tests the first token that peeking would drop.

    It takes the path of the honest window ``Stopping(until_unworthy(worth, block))``. Lossless for
    ``block`` 1; for longer blocks the law of the tested token's successors stays biased.
    """

    def program(
        fx: Effects,
        target: Rows,
        draft: Rows,
        drafts: tuple[Prefix, ...],
        carry: Carry = (),
        **params: Any,
    ) -> Round:
        path = only_draft(drafts, "the free repair")
        kept = sent(path, draft, worth, block)
        judged = path[: kept + 1]
        outcome = verifier(fx, target, draft, (judged,), carry, **params)
        if kept == len(path) or outcome.accepted <= kept:
            return outcome
        return Round(kept, judged)  # the row of a bonus after the tested token was not computed

    return program


def clairvoyant(
    fx: Effects, target: Rows, draft: Rows, drafts: tuple[Prefix, ...], carry: Carry = ()
) -> Round:
    """The oracle as a decoder: keep what token verification accepts, then a bonus from p."""
    path = only_draft(drafts, "the clairvoyant decoder")
    for i, x in enumerate(path):
        if not fx.flip(minimum(1, target(path[:i])[x] / draft(path[:i])[x]), i):
            return Round(i, (*path[:i], fx.choose(target(path[:i]), len(path))))
    return Round(len(path), (*path, fx.choose(target(path), len(path))))
