"""What engines do and how they test it: transformers, vLLM, llama.cpp and others (public code)."""

from __future__ import annotations

from fractions import Fraction
from typing import cast

from papers_check.claims.base import Claim, Finding, Verdict
from papers_check.claims.certificates import (
    continued,
    law_finding,
    value_certificate,
    value_finding,
)
from papers_check.claims.tools import SUN, model, seeded, verdict
from papers_check.pairs import random_table
from theory.analysis import analyse
from theory.drafting import fixed
from theory.effects import Effects
from theory.fields import EXACT, Array, minimum, positive_part, to_fraction
from theory.generation import Decoder, autoregressive
from theory.laws import normalise, residual
from theory.models import Prefix, Rows
from theory.power import noncentrality, sample_size
from theory.verifiers import block, load_program, token
from theory.verifiers.common import Carry, Program, Round, only_draft
from theory.windows import peeking

TRANSFORMERS = "transformers (huggingface/transformers)"
VLLM = "vLLM (vllm-project/vllm) and its tests"
ROWS = ("1/5,3/10,1/2", "1/2,1/4,1/4")


def ensemble_places() -> Finding:
    """Laws of the first two tokens and E[tau] of the static ensemble, w = 1/2, gamma = 2."""
    a = analyse(*SUN, "ensemble", 2, 1, 3)
    law = a.decoder.round_law((), (), 2)
    first = sum((to_fraction(m) for out, m in law.items() if out.tokens[0] == 0), Fraction(0))
    second = [Fraction(0), Fraction(0)]
    for out, m in law.items():
        if len(out.tokens) > 1:
            second[out.tokens[1]] += to_fraction(m)
    share = second[0] / sum(second)
    return Finding(
        verdict(first == share == Fraction(1, 2)),
        {"E[tau]": a.expected_accepted, "P(first token 0)": first,
         "P(second token 0), where verified": share},
        "Both verified tokens follow (1/2, 1/2); the bonus follows p (see diversed-output-law).",
    )  # fmt: skip


def raw_draft_law() -> Finding:
    """Drafts from top-k of q, tested with q itself."""
    target, raw = model("1/2,1/4,1/4"), EXACT.array(["1/2", "1/4", "1/4"])

    def rule(
        fx: Effects, rows: Rows, draft: Rows, drafts: tuple[Prefix, ...], carry: Carry = ()
    ) -> Round:
        return token.program(fx, rows, lambda path: raw, drafts, carry)

    decoder = Decoder(target, model("2/3,1/3,0"), cast(Program, rule), fixed(1))
    return law_finding(
        "raw-draft-law",
        "the draft equals the target, so everything passes, and text follows the filtered draft",
        decoder,
        1,
        1,
        "huggingface/transformers#47932 and deepseek-ai/DeepSpec#31: q must be the law drawn from.",
    )


def redraw_from_target() -> Finding:
    """A correction drawn from p instead of the residual."""

    def rule(
        fx: Effects, target: Rows, draft: Rows, drafts: tuple[Prefix, ...], carry: Carry = ()
    ) -> Round:
        (x,) = only_draft(drafts, "this rule")
        kept = fx.flip(minimum(1, target(())[x] / draft(())[x]), 0)
        return Round(1, (x,)) if kept else Round(0, (fx.choose(target(()), 1),))

    decoder = Decoder(model("1/2,1/2"), model("3/4,1/4"), cast(Program, rule), fixed(1))
    return law_finding(
        "redraw-from-target", "accepted and redrawn tokens together favour the draft's token",
        decoder, 1, 1, "eth-sri/language-model-arithmetic#14, ShopeeLLM/Spec-RL#14.",
    )  # fmt: skip


def residual_at_index() -> Finding:
    """A correction whose residual subtracts q at the drafted token only."""

    def rule(
        fx: Effects, target: Rows, draft: Rows, drafts: tuple[Prefix, ...], carry: Carry = ()
    ) -> Round:
        (x,) = only_draft(drafts, "this rule")
        p, q = target(()), draft(())
        if fx.flip(minimum(1, p[x] / q[x]), 0):
            return Round(1, (x,))
        law = p.copy()
        law[x] = max(p[x] - q[x], 0 * p[x])
        return Round(0, (fx.choose(normalise(law), 1),))

    decoder = Decoder(model(ROWS[0]), model(ROWS[1]), cast(Program, rule), fixed(1))
    return law_finding(
        "residual-at-index", "the other tokens keep mass that the draft already supplied",
        decoder, 1, 1, "xLLM-AI/xllm#2175, SafeAILab/EAGLE#20.",
    )  # fmt: skip


def dropped_token() -> Finding:
    """A drawn token dropped because the draft gives it a low probability."""

    def worth(path: Prefix, draft: Rows) -> bool:
        return bool(draft(path[:-1])[path[-1]] >= EXACT.number("2/5"))

    decoder = Decoder(
        model("1/2,1/2"), model("3/4,1/4"), load_program("token"), peeking.dropping(worth)
    )
    return law_finding(
        "dropped-token",
        "only likely draws are sent; the others are replaced by a draw from p",
        decoder,
        1,
        1,
        "ggml-org/llama.cpp#22506 under sampling; the same law in DSpark's appendix.",
    )


def stale(
    fx: Effects, target: Rows, draft: Rows, drafts: tuple[Prefix, ...], carry: Carry = ()
) -> Round:
    """Block verification that reads every target row after the first one position too late."""
    return block.program(fx, lambda path: target(path[:-1]), draft, drafts, carry)


def unscaled(
    fx: Effects, target: Rows, draft: Rows, drafts: tuple[Prefix, ...], carry: Carry = ()
) -> Round:
    """Block verification whose correction lacks the factor W: norm((p - q)_+)."""
    path = only_draft(drafts, "block verification")
    tau, law = block.judge(fx, target, draft, path, 0)
    if tau < len(path):
        law = residual(target(path[:tau]), draft(path[:tau]))
    return Round(tau, (*path[:tau], fx.choose(law, len(path))))


def stale_row() -> Finding:
    """The stale-row fault with one row everywhere, gamma = 3, and with rows by context."""
    same = continued(
        Decoder(model(ROWS[0]), model(ROWS[1]), cast(Program, stale), fixed(3)),
        3, 4, model(ROWS[0]),
    )  # fmt: skip
    target, draft = random_table(2, 4, 3), random_table(2, 4, 4)
    found = law_finding(
        "stale-row",
        "a verifier that reads stale rows, exact when all rows are equal, biased otherwise",
        Decoder(target, draft, cast(Program, stale), fixed(2)),
        2,
        3,
        "No sample size finds it with one row everywhere. vllm-project/vllm#41768.",
        distance_with_equal_rows=same.distance,
    )
    blind = same.distance == 0
    return found if blind else Finding(Verdict.HOLDS, found.numbers, "Equal rows expose it.")


def first_marginal() -> Finding:
    """The unscaled residual: first token, whole text, and the sample size that finds it."""
    target, draft = random_table(3, 3, 36), random_table(3, 3, 37)
    decoder = Decoder(target, draft, cast(Program, unscaled), fixed(2))
    one = continued(decoder, 2, 1, target).distance
    joint = continued(decoder, 2, 3, target)
    truth = autoregressive(target, 3)
    found = law_finding(
        "first-marginal",
        "the first token is exact, the joint law of three tokens is not",
        decoder,
        2,
        3,
        "vllm-project/vllm-ascend#7807: test the joint law of gamma + 1 tokens.",
        first_token=one,
        noncentrality_per_sample=float(noncentrality(truth, joint.law)),
        samples_for_power_999=round(sample_size(truth, joint.law)),
    )
    return found if one == 0 else Finding(Verdict.HOLDS, found.numbers, "The marginal shows it.")


def by_position() -> Finding:
    """Next-token laws given the prefix: block verification, and the greedy form without carry."""
    block_wrong = greedy_wrong = 0
    for p, q in seeded(4, 2, 4):
        for rule in ("block", "greedy_block"):
            law = Decoder(p, q, load_program(rule), fixed(2)).round_law((), (), 2)
            reached: dict[Prefix, dict[int, Fraction]] = {}
            for out, mass in law.items():
                for i, x in enumerate(out.tokens):
                    here = reached.setdefault(out.tokens[:i], {})
                    here[x] = here.get(x, Fraction(0)) + to_fraction(mass)
            wrong = any(
                mass != sum(here.values()) * to_fraction(p.row(prefix)[x])
                for prefix, here in reached.items()
                for x, mass in here.items()
            )
            block_wrong += wrong and rule == "block"
            greedy_wrong += wrong and rule == "greedy_block"
    return Finding(
        Verdict.CONDITIONAL if block_wrong == 0 < greedy_wrong else verdict(not greedy_wrong),
        {"models where greedy block differs": greedy_wrong, "where block differs": block_wrong,
         "models": 4},
        "Given that a position of the round is reached and its prefix, block verification's next "
        "token follows p; greedy variants need a joint test over rounds with the carry.",
    )  # fmt: skip


def closed_comparison() -> Finding:
    """u <= h with a uniform on multiples of 2^-24, for a token of target probability 0."""
    proof = value_certificate(
        "closed-comparison",
        "u = 0 is drawn with chance 2^-24 and passes h = 0",
        ["*", "1/2", ["/", "1", "16777216"]],
        "!=",
        "0",
    )
    p, q = EXACT.array(["0", "1"]), EXACT.array(["1/2", "1/2"])
    return value_finding(
        proof,
        ("chance of an impossible token", "under the target"),
        "float32 generators return multiples of 2^-24, 0 among them: compare with u < h. "
        "sgl-project/sglang#35771.",
        acceptance_of_that_token=to_fraction(_accept(p, q, 0)),
    )


def _accept(p: Array, q: Array, x: int) -> Fraction:
    return to_fraction(minimum(1, positive_part(p)[x] / q[x]))


CLAIMS = (
    Claim("ensemble-places", TRANSFORMERS, "assistant_ensemble_weight",
          "Verified tokens of the static ensemble follow w p + (1 - w) q.",
          Verdict.HOLDS, ensemble_places,
          "specproof exact --target {} --draft {} --verifier ensemble".format(*SUN)),
    Claim("raw-draft-law", TRANSFORMERS, "candidate generators, #47932",
          "A draft drawn from top-k of q may be tested with the unfiltered q.",
          Verdict.FAILS, raw_draft_law),
    Claim("closed-comparison", TRANSFORMERS, "acceptance test",
          "Accepting at u <= p/q is the same as at u < p/q.",
          Verdict.FAILS, closed_comparison),
    Claim("stale-row", VLLM, "block verification tests with one row",
          "A verifier that is exact with one row at all positions is lossless.",
          Verdict.FAILS, stale_row),
    Claim("first-marginal", VLLM, "tests of the first token",
          "A verifier whose first token has the right law is lossless.",
          Verdict.FAILS, first_marginal),
    Claim("by-position", VLLM, "tests by position",
          "Lossless rules emit the target's law at every position that a round reaches.",
          Verdict.CONDITIONAL, by_position),
    Claim("redraw-from-target", "public re-implementations", "correction",
          "After a rejection the token may be redrawn from p.",
          Verdict.FAILS, redraw_from_target),
    Claim("residual-at-index", "xLLM, early EAGLE", "correction",
          "The residual may subtract q at the drafted token only.",
          Verdict.FAILS, residual_at_index),
    Claim("dropped-token", "llama.cpp (ggml-org/llama.cpp)", "p_min",
          "A drawn token of low draft probability may be dropped.",
          Verdict.FAILS, dropped_token),
)  # fmt: skip
