"""Edges of the array rules: zeros, equal rows, point masses, extreme uniforms, batches, carries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.rows import log
from sim.testing import Inputs, random_inputs, random_rows
from sim.verifiers import VERIFIERS, ArrayVerifier, Verdict
from sim.verifiers._common import draw

RULES = list(VERIFIERS.values())
ALMOST_ONE = 1 - 2.0**-53
every_rule = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)


def drafts_of(rule: ArrayVerifier, many: int = 3) -> int:
    return many if rule.multi_draft else 1


def make(rule: ArrayVerifier, seed: int, gamma: int, vocab: int, **options: Any) -> Inputs:
    drafts = drafts_of(rule, options.pop("drafts", 3))
    rng = np.random.default_rng(seed)
    slots = rule.slots(gamma, drafts)
    return random_inputs(rng, slots, options.pop("batch", 40), drafts, gamma, vocab, **options)


def context_free(p: Any, q: Any, drafts: Any, uniforms: Any) -> tuple[Any, ...]:
    """Arguments of one request whose rows are the same at every position."""
    tokens = np.array(drafts, dtype=np.int64)[None]
    count, gamma = tokens.shape[1:]
    log_p = np.broadcast_to(log(p), (1, count, gamma + 1, len(p)))
    log_q = np.broadcast_to(log(q), (1, count, gamma, len(q)))
    return log_p, log_q, tokens, np.array(uniforms, dtype=float)[None]


def assert_valid(inputs: Inputs, verdict: Verdict) -> None:
    """Lengths in range, and a token that the target can emit after the kept prefix."""
    batch, gamma = np.arange(len(inputs.drafts)), inputs.drafts.shape[2]
    lengths = np.full(len(batch), gamma) if inputs.lengths is None else inputs.lengths
    assert ((verdict.accepted >= 0) & (verdict.accepted <= lengths)).all()
    rows = inputs.log_p[batch, verdict.branch, verdict.accepted]
    assert (rows[batch, verdict.token] > -np.inf).all()
    for i in range(gamma):
        kept = i < verdict.accepted
        token = np.maximum(inputs.drafts[batch, verdict.branch, i], 0)
        assert (inputs.log_p[batch, verdict.branch, i, token][kept] > -np.inf).all()


@every_rule
@settings(max_examples=40)
@given(
    seed=st.integers(0, 2**32 - 1),
    gamma=st.integers(0, 4),
    vocab=st.integers(1, 4),
    awkward=st.sampled_from([0.0, 0.5, 1.0]),
    equal=st.sampled_from([0.0, 0.5, 1.0]),
    extreme=st.sampled_from([None, 0.0, ALMOST_ONE]),
    single=st.booleans(),
)
def test_every_verdict_is_valid(
    rule: ArrayVerifier,
    seed: int,
    gamma: int,
    vocab: int,
    awkward: float,
    equal: float,
    extreme: float | None,
    single: bool,
) -> None:
    """No NaN, no warning, no token outside the support; equal rows accept everything."""
    inputs = make(
        rule, seed, gamma, vocab, awkward=awkward, equal=equal, ragged=not rule.stateful, batch=12
    )
    if extreme is not None:
        inputs = inputs._replace(uniforms=np.full_like(inputs.uniforms, extreme))
    if single:
        inputs = inputs._replace(
            log_p=inputs.log_p.astype(np.float32), log_q=inputs.log_q.astype(np.float32)
        )
    verdict = rule.verify(*inputs)
    assert_valid(inputs, verdict)
    if equal == 1.0:
        expected = gamma if inputs.lengths is None else inputs.lengths
        assert (verdict.accepted == expected).all()


@every_rule
def test_rows_beyond_the_length_are_never_read(rule: ArrayVerifier) -> None:
    if rule.stateful:
        pytest.skip("needs full drafts")
    inputs = make(rule, 5, 4, 3, ragged=True)
    expected = rule.verify(*inputs)
    beyond = np.arange(5) > inputs.lengths[:, None]
    log_p, log_q = inputs.log_p.copy(), inputs.log_q.copy()
    log_p[np.broadcast_to(beyond[:, None], log_p.shape[:3])] = np.nan
    log_q[np.broadcast_to(beyond[:, None, 1:], log_q.shape[:3])] = np.nan
    verdict = rule.verify(log_p, log_q, *inputs[2:])
    np.testing.assert_array_equal(expected.accepted, verdict.accepted)
    np.testing.assert_array_equal(expected.token, verdict.token)


@every_rule
def test_ragged_rows_equal_their_own_runs(rule: ArrayVerifier) -> None:
    """Each request of a ragged batch decides as alone, with arrays of its own length."""
    if rule.stateful:
        pytest.skip("needs full drafts")
    inputs = make(rule, 6, 4, 3, ragged=True)
    together = rule.verify(*inputs)
    count = drafts_of(rule)
    for b, length in enumerate(inputs.lengths):
        tape = np.concatenate([inputs.uniforms[b, : length * count], inputs.uniforms[b, -1:]])
        alone = rule.verify(
            inputs.log_p[b : b + 1, :, : length + 1],
            inputs.log_q[b : b + 1, :, :length],
            inputs.drafts[b : b + 1, :, :length],
            tape[None],
        )
        assert alone.accepted[0] == together.accepted[b]
        assert alone.token[0] == together.token[b]


@every_rule
def test_order_of_the_batch_does_not_matter(rule: ArrayVerifier) -> None:
    inputs = make(rule, 8, 3, 4)
    order = np.random.default_rng(0).permutation(len(inputs.drafts))
    verdict = rule.verify(*inputs)
    mixed = rule.verify(*(None if part is None else part[order] for part in inputs))
    np.testing.assert_array_equal(verdict.accepted[order], mixed.accepted)
    np.testing.assert_array_equal(verdict.token[order], mixed.token)


@every_rule
def test_empty_batch(rule: ArrayVerifier) -> None:
    inputs = make(rule, 1, 3, 4)
    verdict = rule.verify(*(None if part is None else part[:0] for part in inputs))
    assert verdict.accepted.shape == verdict.token.shape == (0,)


@every_rule
def test_temperature_zero_keeps_the_longest_match(rule: ArrayVerifier) -> None:
    """Point masses: the matching prefix, then the target's token, whatever the uniforms."""
    rng, count, gamma, vocab = np.random.default_rng(3), drafts_of(rule), 4, 3
    best = rng.integers(vocab, size=gamma + 1)
    drafts = rng.integers(vocab, size=(50, 1, gamma)).repeat(count, axis=1)
    drafts = np.where(rng.random((50, 1, gamma)) < 0.7, best[:gamma], drafts)
    log_p = log(np.broadcast_to(np.eye(vocab)[best], (50, count, gamma + 1, vocab)))
    log_q = log(np.eye(vocab)[drafts])
    expected = (drafts[:, 0] == best[:gamma]).cumprod(axis=1).sum(axis=1)
    for value in (0.0, 0.5, ALMOST_ONE):
        uniforms = np.full((50, rule.slots(gamma, count)), value)
        verdict = rule.verify(log_p, log_q, drafts, uniforms)
        np.testing.assert_array_equal(verdict.accepted, expected)
        np.testing.assert_array_equal(verdict.token, best[expected])


@pytest.mark.parametrize("rule", ["block", "greedy_block"])
def test_no_residual_means_no_stop(rule: str) -> None:
    """Wc < 1 and z = 0: h is 0, so even u = 0 does not keep the prefix."""
    p, q = np.array([[0.3, 0.7], [0.5, 0.5], [1.0, 0.0]]), np.array([[0.6, 0.4], [0.5, 0.5]])
    args = (log(p)[None, None], log(q)[None, None], np.array([[[0, 1]]]))
    last = VERIFIERS[rule].verify(*args, np.array([[0.0, 0.6, 0.0]]))
    assert (last.accepted[0], last.token[0]) == (0, 1)
    deepest = VERIFIERS[rule].verify(*args, np.array([[0.9, 0.4, 0.0]]))
    assert (deepest.accepted[0], deepest.token[0]) == (2, 0)


def test_draw_uses_half_open_buckets_and_falls_back_to_the_last_token() -> None:
    weights = np.array([[0.0, 1.0, 0.0, 1.0, 0.0]])
    expected = {0.0: 1, 0.25: 1, 0.5: 3, 0.75: 3, ALMOST_ONE: 3}
    for u, token in expected.items():
        assert draw(np, weights, np.array([u]))[0] == token
    tiny = np.full((1, 49152), 1 / 3, dtype=np.float32)
    assert draw(np, tiny, np.array([ALMOST_ONE]))[0] == 49151


def rows_of(law: Callable[[tuple[int, ...]], Any], drafts: list[int], extra: int) -> Any:
    return np.stack([law(tuple(drafts[:i])) for i in range(len(drafts) + extra)])


def test_carry_equals_the_modified_target() -> None:
    """Rounds with a carry decide as rounds without one on rows modified by definition.

    After a round at context c that emitted e < gamma + 1 tokens, the target after c v, for v of
    length e..gamma-1, is norm((P(v .) - Q(v .))_+) with P the joint law of the target of that
    round: built here as nested functions of the prefix.
    """
    gamma, vocab, rule = 4, 3, VERIFIERS["greedy_block"]
    rng = np.random.default_rng(12)
    table: dict[Any, Any] = {}
    depths = []

    def base(which: str, prefix: tuple[int, ...]) -> Any:
        if (which, prefix) not in table:
            table[which, prefix] = random_rows(rng, 1, vocab, awkward=0.2)[0]
        return table[which, prefix]

    def modified(target: Any, context: tuple[int, ...], emitted: int) -> Any:
        def law(prefix: tuple[int, ...]) -> Any:
            row, v = target(prefix), prefix[len(context) :]
            if not emitted <= len(v) < gamma:
                return row
            p = np.prod([target(context + v[:i])[v[i]] for i in range(len(v))])
            q = np.prod([base("q", context + v[:i])[v[i]] for i in range(len(v))])
            gap = np.maximum(p * row - q * base("q", prefix), 0)
            return gap / gap.sum() if gap.sum() > 1e-13 else row

        return law

    for _ in range(150):
        target: Any = lambda prefix: base("p", prefix)  # noqa: E731
        context, carry, depth = (), None, 0
        for _ in range(5):
            drafts = list[int]()
            for _ in range(gamma):
                drafts.append(int(rng.choice(vocab, p=base("q", context + tuple(drafts)))))
            plain = rows_of(lambda v, c=context: base("p", c + v), drafts, 1)
            changed = rows_of(lambda v, c=context, t=target: t(c + v), drafts, 1)
            q = rows_of(lambda v, c=context: base("q", c + v), drafts, 0)
            tape = rng.random((1, gamma + 1))
            tail = (log(q)[None, None], np.array([[drafts]]), tape)
            verdict = rule.verify(log(plain)[None, None], *tail, None, carry)
            expected = rule.verify(log(changed)[None, None], *tail)
            paths = rule.survival(log(plain)[None, None], *tail[:2], None, carry)
            direct = rule.survival(log(changed)[None, None], *tail[:2])
            np.testing.assert_allclose(paths, direct, rtol=0, atol=1e-9)
            assert verdict.accepted[0] == expected.accepted[0]
            assert verdict.token[0] == expected.token[0]
            kept, carry = int(verdict.accepted[0]), verdict.carry
            depth = max(depth, int((carry.left > 0).sum()))
            if kept < gamma:
                target = modified(target, context, kept + 1)
            context = (*context, *drafts[:kept], int(verdict.token[0]))
        depths.append(depth)
    assert max(depths) >= 3  # three nested layers did occur


@every_rule
@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_real_vocabulary_in_float32(rule: ArrayVerifier, library: str) -> None:
    """V = 49152, logits of a language model's spread: valid tokens, lengths as in float64."""
    batch, gamma, vocab, count = 2, 3, 49152, drafts_of(rule, 2)
    rng = np.random.default_rng(4)
    logits = 3 * rng.standard_normal((batch, 1, gamma + 1, vocab)).repeat(count, axis=1)
    noise = rng.standard_normal((batch, 1, gamma, vocab)).repeat(count, axis=1)
    log_p = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
    draft = logits[:, :, :-1] + noise
    log_q = draft - np.log(np.exp(draft).sum(axis=-1, keepdims=True))
    gumbel = rng.gumbel(size=(batch, 1, gamma, vocab)).repeat(count, axis=1)
    drafts = np.argmax(log_q + gumbel, axis=-1)
    uniforms = rng.random((batch, rule.slots(gamma, count)))
    wide = rule.verify(log_p, log_q, drafts, uniforms)
    args: Any = (log_p.astype(np.float32), log_q.astype(np.float32), drafts, uniforms)
    if library == "torch":
        torch = pytest.importorskip("torch")
        args = tuple(torch.from_numpy(part) for part in args)
    verdict = rule.verify(*args)
    np.testing.assert_array_equal(np.asarray(verdict.accepted), wide.accepted)
    assert ((np.asarray(verdict.token) >= 0) & (np.asarray(verdict.token) < vocab)).all()
    carry = verdict.carry
    again = rule.verify(*args, None, carry) if rule.stateful else verdict
    assert ((np.asarray(again.token) >= 0) & (np.asarray(again.token) < vocab)).all()
