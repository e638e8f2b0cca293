"""Hierarchical speculative decoding (2601.05724): its two-token example and its public code.

Public code: ZhouYuxuanYX/Hierarchical-Speculative-Decoding; the example is in earlier versions of
its README, which follows Sun et al. 2024 without naming gamma.
"""

from __future__ import annotations

from fractions import Fraction
from typing import cast

from papers_check.claims.base import Claim, Finding, Verdict
from papers_check.claims.certificates import (
    Formula,
    continued,
    law_finding,
    value_certificate,
    value_finding,
)
from papers_check.claims.tools import SUN, model, row_trees, seeded, speed_claim
from theory.accepted_length import block, greedy_block
from theory.analysis import analyse
from theory.drafting import fixed
from theory.effects import Effects
from theory.fields import Number, is_zero, minimum, positive_part, to_fraction
from theory.generation import Decoder
from theory.laws import normalise
from theory.models import Model, Prefix, Rows
from theory.transport.certificates import block_optimum
from theory.verifiers import load_program
from theory.verifiers.common import Carry, Program, Round, only_draft

PAPER = "HSD: Zhou et al. 2026 (2601.05724)"
PRINTED = {"token": Fraction(5, 9), "block": Fraction(4, 9)}
"""Expected accepted tokens in a version of the README, for p = (1/3, 2/3), q = (2/3, 1/3)."""
PRINTED_HSD = Fraction(7, 9)
GAMMAS = range(1, 6)
COMMAND = "specproof exact --target {} --draft {} --verifier block".format(*SUN)


def program(
    fx: Effects,
    target: Rows,
    draft: Rows,
    drafts: tuple[Prefix, ...],
    carry: Carry = (),
    cap: str = "minimum",
    last: str = "joint",
) -> Round:
    """One round as ``algorithm_clean.py`` of the public code has it, with default arguments.

    ``cap``: the prefix ratio W = P/Q is capped by "minimum" (at 1, as there) or by "running"
    (divided by its largest value so far); ``last``: the whole draft passes with min(1, W) ("joint",
    as there) or with the capped ratio ("capped"). Slots: i for "no step back" at length i, gamma
    for the whole draft, gamma + 1 for the token.
    """
    path = only_draft(drafts, "hierarchical verification")
    gamma, ratios, capped = len(path), [fx.field.one], [fx.field.one]
    largest = fx.field.one
    for i, x in enumerate(path):
        ratios.append(ratios[-1] * target(path[:i])[x] / draft(path[:i])[x])
        largest = max(largest, ratios[-1])
        running = ratios[-1] / largest
        capped.append(minimum(1, ratios[-1]) if cap == "minimum" else running)
    if fx.flip(minimum(1, ratios[gamma]) if last == "joint" else capped[gamma], gamma):
        return Round(gamma, (*path, fx.choose(target(path), gamma + 1)))
    for i in range(gamma - 1, -1, -1):
        gap = positive_part(capped[i] * target(path[:i]) - draft(path[:i]))
        if fx.flip(_stay(gap.sum(), capped[i], ratios[i + 1], cap), i):
            break
    if is_zero(gap.sum()):
        return Round(i + 1, path[: i + 1])  # the code keeps one more token and draws none
    return Round(i, (*path[:i], fx.choose(normalise(gap), gamma + 1)))


def _stay(excess: Number, ratio: Number, after: Number, cap: str) -> Number:
    """The chance of not stepping back: excess over the larger of excess and deficit."""
    deficit = excess + 1 - ratio
    if (cap == "minimum" and after >= 1) or is_zero(deficit):
        return 1
    return excess / deficit


def _decoder(target: Model, draft: Model, **options: str) -> Decoder:
    return Decoder(target, draft, cast(Program, program), fixed(2), params=options)


def readme_lengths() -> Finding:
    """Search over gamma for what the printed 5/9 and 4/9 can be."""
    readings: dict[str, list[str]] = {}
    least = Fraction(10)
    for gamma in GAMMAS:
        found = {}
        for rule in PRINTED:
            law = analyse(*SUN, rule, gamma).accepted_law
            mean = sum(tau * mass for tau, mass in law.items())
            least = min(least, mean)
            found[rule] = {"mean": mean, "mean/gamma": mean / gamma, "P(all kept)": law[gamma],
                           "P(not all kept)": 1 - law[gamma], "P(none kept)": law[0],
                           "mean lost": gamma - mean}  # fmt: skip
        for name in found["token"]:
            if all(found[rule][name] == value for rule, value in PRINTED.items()):
                readings.setdefault(name, []).append(f"gamma = {gamma}")
    proof = value_certificate(
        "hsd-readme-lengths",
        "one drafted token is already kept with 2/3, and longer drafts keep more",
        str(PRINTED["token"]),
        "<",
        ["+", ["min", "1/3", "2/3"], ["min", "2/3", "1/3"]],
    )
    matches = "; ".join(f"{name}, {', '.join(at)}" for name, at in readings.items())
    return value_finding(
        proof,
        ("printed for token verification", "least E[tau] over gamma"),
        "The printed pair is the chance that NOT all of two tokens are kept: block is the better.",
        only_reading=matches or "none",
        enumerated_least=least,
    )


def readme_order() -> Finding:
    """Token against block verification on the example, gamma = 2, and the order up to gamma = 5."""
    reversed_order = sum(
        analyse(*SUN, "block", gamma).expected_accepted
        < analyse(*SUN, "token", gamma).expected_accepted
        for gamma in GAMMAS
    )
    p, q = {"A": "1/3", "B": "2/3"}, {"A": "2/3", "B": "1/3"}
    proof = value_certificate(
        "hsd-readme-order",
        "sum over strings of the products of overlaps, and of P min(1, Q/P along the prefixes)",
        ["+", *(_token_mass(v, p, q) for v in ("A", "B", "AA", "AB", "BA", "BB"))],
        "<",
        ["+", *(_block_mass(v, p, q) for v in ("A", "B", "AA", "AB", "BA", "BB"))],
    )
    return value_finding(
        proof,
        ("token, gamma = 2", "block, gamma = 2"),
        "Block verification is never below token verification; the printed order is of rejections.",
        gammas_in_printed_order=reversed_order,
    )


def _token_mass(v: str, p: dict[str, str], q: dict[str, str]) -> Formula:
    return ["*", *(["min", p[x], q[x]] for x in v)]


def _block_mass(v: str, p: dict[str, str], q: dict[str, str]) -> Formula:
    def mass(u: str, law: dict[str, str]) -> Formula:
        return ["*", *(law[x] for x in u)]

    ratios = [["/", mass(v[:i], q), mass(v[:i], p)] for i in range(1, len(v) + 1)]
    return ["*", mass(v, p), ["min", "1", *ratios]]


def readme_own_number() -> Finding:
    """The printed 7/9 against the largest chance that a whole draft of two tokens is kept."""
    p, q = ("1/3", "2/3"), ("2/3", "1/3")
    pairs = [(i, j) for i in (0, 1) for j in (0, 1)]
    proof = value_certificate(
        "hsd-readme-own",
        "a lossless rule keeps a drafted string with at most min(P, Q)",
        ["+", *(["min", ["*", p[i], p[j]], ["*", q[i], q[j]]] for i, j in pairs)],
        "<",
        str(PRINTED_HSD),
    )
    kept = {
        rule: analyse(*SUN, rule, 2).accepted_law[2] for rule in ("token", "block", "greedy_block")
    }
    return value_finding(
        proof,
        ("largest chance of keeping both tokens", "printed for HSD"),
        "Full acceptance is 4/9 for token, 5/9 for block and 6/9 for greedy block verification; "
        "as a chance of rejection 7/9 would be the worst of the three.",
        **kept,
    )


def more_than_block() -> Finding:
    """What one draft can give without and with modified later targets; the capped rule."""
    pair = row_trees(SUN, 2)
    stateless, free = (block_optimum(*pair, 1, stateless=kind) for kind in (True, False))
    same = all(
        _decoder(p, q, cap="running", last="capped").round_law((), (), 2)
        == Decoder(p, q, load_program("block"), fixed(2)).round_law((), (), 2)
        for p, q in seeded(4, 2, 3)
    )
    ours = to_fraction(block(*pair, 2))
    holds = stateless.lower == stateless.upper == ours < free.lower == free.upper
    return Finding(
        Verdict.CONDITIONAL if holds and same else Verdict.FAILS,
        {"block verification": ours, "optimum that leaves later targets alone": stateless.upper,
         "optimum with modified targets": free.upper,
         "greedy block attains it": to_fraction(greedy_block(*pair, 2)) == free.upper,
         "capped at every test: same law as block": same},
        "More than block verification is possible only if later targets are modified, as greedy "
        "block verification does; with its ratio capped at every test, HSD is block verification.",
    )  # fmt: skip


def code_lossless() -> Finding:
    """First two tokens of the public rule, then the target."""
    sun = model(SUN[0]), model(SUN[1])
    running = continued(_decoder(*sun, cap="running"), 2, 2, sun[0])
    seeds = [continued(_decoder(p, q), 2, 3, p).distance for p, q in seeded(4, 2, 4)]
    return law_finding(
        "hsd-code",
        "whole drafts are kept with min(P, Q), but later targets are not modified",
        _decoder(*sun),
        2,
        2,
        "algorithm_clean.py with default arguments: each round from a fresh state; gamma = 2.",
        largest_on_seeded_models=max(seeds),
        with_running_cap=running.distance,
        expected_accepted=continued(_decoder(*sun), 2, 2, sun[0]).mean,
    )


CLAIMS = (
    Claim("hsd-readme-lengths", PAPER, "README, toy example (a version of it)",
          "On p = (1/3, 2/3), q = (2/3, 1/3) token verification accepts 5/9 tokens, block 4/9.",
          Verdict.FAILS, readme_lengths, COMMAND.replace("block", "token")),
    Claim("hsd-readme-order", PAPER, "README, toy example",
          "On p = (1/3, 2/3), q = (2/3, 1/3) block accepts less than token verification.",
          Verdict.FAILS, readme_order, COMMAND),
    Claim("hsd-readme-own", f"a reading of {PAPER}", "README, toy example",
          "There HSD keeps both of two drafted tokens with probability 7/9.",
          Verdict.FAILS, readme_own_number, COMMAND.replace("block", "greedy_block")),
    Claim("hsd-more-than-block", PAPER, "main theorem",
          "HSD losslessly accepts more tokens than block verification.",
          Verdict.CONDITIONAL, more_than_block,
          "specproof bounds --target {} --draft {} --gamma 2 --drafts 1".format(*SUN)),
    Claim("hsd-code", PAPER, "public code", "The released HSD verification function is lossless.",
          Verdict.FAILS, code_lossless),
    speed_claim("hsd-speed", PAPER, "experiments",
                "Block efficiency +5.2 % over token verification, +12 % in EAGLE-3.",
                "Qwen2.5 72B/0.5B and EAGLE-3 on the paper's GPUs."),
)  # fmt: skip
