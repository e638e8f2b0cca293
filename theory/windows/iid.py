"""Windows when every drafted token is accepted independently with one probability alpha.

The speed of a rule is tokens per unit of time, a target call being the unit; ``c`` is the time of
a drafted token (draft step plus extra verification). Rounds are independent, so a speed is a ratio
of two means. With Nbar = 1/(1 - alpha), the mean length under an unlimited window:

    S_gamma = (1 - alpha^(gamma+1)) / ((1 - alpha)(1 + c gamma))     fixed window
    S_or    = 1 / (1 - alpha (1 - c))            clairvoyant: drafts exactly what will be accepted
    S_vis   = 1 / (1 - alpha + c)                recognises a doomed token once it is drafted

and, deciding at the ends of blocks of b tokens that cost e each,

    Nbar / (1 + (c b + e) alpha / (1 - alpha^b))    clairvoyant
    Nbar / (1 + (c b + e) / (1 - alpha^b))          recognises a doomed token after its block

alpha and c may be rationals, "a/b", floats or symbols; results are in the same field. Sources:
S_gamma is Leviathan et al. 2023, theorem 3.8; the rest is derived here.
"""

from __future__ import annotations

import math

from scipy.optimize import brentq

from theory.accepted_length.iid import tokens_per_call
from theory.fields import FLOAT, SYMBOLIC, Field, Number
from theory.windows.scalars import common


def tokens(alpha: Number, gamma: float) -> Number:
    """1 + alpha + ... + alpha^gamma, the tokens of a round.

    Floats use expm1 and log1p, so nothing cancels near alpha = 1, and gamma may be real; alpha = 0
    and 1 are exact.

    Raises:
        ValueError: alpha outside [0, 1], or negative gamma.
    """
    field, (a,) = _checked(alpha)
    if gamma < 0:
        raise ValueError(f"gamma {gamma} is negative; use 0 (no drafts) or more")
    if field is FLOAT:
        if a in (0.0, 1.0):
            return 1.0 + a * gamma
        return -math.expm1((gamma + 1) * math.log1p(a - 1)) / (1 - a)
    return field.public(tokens_per_call(a, int(gamma)))


def fixed(alpha: Number, gamma: float, c: Number) -> Number:
    """S_gamma."""
    field, (a, cost) = _checked(alpha, c)
    return field.public(field.number(tokens(a, gamma)) / (1 + cost * gamma))


def oracle(alpha: Number, c: Number, block: int = 1, overhead: Number = 0) -> Number:
    """S_or: drafts exactly the blocks that hold accepted tokens.

    Raises:
        ValueError: nothing is ever rejected and drafts are free.
    """
    field, (a, cost, e) = _checked(alpha, c, overhead)
    if block == 1:
        return field.public(_ratio(1, 1 - a + a * (cost + e)))
    return field.public(_ratio(1 - a**block, (1 - a) * (1 - a**block + a * (cost * block + e))))


def visible(alpha: Number, c: Number, block: int = 1, overhead: Number = 0) -> Number:
    """S_vis: drafts blocks until one holds a doomed token, which it then recognises.

    Raises:
        ValueError: nothing is ever rejected and drafts are free.
    """
    field, (a, cost, e) = _checked(alpha, c, overhead)
    if block == 1:
        return field.public(_ratio(1, 1 - a + cost + e))
    return field.public(_ratio(1 - a**block, (1 - a) * (1 - a**block + cost * block + e)))


def _ratio(above: Number, under: Number) -> Number:
    if under == 0:
        raise ValueError("no token is rejected and drafting is free: the speed is unbounded")
    return above / under


def best_gamma(alpha: Number, c: Number) -> int:
    """The fixed window of highest speed: alpha^gamma >= c S_gamma > alpha^(gamma+1).

    S_gamma rises exactly while the next token's survival exceeds c S_gamma. The shortest of equals
    is returned.

    Raises:
        ValueError: drafts are free, or alpha = 1 and drafting pays: no window is long enough.
    """
    _, (a, cost) = _checked(alpha, c)
    if cost >= a:
        return 0
    if cost == 0 or a == 1:
        raise ValueError(f"alpha {alpha}, c {c}: every longer window is faster; set a limit")
    gamma = max(0, math.floor(best_gamma_real(float(a), float(cost))))
    while gamma > 0 and a**gamma <= cost * _speed(a, gamma - 1, cost):
        gamma -= 1
    while a ** (gamma + 1) > cost * _speed(a, gamma, cost):
        gamma += 1
    return gamma


def _speed(a: Number, gamma: int, c: Number) -> Number:
    """S_gamma in closed form, for 0 <= alpha < 1 in any field."""
    if isinstance(a, float):
        return tokens(a, gamma) / (1 + c * gamma)
    return (1 - a ** (gamma + 1)) / ((1 - a) * (1 + c * gamma))


def best_gamma_real(alpha: float, c: float) -> float:
    """The maximum of S over real gamma (it may be negative where drafting does not pay).

    gamma* = (u - A)/l - 1 with l = -ln alpha, A = 1 + l (1 - c)/c and u e^(-u) = e^(-A), u > 1,
    that is u = -W_{-1}(-e^(-A)) (Lambert). Solved as u - ln u = A, which does not underflow.

    Raises:
        ValueError: alpha or c not strictly between 0 and 1.
    """
    if not (0 < alpha < 1 and 0 < c < 1):
        raise ValueError(f"alpha {alpha} and c {c} must lie strictly between 0 and 1")
    rate = -math.log(alpha)
    a = 1 + rate * (1 - c) / c
    u = brentq(lambda x: x - math.log(x) - a, 1.0, 2 * a + 2, xtol=1e-14 * a, rtol=1e-15)
    return (u - a) / rate - 1


def best_fixed(alpha: Number, c: Number) -> tuple[int, Number]:
    """The best fixed window and its speed."""
    gamma = best_gamma(alpha, c)
    return gamma, fixed(alpha, gamma, c)


def break_even_alpha(gamma: int, c: float) -> float:
    """The acceptance probability at which a fixed window only just pays: S_gamma = 1.

    For gamma = 1 that is c; longer windows need more.

    Raises:
        ValueError: gamma below 1, or c outside [0, 1].
    """
    if gamma < 1 or not 0 <= c <= 1:
        raise ValueError(f"gamma {gamma}, c {c}: use gamma >= 1 and 0 <= c <= 1")
    if c == 0 or c == 1:
        return float(c)
    return float(brentq(lambda a: tokens(float(a), gamma) - 1 - c * gamma, 0.0, 1.0, xtol=1e-15))


def pearl(alpha: Number, c: Number, gamma: int, devices: int = 2) -> Number:
    """Speed of PEARL (arXiv 2408.11850), which drafts while the target verifies.

    In the state PRE the target tests the first token of the block being drafted; if it passes, the
    block is pending and the state is POST, where the target tests the rest of the pending block
    and the first token of the next. A rejection returns to PRE; a bonus token is never emitted.
    Solving the two-state chain,

        S = Nbar / ((1 + alpha/(1 - alpha^gamma)) * time) ,

    time = max(c gamma, 1) with two devices and c gamma + 1 on one. Derived here from the official
    code.

    Raises:
        ValueError: gamma below 1, devices not 1 or 2, or alpha = 1.
    """
    if gamma < 1 or devices not in (1, 2):
        raise ValueError(f"gamma {gamma} on {devices} devices: use gamma >= 1 and 1 or 2 devices")
    field, (a, cost) = _checked(alpha, c)
    if a == 1:
        raise ValueError("alpha 1: rounds never end, the closed form has no value there")
    drafting = cost * gamma
    time = drafting + 1 if devices == 1 else max(drafting, field.one)
    return field.public(1 / ((1 - a) * (1 + a / (1 - a**gamma)) * time))


def _checked(alpha: Number, *others: Number) -> tuple[Field, list[Number]]:
    field, values = common(alpha, *others)
    if field is not SYMBOLIC:
        if not 0 <= values[0] <= 1:
            raise ValueError(f"alpha {alpha} is outside [0, 1]")
        if any(value < 0 for value in values[1:]):
            raise ValueError(f"costs {others} must not be negative")
    return field, values
