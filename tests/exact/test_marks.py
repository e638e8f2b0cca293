"""Labels, clipping levels, couplings and splits, each against what defines it."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog

from theory.fields import EXACT, FLOAT, SYMBOLIC, Array, divide, positive_part, to_fraction
from theory.marks import Cells, cells, clip_levels, clipped, entropic, mix, shortfall, split
from theory.marks.coupling import conditional, curtain, repaired
from theory.marks.entropy import reachable
from theory.transport.one_position import alpha_star

F = Fraction


def weights(rng: np.random.Generator, size: int, zeros: bool = True) -> Array:
    """A random rational law with small denominators, and zeros now and then."""
    raw = rng.integers(0 if zeros else 1, 7, size)
    raw[rng.integers(size)] += 1
    return EXACT.array([F(int(x), int(raw.sum())) for x in raw])


def node(seed: int, num_drafts: int, count: int) -> tuple[Array, Array, Array, Cells]:
    """A random node: rational wishes, draft masses and label law, of any means."""
    rng = np.random.default_rng([seed, num_drafts])
    grid = cells(num_drafts, count, EXACT)
    marks = grid.masses if seed % 3 == 0 else weights(rng, count)
    wishes = np.sort(EXACT.array([F(int(x), 6) for x in rng.integers(0, 18, 5)]))
    return wishes, weights(rng, 5), marks, grid


def test_cells() -> None:
    grid = cells(3, 4, EXACT)
    assert [to_fraction(u) for u in grid.edges] == [F(j, 4) for j in range(5)]
    assert (grid.masses * grid.values).sum() == 1
    assert [to_fraction(z) for z in grid.values] == [F(1, 16), F(7, 16), F(19, 16), F(37, 16)]
    for k in (2, 3, 7):
        for field in (EXACT, FLOAT):
            grid = cells(k, 16, field)
            assert FLOAT.number((grid.masses * grid.values).sum()) == pytest.approx(1, abs=1e-15)
            assert list(grid.values) == sorted(grid.values)
        assert cells(k, 16, EXACT).gap() <= k * (k - 1) / (8 * 16**2) + 1e-15
    gaps = [cells(k, 64).gap() for k in (2, 3, 7)]
    assert gaps == pytest.approx([6.1e-5, 9.4e-5, 1.5e-4], rel=0.01)
    assert cells(1, 5).gap() == 0
    assert cells(2, 3) is cells(2, 3)
    for drafts, count in ((0, 4), (2, 0)):
        with pytest.raises(ValueError, match="too small; use 1 or more"):
            cells(drafts, count)
    with pytest.raises(ValueError, match="field='exact'"):
        cells(2, 3, SYMBOLIC)


def below_in_convex_order(levels: Array, masses: Array, marks: Array, values: Array) -> bool:
    """E(T - t)_+ <= E_mu(z - t)_+ at every kink, and equal means."""
    kinks = [*levels, *values]
    spread = [(masses * positive_part(levels - t)).sum() for t in kinks]
    allowed = [(marks * positive_part(values - t)).sum() for t in kinks]
    equal = (masses * levels).sum() == (marks * values).sum()
    return bool(equal and all(a <= b for a, b in zip(spread, allowed, strict=True)))


@pytest.mark.parametrize("num_drafts", [2, 3])
@pytest.mark.parametrize("seed", range(12))
def test_clipping_attains_the_bound(seed: int, num_drafts: int) -> None:
    wishes, masses, marks, grid = node(seed, num_drafts, 5)
    low, high = clip_levels(wishes, masses, marks, grid.values)
    levels = clipped(wishes, masses, marks, grid.values)
    assert low[0] <= high[0]
    assert below_in_convex_order(levels, masses, marks, grid.values)
    loss = (masses * positive_part(wishes - levels)).sum()
    assert loss == shortfall(wishes, masses, marks, grid.values)[0]


@pytest.mark.parametrize("seed", range(6))
def test_clipping_is_optimal_and_least_spread(seed: int) -> None:
    """Against the linear program over all kernels: same loss, and below its solution."""
    wishes, masses, marks, grid = node(seed, 2, 5)
    r, q, mu, z = (np.array(x, dtype=float) for x in (wishes, masses, marks, grid.values))
    n, b = len(r), len(z)
    cost = np.concatenate([np.zeros(n * b), np.ones(n)])  # plan k[g, b], then the losses
    rows = np.kron(np.eye(n), np.ones(b))
    columns = np.kron(np.ones(n), np.eye(b))
    equal = np.hstack([np.vstack([rows, columns]), np.zeros((n + b, n))])
    gains = np.hstack([-np.kron(np.eye(n), z), -np.eye(n)])
    best = linprog(cost, gains, -q * r, equal, np.concatenate([q, mu]))
    assert best.fun == pytest.approx(float(shortfall(r, q, mu, z)[0]), abs=1e-12)
    levels = clipped(r, q, mu, z)
    others = divide(best.x[: n * b].reshape(n, b) @ z, q)
    for t in [*levels, *others]:
        spread = (q * positive_part(levels - t)).sum()
        assert spread <= (q * positive_part(others - t)).sum() + 1e-9


def test_wishes_below_the_mean_are_raised() -> None:
    """Where everything can be met, the top level is not the largest wish."""
    half, z = EXACT.array(["1/2", "1/2"]), EXACT.array(["1/2", "3/2"])
    assert [to_fraction(x) for x in clipped(half, half, half, z)] == [1, 1]


@pytest.mark.parametrize("num_drafts", [2, 3])
@pytest.mark.parametrize("seed", range(8))
def test_couplings_are_exact(seed: int, num_drafts: int) -> None:
    wishes, masses, marks, grid = node(seed, num_drafts, 6)
    levels = clipped(wishes, masses, marks, grid.values)
    order = np.random.default_rng(seed).permutation(len(levels))
    for plan in (
        curtain(levels, masses, marks, grid.values, range(len(levels))),
        curtain(levels, masses, marks, grid.values, order),
    ):
        assert all(x >= 0 for x in plan.flat)
        assert all(plan.sum(axis=0) == marks)
        assert all(plan.sum(axis=1) == masses)
        assert all(plan @ grid.values == masses * levels)
    kernel = mix(levels, masses, marks, grid.values)
    assert all(kernel.sum(axis=1) == 1)
    assert all(masses @ kernel == marks)
    means = kernel @ grid.values
    assert all(m == t for m, t, q in zip(means, levels, masses, strict=True) if q != 0)


def test_equal_atoms_are_pooled() -> None:
    """Serving two equal atoms in a row is serving their sum."""
    grid = cells(2, 5, EXACT)
    t = EXACT.array(["1/2", "1", "1", "3/2"])
    apart, together = EXACT.array(["1/4", "1/8", "3/8", "1/4"]), EXACT.array(["1/4", "1/2", "1/4"])
    kernel = mix(t, apart, grid.masses, grid.values)
    merged = mix(t[[0, 1, 3]], together, grid.masses, grid.values)
    assert (kernel == merged[[0, 1, 1, 2]]).all()


@pytest.mark.parametrize("num_drafts", [2, 3, 7])
def test_float_couplings(num_drafts: int) -> None:
    """Exact marginals, the wished means, and the entropic one is the most mixed."""
    rng = np.random.default_rng(num_drafts)
    grid = cells(num_drafts, 24)
    masses = rng.dirichlet(np.full(24, 0.3), size=5)
    marks = np.concatenate([[grid.masses], rng.dirichlet(np.full(24, 0.5), size=4)])
    marks[4, ::3] = 0
    marks[4] /= marks[4].sum()
    levels = clipped(np.broadcast_to(grid.values, (5, 24)), masses, marks, grid.values)
    information = []
    for coupling in (mix, entropic):
        kernel = coupling(levels, masses, marks, grid.values)
        assert (kernel >= 0).all()
        assert np.abs(kernel.sum(axis=-1) - 1).max() < 1e-14
        held = (masses[..., None] * kernel).sum(axis=-2)
        assert np.abs(held - marks).max() < 1e-15
        assert (held[marks == 0] == 0).all()
        assert (masses * np.abs(kernel @ grid.values - levels)).sum() < 1e-12
        ratio = divide(kernel, np.broadcast_to(marks[:, None, :], kernel.shape))
        logs = np.where(ratio > 0, np.log(np.where(ratio > 0, ratio, 1)), 0)
        information.append((masses[..., None] * kernel * logs).sum(axis=(-1, -2)))
    assert (information[1] < information[0]).all()


def test_no_plan_crosses_a_tight_point() -> None:
    """Without the confinement the entropic iteration would have nowhere to converge to."""
    grid = cells(2, 8)
    q = np.array([0.3, 0.2, 0.1, 0.4])
    wishes = np.array([0.1, 0.3, 1.8, 1.9])
    shares = split(wishes, q, grid.masses, grid, entropic)
    levels = clipped(grid.values, shares.histogram, grid.masses, grid.values)
    allowed = reachable(levels, shares.histogram, grid.masses, grid.values)
    assert not allowed.all()
    assert (shares.kernel[~allowed] < 1e-12).all()
    assert np.abs(shares.tau - levels)[shares.histogram > 0].max() < 1e-12


@pytest.mark.parametrize("seed", [4, 18, 33])
def test_where_entropy_does_not_converge_the_mix_takes_over(seed: int) -> None:
    """Label masses down to 1e-100: still the wished means."""
    rng = np.random.default_rng(seed)
    masses, marks = rng.dirichlet(np.ones(32)), rng.dirichlet(np.full(32, 0.05))
    values = cells(2, 32).values
    levels = clipped(values, masses, marks, values)
    kernel = entropic(levels, masses, marks, values)
    assert (masses * np.abs(kernel @ values - levels)).sum() < 1e-12
    assert np.abs(masses @ kernel - marks).max() < 1e-15


def test_defects_are_repaired() -> None:
    rng = np.random.default_rng(0)
    masses, marks = rng.dirichlet(np.ones(6)), rng.dirichlet(np.ones(4))
    kernel = repaired(rng.random((6, 4)), masses, marks)
    assert np.abs(masses @ kernel - marks).max() < 1e-15
    assert np.abs(kernel.sum(axis=1) - 1).max() < 1e-15


def backwards(levels: Array, masses: Array, marks: Array, values: Array) -> Array:
    """A bad kernel: the highest labels go to the tokens that wish least."""
    plan = curtain_of_quantiles(masses[..., ::-1], marks)[..., ::-1, :]
    return conditional(plan, np.arange(levels.shape[-1]), masses, marks)


def curtain_of_quantiles(masses: Array, marks: Array) -> Array:
    """The monotone plan: atoms in order take the labels in order."""
    last, end = masses.cumsum(axis=-1)[..., None], marks.cumsum(axis=-1)[..., None, :]
    first, start = last - masses[..., None], end - marks[..., None, :]
    return np.asarray(positive_part(np.minimum(last, end) - np.maximum(first, start)))


@pytest.mark.parametrize("histogram", [True, False])
@pytest.mark.parametrize("coupling", [mix, backwards])
def test_every_split_shares_out_the_label_law(histogram: bool, coupling: Any) -> None:
    for seed in range(6):
        rng = np.random.default_rng(seed)
        grid = cells(2 + seed % 2, 6, EXACT)
        q, marks = weights(rng, 4), weights(rng, 6)
        wishes = EXACT.array([F(int(x), 4) for x in rng.integers(0, 14, 4)])
        shares = split(wishes, q, marks, grid, coupling, histogram)
        laws = shares.laws()
        assert all(q @ laws == marks)
        assert all(laws.sum(axis=1) == 1)
        assert all(laws @ grid.values == shares.means)
        assert shares.histogram.sum() == 1
        assert all(shares.laws(np.array([2]))[0] == laws[2])


@pytest.mark.parametrize("coupling", [mix, entropic])
def test_a_batch_is_its_nodes(coupling: Any) -> None:
    rng = np.random.default_rng(1)
    grid = cells(3, 8)
    q, marks = rng.dirichlet(np.ones(5), size=(2, 3)), rng.dirichlet(np.ones(8), size=(2, 3))
    wishes = rng.gamma(1.0, size=(2, 3, 5))
    batch = split(wishes, q, marks, grid, coupling)
    for index in np.ndindex(2, 3):
        alone = split(wishes[index], q[index], marks[index], grid, coupling)
        assert np.abs(alone.laws() - batch.laws()[index]).max() < 1e-12
        assert np.abs(alone.means - batch.means[index]).max() < 1e-12


def synthetic(vocab: int, temp: float, noise: float, seed: int) -> tuple[Array, Array]:
    """A pair of rows with the heavy heads and long tails of language models."""
    rng = np.random.default_rng([vocab, seed])
    logits = 3 * rng.normal(size=vocab)
    rows = logits / temp, (logits + noise * rng.normal(size=vocab)) / temp
    p, q = (np.exp(row - row.max()) for row in rows)
    return p / p.sum(), q / q.sum()


@pytest.mark.parametrize("vocab", [32_000, 128_000])
@pytest.mark.parametrize("setting", [(0.7, 0.5), (1.0, 1.5), (1.0, 3.0)])
def test_one_position_at_vocabulary_scale(vocab: int, setting: tuple[float, float]) -> None:
    """alpha* >= value >= alpha* - gap, from kernels with exact columns."""
    p, q = synthetic(vocab, *setting, seed=0)
    for num_drafts, count in ((2, 16), (3, 64), (7, 32)):
        best = alpha_star(p, q, num_drafts)
        grid = cells(num_drafts, count)
        for coupling in (mix, entropic):
            shares = split(divide(p, q), q, grid.masses, grid, coupling)
            value = np.minimum(p, q * shares.means).sum()
            assert best + 1e-12 >= value >= best - grid.gap() - 1e-12
            assert abs(shares.histogram.sum() - 1) < 1e-14
            assert np.abs(shares.histogram @ shares.kernel - grid.masses).max() < 1e-15
            assert (shares.tau == shares.kernel @ grid.values).all()
            assert abs((q * shares.means).sum() - 1) < 1e-12


def test_extreme_rows() -> None:
    """Underflow, infinite ratios, equal laws, point masses, and nothing left to share."""
    grid = cells(3, 16)
    tiny = np.array([0.5, 0.5, 1e-320, 0.0])
    for p in ([0.25, 0.25, 0.25, 0.25], [0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]):
        with np.errstate(over="ignore"):
            wishes = divide(np.array(p), tiny)
        for coupling in (mix, entropic):
            shares = split(wishes, tiny, grid.masses, grid, coupling)
            assert np.isfinite(shares.laws()).all()
            assert np.abs(tiny @ shares.laws() - grid.masses).max() < 1e-15
    assert split(np.ones(2), tiny[:2], grid.masses, grid).means == pytest.approx([1, 1])
    settled = np.eye(16)[5]
    for coupling in (mix, entropic):
        shares = split(np.array([0.1, 2.5]), tiny[:2], settled, grid, coupling)
        assert (shares.laws() == settled).all()
    single = cells(2, 1, EXACT)
    half = EXACT.array(["1/2", "1/2"])
    assert all(split(half, half, single.masses, single).means == 1)
    assert all(split(np.array([0.2, 1.8]), tiny[:2], cells(1, 4).masses, cells(1, 4)).means == 1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda g, q: split(q, q * 0.9, g.masses, g), "draft row is off its sum"),
        (lambda g, q: split(q, q, g.masses * 2, g), "label law is off its sum"),
        (lambda g, q: split(q, q * np.nan, g.masses, g), "draft row is off its sum"),
        (lambda g, q: split(q, SYMBOLIC.array(["1/2", "1/2"]), g.masses, g), "symbols"),
        (lambda g, q: entropic(*(EXACT.array([1]),) * 4), "use coupling='mix'"),
    ],
)
def test_errors(call: Callable[[Cells, Array], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call(cells(2, 4), np.array([0.5, 0.5]))
