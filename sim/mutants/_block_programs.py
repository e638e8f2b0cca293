"""The faults of the block, greedy block and multi-draft rules as exact programs.

Slots as in the rules that they spoil. Stale rows, carries and copies as in ``_blocks``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from theory.effects import Effects
from theory.fields import Array, minimum, positive_part
from theory.laws import normalise, residual
from theory.models import Prefix, Rows
from theory.verifiers import block, greedy_block, kseq
from theory.verifiers.block import clipped_ratios, pass_probability
from theory.verifiers.common import Carry, Round
from theory.verifiers.greedy_block import Layer


def stale(
    fx: Effects, target: Rows, draft: Rows, drafts: tuple[Prefix, ...], carry: Carry
) -> Round:
    return block.program(fx, lambda path: target(path[:-1]), draft, drafts)


def token_residual(
    fx: Effects, target: Rows, draft: Rows, drafts: tuple[Prefix, ...], carry: Carry
) -> Round:
    path = drafts[0]
    tau, law = block.judge(fx, target, draft, path, 0)
    if tau < len(path):
        law = residual(target(path[:tau]), draft(path[:tau]))
    return Round(tau, (*path[:tau], fx.choose(law, len(path))))


def unscaled_threshold(
    fx: Effects, target: Rows, draft: Rows, drafts: tuple[Prefix, ...], carry: Carry
) -> Round:
    path = drafts[0]
    gamma, ratios = len(path), clipped_ratios(target, draft, path, fx.field.one)
    if gamma == 0 or fx.flip(ratios[gamma], gamma - 1):
        return Round(gamma, (*path, fx.choose(target(path), gamma)))
    for i in range(gamma - 1, -1, -1):
        p, q = target(path[:i]), draft(path[:i])
        z = positive_part(p - q).sum()
        slack = z + 1 - ratios[i]
        if i == 0 or fx.flip(1 if slack == 0 else z / slack, i - 1):
            break
    return Round(i, (*path[:i], fx.choose(residual(p, q, ratios[i]), gamma)))


def first_failure(
    fx: Effects, target: Rows, draft: Rows, drafts: tuple[Prefix, ...], carry: Carry
) -> Round:
    path = drafts[0]
    gamma, ratios = len(path), clipped_ratios(target, draft, path, fx.field.one)
    for i in range(1, gamma + 1):
        inner = i < gamma
        h = pass_probability(ratios[i], target(path[:i]), draft(path[:i])) if inner else ratios[i]
        if not fx.flip(h, i - 1):
            kept = path[: i - 1]
            law = residual(target(kept), draft(kept), ratios[i - 1])
            return Round(i - 1, (*kept, fx.choose(law, gamma)))
    return Round(gamma, (*path, fx.choose(target(path), gamma)))


def without_carry(
    fx: Effects, target: Rows, draft: Rows, drafts: tuple[Prefix, ...], carry: Carry
) -> Round:
    return replace(greedy_block.program(fx, target, draft, drafts), carry=())


def carry_cut(
    fx: Effects, target: Rows, draft: Rows, drafts: tuple[Prefix, ...], carry: Carry
) -> Round:
    done = greedy_block.program(fx, target, draft, drafts, carry)
    layers: tuple[Layer, ...] = done.carry  # type: ignore[assignment]
    left = len(drafts[0]) - done.accepted - 1
    if left <= 0:
        return done
    newest = (replace(layers[-1], left=left - 1),) if left > 1 else ()
    return replace(done, carry=(*layers[:-1], *newest))


def rho_one(
    fx: Effects, target: Rows, draft: Rows, drafts: tuple[Prefix, ...], carry: Carry
) -> Round:
    def position(p: Array, q: Array, k: int) -> tuple[Array, Array]:
        kept = minimum(p, q)
        rest = p - kseq.gain(kept.sum(), k) * kept
        return kept / q, normalise(positive_part(rest), fallback=p)

    return _kseq(fx, target, draft, drafts, position, skip=False)


def copies_skipped(
    fx: Effects, target: Rows, draft: Rows, drafts: tuple[Prefix, ...], carry: Carry
) -> Round:
    return _kseq(fx, target, draft, drafts, kseq.position, skip=True)


def _kseq(
    fx: Effects,
    target: Rows,
    draft: Rows,
    drafts: tuple[Prefix, ...],
    position: Callable[[Array, Array, int], tuple[Array, Array]],
    skip: bool,
) -> Round:
    """K-SEQ with another acceptance and residual, or without trying copies."""
    gamma, num_drafts = len(drafts[0]), len(drafts)
    survivors = list(range(num_drafts))
    path: Prefix = ()
    for i in range(gamma):
        accept, rest = position(target(path), draft(path), len(survivors))
        tried: set[int] = set()
        for j in survivors:
            x = drafts[j][i]
            if (not skip or x not in tried) and fx.flip(accept[x], i * num_drafts + j):
                break
            tried.add(x)
        else:
            return Round(i, (*path, fx.choose(rest, gamma * num_drafts)))
        path = (*path, x)
        survivors = [j for j in survivors if drafts[j][i] == x]
    return Round(gamma, (*path, fx.choose(target(path), gamma * num_drafts)))
