"""Checks of a verifier's inputs, separate from the arithmetic so that hot loops can skip them.

A fault of the caller is reported here, with the place and the value, instead of becoming NaN, a
token outside the vocabulary or a silent bias: most real losslessness faults are a broken
contract (a q that is not the law of the draft), not a broken formula.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import array_namespace, device

from sim.verifiers._common import Array

MASS_TOLERANCE = 1e-3
"""Largest deviation of a row's total probability from 1."""
LARGEST_LOG = 20.0
"""Logs are cut here before ``exp``: such a row is refused anyway."""


def check_inputs(
    log_p: Array,
    log_q: Array,
    drafts: Array,
    uniforms: Array,
    lengths: Array | None,
    slots: int,
) -> None:
    """Check shapes and values of one verification call; shapes as in ``sim.verifiers``.

    Args:
        slots: number of uniforms the rule needs for each request.

    Raises:
        ValueError: wrong shapes or dtypes, lengths outside 0..g, a row that is NaN or does not
            sum to 1, a drafted token outside the vocabulary or with q = 0, a uniform outside
            [0, 1). The message names the place and the value.
    """
    check_shapes(log_p, log_q, drafts, uniforms, lengths, slots)
    xp = array_namespace(log_p, log_q, drafts, uniforms)
    gamma, vocab = drafts.shape[2], log_p.shape[3]
    _refuse(xp, ~((uniforms >= 0) & (uniforms < 1)), uniforms, "uniform", "lie in [0, 1)")
    real, rows = _used(xp, drafts, lengths)
    if lengths is not None:
        bad = (lengths < 0) | (lengths > gamma)
        _refuse(xp, bad, lengths, "lengths", f"lie in 0..{gamma}")
    bad = real & ((drafts < 0) | (drafts >= vocab))
    _refuse(xp, bad, drafts, "drafted token [request, draft, position]", f"lie in 0..{vocab - 1}")
    _check_rows(xp, log_p, rows, "target")
    _check_rows(xp, log_q, real, "draft")
    tokens = xp.astype(xp.where(real, drafts, 0), xp.int64)
    where = xp.meshgrid(*(_arange(xp, n, drafts) for n in drafts.shape), indexing="ij")
    zero = real & (log_q[(*where, tokens)] == -xp.inf)
    _refuse(
        xp,
        zero,
        tokens,
        "drafted token [request, draft, position]",
        "have q > 0: pass the law that the draft was really drawn from (after temperature and "
        "filters)",
    )


def check_shapes(
    log_p: Array,
    log_q: Array,
    drafts: Array,
    uniforms: Array,
    lengths: Array | None,
    slots: int,
) -> None:
    """Check ranks, sizes and dtypes.

    Raises:
        ValueError: the first array whose shape or dtype does not fit the others.
    """
    if log_p.ndim != 4 or drafts.ndim != 3:
        raise ValueError(
            f"log_p has shape {tuple(log_p.shape)} and drafts {tuple(drafts.shape)}; "
            "use [B, K, g+1, V] and [B, K, g]"
        )
    batch, num_drafts, gamma = drafts.shape
    vocab = log_p.shape[3]
    expected = {
        "log_p": (log_p, (batch, num_drafts, gamma + 1, vocab)),
        "log_q": (log_q, (batch, num_drafts, gamma, vocab)),
        "uniforms": (uniforms, (batch, slots)),
    }
    if lengths is not None:
        expected["lengths"] = (lengths, (batch,))
    for name, (array, shape) in expected.items():
        if tuple(array.shape) != shape:
            raise ValueError(
                f"{name} has shape {tuple(array.shape)}, expected {shape} "
                f"(B={batch}, K={num_drafts}, g={gamma}, V={vocab})"
            )
    xp = array_namespace(log_p)
    if log_p.dtype != log_q.dtype or log_p.dtype not in (xp.float32, xp.float64):
        raise ValueError(
            f"log_p is {log_p.dtype} and log_q {log_q.dtype}; compute both log-softmaxes in "
            "float32, or both in float64"
        )


def check_single(drafts: Array, rule: str) -> None:
    """Check that a rule for one draft gets one draft.

    Raises:
        ValueError: ``drafts`` has another number of drafts than 1.
    """
    if drafts.shape[1] != 1:
        raise ValueError(f"{rule} verifies one draft, got K={drafts.shape[1]}; use 'kseq'")


def _used(xp: Any, drafts: Array, lengths: Array | None) -> tuple[Array, Array]:
    """Masks of the real drafted tokens [B, K, g] and of the target rows that are read."""
    batch, num_drafts, gamma = drafts.shape
    if lengths is None:
        lengths = xp.full((batch,), gamma, dtype=xp.int64, device=device(drafts))
    rows = (_arange(xp, gamma + 1, drafts) <= lengths[:, None])[:, None, :]
    rows = xp.broadcast_to(rows, (batch, num_drafts, gamma + 1))
    return rows[:, :, 1:], rows


def _arange(xp: Any, size: int, like: Array) -> Array:
    return xp.arange(size, device=device(like))


def _check_rows(xp: Any, log_rows: Array, used: Array, name: str) -> None:
    logs = xp.where(used[..., None], log_rows, -xp.inf)
    mass = xp.sum(xp.exp(xp.clip(logs, None, LARGEST_LOG)), axis=-1)
    bad = used & ~(xp.abs(mass - 1.0) <= MASS_TOLERANCE)
    _refuse(
        xp,
        bad,
        mass,
        f"total mass of the {name} row [request, draft, position]",
        "be 1 (NaN: the model's output is broken; otherwise pass log-softmax rows)",
    )


def _refuse(xp: Any, bad: Array, values: Array, name: str, remedy: str) -> None:
    """Raise for the first flagged entry."""
    if not bool(xp.any(bad)):
        return
    first = int(xp.argmax(xp.astype(xp.reshape(bad, (-1,)), xp.uint8)))
    place = [int(i) for i in np.unravel_index(first, tuple(bad.shape))]
    value = float(xp.reshape(values, (-1,))[first])
    raise ValueError(f"{name} {place} is {value:.6g}; it must {remedy}")
