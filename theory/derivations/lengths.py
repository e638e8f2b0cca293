"""Closed forms of the i.i.d. special case and what follows from them, derived on symbols.

Every drafted token is accepted with one probability alpha, independently; c is the cost of a
drafted token in target calls. Identities in gamma are proved by induction: the value at gamma = 0
and the step from gamma to gamma + 1, both as identities of sympy.

Sources: Leviathan et al. 2023 (2211.17192), equation 1 and theorem 3.8; the rest is derived here.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import sympy

from theory.accepted_length import expected_accepted
from theory.derivations.cells import plain_cell
from theory.derivations.derivation import Derivation, Expr, require_at, require_zero
from theory.fields import to_fraction
from theory.laws import mixture
from theory.models import MarkovModel, RowTree

ALPHA, COST, WEIGHT, TV = sympy.symbols("alpha c w T", positive=True)
GAMMA = sympy.Symbol("gamma", integer=True, nonnegative=True)
INDEX = sympy.Symbol("i", integer=True)

CALL = (1 - ALPHA ** (GAMMA + 1)) / (1 - ALPHA)
"""Tokens per call."""
SLOPE = (1 - (GAMMA + 1) * ALPHA**GAMMA + GAMMA * ALPHA ** (GAMMA + 1)) / (1 - ALPHA) ** 2
"""Its derivative in alpha."""
SPEED = CALL / (1 + COST * GAMMA)
"""Tokens per time with a fixed window."""


def iid_lengths() -> Derivation:
    """Tokens per call and E[tau] when acceptances are independent."""
    total = sympy.Sum(ALPHA**INDEX, (INDEX, 0, GAMMA))
    _by_induction(CALL, 1, ALPHA ** (GAMMA + 1), "the sum of powers")
    accepted = (ALPHA - ALPHA ** (GAMMA + 1)) / (1 - ALPHA)
    require_zero(CALL - 1 - accepted, "E[tau] is tokens per call minus 1")
    for gamma in range(1, 5):
        limit = sympy.cancel(CALL.subs(GAMMA, gamma)).subs(ALPHA, 1)
        require_zero(limit - gamma - 1, f"the limit alpha -> 1 at gamma {gamma}")
    rows = ["1/3", "2/3"], ["2/3", "1/3"]  # overlap 2/3
    points = [({ALPHA: sympy.Rational(2, 3), GAMMA: g}, _token_length(*rows, g)) for g in (1, 2, 3)]
    require_at(accepted, points, "E[tau]")
    return Derivation(
        "Tokens per call with independent acceptances",
        (
            ("P(tau >= i): the first i tokens are accepted", ALPHA**INDEX),
            ("E[tau + 1] sums these over i = 0..gamma", total),
            (
                "times 1 - alpha the sum telescopes",
                sympy.Eq((1 - ALPHA) * total, 1 - ALPHA ** (GAMMA + 1)),
            ),
            ("tokens per call, gamma + 1 in the limit alpha = 1", CALL),
            ("E[tau] is one less", accepted),
        ),
        "Without independence this is a prediction, not a value: E[tau] sums products along paths.",
    )


def slope_in_alpha() -> Derivation:
    """How tokens per call grow with alpha."""
    require_zero(sympy.diff(CALL, ALPHA) - SLOPE, "the derivative")
    _by_induction(SLOPE, 0, (GAMMA + 1) * ALPHA**GAMMA, "the derivative as a sum")
    points = [
        (
            {ALPHA: sympy.Rational(1, 2), GAMMA: g},
            sum(i * Fraction(1, 2) ** (i - 1) for i in range(1, g + 1)),
        )
        for g in (1, 2, 5)
    ]
    require_at(SLOPE, points, "the derivative")
    terms = sympy.Sum(INDEX * ALPHA ** (INDEX - 1), (INDEX, 1, GAMMA))
    return Derivation(
        "The slope of tokens per call in alpha",
        (
            ("tokens per call", CALL),
            ("its derivative", SLOPE),
            ("which is a sum of positive terms", terms),
            ("and at most its value at alpha = 1", GAMMA * (GAMMA + 1) / 2),
        ),
        "Tokens per call are increasing and convex in alpha: the first points of overlap are worth "
        "1 token each, the last ones gamma (gamma + 1)/2.",
    )


def ensemble_slopes() -> Derivation:
    """A static ensemble w p + (1 - w) q: overlap, tokens per call and loss as functions of w."""
    cell = plain_cell(1)
    p, q = cell.rows[()]
    b, d, e = cell.groups[0]
    rest = sympy.Symbol("v", positive=True)  # 1 - w, so that Min can see the order of its terms
    law = [b + WEIGHT * d, e + rest * d]
    for x, mass in enumerate(mixture(WEIGHT, p, q)):
        require_zero(mass - law[x].subs(rest, 1 - WEIGHT), f"the mixture at token {x}")
    overlap = sympy.Min(b, law[0]) + sympy.Min(e + WEIGHT * d + rest * d, law[1])
    require_zero((overlap - (sum(q) - WEIGHT * d)).subs(rest, 1 - WEIGHT), "the overlap")
    alpha = 1 - WEIGHT * TV
    call, slope = CALL.subs(ALPHA, alpha), -TV * SLOPE.subs(ALPHA, alpha)
    require_zero(sympy.diff(call, WEIGHT) - slope, "the derivative in w")
    points = [
        ({WEIGHT: sympy.Rational(1, 2), TV: sympy.Rational(1, 3), GAMMA: 2}, Fraction(91, 36))
    ]
    require_at(call, points, "tokens per call at w = 1/2 of (1/3, 2/3) against (2/3, 1/3)")
    return Derivation(
        "A static ensemble: overlap, tokens per call and loss",
        (
            ("rows with p(0) >= q(0), T = TV(p, q) = d", sympy.Matrix([p, q])),
            (
                "the mixture w p + (1 - w) q",
                sympy.Matrix([[law[0], law[1].subs(rest, 1 - WEIGHT)]]),
            ),
            ("its overlap with q: q(0) is the smaller at token 0, the mixture at token 1", alpha),
            ("its distance from p", (1 - WEIGHT) * TV),
            ("tokens per call", call),
            ("derivative in w: negative, times -T the slope in alpha", slope),
        ),
        "Every unit of loss (1 - w) T buys the same gain of overlap w -> 1 - w T; tokens per call "
        "are decreasing and convex in w.",
    )


def best_gamma() -> Derivation:
    """When one more drafted token pays, and the best fixed window."""
    after = SPEED.subs(GAMMA, GAMMA + 1)
    gain = (ALPHA ** (GAMMA + 1) - COST * SPEED) / (1 + COST * (GAMMA + 1))
    require_zero(after - SPEED - gain, "the gain of one more token")
    worth = ALPHA ** (GAMMA + 1) * (1 + COST * GAMMA) - COST * CALL
    fall = -(1 - ALPHA) * ALPHA ** (GAMMA + 1) * (1 + COST * (GAMMA + 1))
    require_zero(worth.subs(GAMMA, GAMMA + 1) - worth - fall, "the worth falls with gamma")
    point = {ALPHA: sympy.Rational(4, 5), COST: sympy.Rational(1, 10)}
    speeds = [sympy.nsimplify(SPEED.subs({**point, GAMMA: g})) for g in range(12)]
    best = max(range(12), key=lambda g: speeds[g])
    require_zero(best - 6, "the best gamma at alpha = 4/5, c = 1/10")
    require_zero(speeds[6] - sympy.Rational(61741, 25000), "its speed")
    real, logarithm, shift, root = _real_optimum()
    place = float(real.subs(point).subs(GAMMA, 0))
    require_zero(round(place) - best, f"the real optimum {place} is next to the best integer")
    return Derivation(
        "The best fixed window",
        (
            ("tokens per time with gamma drafted tokens", SPEED),
            ("gain of one more token", gain),
            ("its sign is that of", worth),
            ("which falls from gamma to gamma + 1 by", -fall),
            (
                "so the best gamma is the first where one more does not pay",
                sympy.And(
                    ALPHA**GAMMA >= COST * SPEED,
                    ALPHA ** (GAMMA + 1) <= COST * SPEED,
                    evaluate=False,
                ),
            ),
            (
                "over the reals the derivative vanishes where, with u = A + l (gamma + 1)",
                sympy.Eq(root * sympy.exp(-root), sympy.exp(-shift), evaluate=False),
            ),
            ("with l and A", sympy.Tuple(logarithm, 1 + logarithm * (1 - COST) / COST)),
            ("that is, on the lower branch of Lambert's function, gamma =", real),
            ("at alpha = 4/5, c = 1/10: gamma = 6 with speed", speeds[6]),
        ),
        "Draft another token as long as its chance of being kept exceeds its cost in tokens.",
    )


def _real_optimum() -> tuple[Expr, Expr, Expr, Expr]:
    """The stationary point of the speed over real gamma; l, A and u as they enter it.

    The derivative of (1 - alpha^n)/(1 + c (n - 1)) vanishes iff l alpha^n (1 - c + c n) =
    c (1 - alpha^n), that is alpha^n u = 1 with u = A + l n, and alpha^n = e^(A - u).
    """
    n, u, shift = sympy.symbols("n u A", positive=True)
    rate = -sympy.log(ALPHA)
    speed = (1 - ALPHA**n) / (1 + COST * (n - 1))
    numerator = rate * ALPHA**n * (1 - COST + COST * n) - COST * (1 - ALPHA**n)
    require_zero(
        sympy.diff(speed, n) - numerator / (1 + COST * (n - 1)) ** 2, "the derivative in n"
    )
    known = 1 + rate * (1 - COST) / COST
    require_zero(numerator - COST * (ALPHA**n * (known + rate * n) - 1), "in terms of u")
    root = -sympy.LambertW(-sympy.exp(-known), -1)
    return (root - known) / rate - 1, rate, shift, u


def _by_induction(closed: Expr, start: int, step: Expr, what: str) -> None:
    """Check ``closed`` at gamma = 0 and from gamma to gamma + 1."""
    require_zero(closed.subs(GAMMA, 0) - start, f"{what} at gamma 0")
    require_zero(closed.subs(GAMMA, GAMMA + 1) - closed - step, f"{what}, step to gamma + 1")


def _token_length(p: Sequence[str], q: Sequence[str], gamma: int) -> Fraction:
    """E[tau] of token verification with the same rows everywhere, by the closed form."""
    trees = [RowTree.of(MarkovModel(row), gamma) for row in (p, q)]
    return to_fraction(expected_accepted("token", trees[0], trees[1], gamma))
