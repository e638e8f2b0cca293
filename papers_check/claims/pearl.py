"""PEARL (2408.11850): the draft model works while the target verifies."""

from __future__ import annotations

from fractions import Fraction
from functools import partial

from papers_check.claims.base import Claim, Finding, Verdict
from papers_check.claims.tools import seeded, speed_claim, verdict
from theory.effects import Effects, exact_law
from theory.fields import minimum, to_fraction
from theory.generation import autoregressive, distance
from theory.laws import residual
from theory.models import Model, Prefix
from theory.windows import iid

PAPER = "PEARL: Liu et al. 2025 (2408.11850)"


def generated(fx: Effects, target: Model, draft: Model, gamma: int, horizon: int) -> Prefix:
    """A text of PEARL: blocks are drafted before the previous one is verified.

    Slots: ("draft", n) and ("test", n) by running number.
    """
    text: Prefix = ()
    pending: Prefix = ()  # drafted behind ``text``, not yet verified
    drafted = tested = 0
    while len(text) < horizon:
        block: Prefix = ()
        for _ in range(min(gamma, horizon - len(text) - len(pending))):
            row = draft.row(text + pending + block)
            block = (*block, fx.choose(row, ("draft", drafted)))
            drafted += 1
        judged = pending + block[:1]  # PRE: one new token; POST: the pending ones as well
        for x in judged:
            p, q = target.row(text), draft.row(text)
            tested += 1
            if not fx.flip(minimum(1, p[x] / q[x]), ("test", tested)):
                text, pending = (*text, fx.choose(residual(p, q), ("emit", tested))), ()
                break
            text = (*text, x)
        else:
            pending = block[1:]
    return text


def lossless() -> Finding:
    """Exact law of texts generated with blocks verified one step late."""
    distances = []
    for p, q in seeded(4, 2, 4):
        for gamma in (1, 2):
            law = exact_law(partial(generated, target=p, draft=q, gamma=gamma, horizon=4))
            distances.append(to_fraction(distance(law, autoregressive(p, 4))))
    return Finding(
        verdict(not any(distances)),
        {"largest distance": max(distances), "models": 4, "largest gamma": 2},
        "Equality of rationals over four tokens; a rejection discards everything drafted behind.",
    )


def best_window() -> Finding:
    """The best gamma under independent acceptance, on two devices and on one."""
    wrong = shared = 0
    alphas = [Fraction(n, 10) for n in range(1, 10)]
    for ratio in (2, 3, 4, 5):
        for alpha in alphas:
            two = [iid.pearl(alpha, Fraction(1, ratio), g, 2) for g in range(1, 13)]
            one = [iid.pearl(alpha, Fraction(1, ratio), g, 1) for g in range(1, 13)]
            wrong += two.index(max(two)) + 1 != ratio
            shared += one.index(max(one)) + 1 == ratio
    return Finding(
        Verdict.CONDITIONAL if wrong == 0 and shared < 36 else verdict(wrong == 0),
        {"exceptions on two devices": wrong, "cases": 36, "cases where it is best on one": shared},
        "gamma = 1/c is best if both models run at the same time at full speed.",
    )


def against_sequential() -> Finding:
    """PEARL against the best fixed window at alpha = 4/5, c = 1/5."""
    alpha, cost = Fraction(4, 5), Fraction(1, 5)
    two, one = (max(iid.pearl(alpha, cost, g, devices) for g in range(1, 13)) for devices in (2, 1))
    usual = iid.best_fixed(alpha, cost)[1]
    return Finding(
        Verdict.CONDITIONAL if two > usual > one else verdict(one > usual),
        {"two devices": float(two), "sequential": float(usual), "one device": float(one)},
        "Faster with a device for each model, slower than sequential drafting on one.",
    )


CLAIMS = (
    Claim("pearl-lossless", PAPER, "method", "Pre- and post-verification keep the output law.",
          Verdict.HOLDS, lossless),
    Claim("pearl-window", PAPER, "theorem on the draft length",
          "The best draft length is the ratio of the two models' speeds.",
          Verdict.CONDITIONAL, best_window),
    Claim("pearl-faster", PAPER, "main result",
          "Drafting in parallel is faster than drafting in turn.",
          Verdict.CONDITIONAL, against_sequential),
    speed_claim("pearl-speed", PAPER, "experiments",
                "3.87x on HumanEval, 3.81x on GSM8K over plain decoding.",
                "Two GPUs a pair and the paper's models."),
)  # fmt: skip
