"""Counter-examples as data: what ``papers_check/recheck.py`` verifies with fractions alone.

* :func:`round_tree`, :func:`law_certificate`: every path of one round, each followed by tokens of
  the reference rows, so that a rule without state emits the reference law or is refuted. Drafted
  tokens and the tokens that follow are looked up in rows; tests and corrections state their chance.
* :func:`value_certificate`: two elementary formulas, as nested lists of "+", "*", "-", "/", "min",
  "max" over "a/b" strings, that a claim needs equal or ordered.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

from papers_check.claims.base import Certificate, Finding, Verdict
from papers_check.recheck import evaluate
from theory.drafting import independent
from theory.effects import Slot
from theory.fields import EXACT, Array, Field, Number, is_zero, to_fraction
from theory.generation import Decoder
from theory.models import Model, Prefix, prefixes, rows_after
from theory.transport.checker import joint, leaves, read_rows
from theory.verifiers.common import Round

Formula = Any
"""An "a/b" string, or a list of an operation and formulas."""

Step = tuple[str, str, int] | tuple[str, str, str]
"""(table, prefix, token), or (question, answer, chance)."""


class Recorder:
    """Runs a program along given choices and writes down every step (``theory.effects``)."""

    field: Field = EXACT

    def __init__(self, draft: Model, past: tuple[int, ...]) -> None:
        self.past, self.steps = past, list[Step]()
        self.pending: list[tuple[int, ...]] = []
        self._draft, self._drawn = draft, dict[int, Prefix]()

    def choose(self, law: Array, slot: Slot) -> int:
        token = self._next(law)
        chance = str(to_fraction(law[token]))
        self.steps.append((f"token, slot {slot}", str(token), chance))
        if isinstance(slot, tuple) and slot[0] == "draft":
            before = self._drawn.get(slot[1], ())
            if list(law) == list(self._draft.row(before)):
                self.steps[-1] = ("draft", text_of(before), token)
            self._drawn[slot[1]] = (*before, token)
        return token

    def flip(self, prob: Number, slot: Slot) -> bool:
        chances = [1 - prob, prob]
        passed = self._next(chances) == 1
        chance = str(to_fraction(chances[passed]))
        self.steps.append((f"test, slot {slot}", "pass" if passed else "fail", chance))
        return passed

    def _next(self, law: Sequence[Number] | Array) -> int:
        place = len(self.steps)
        if place == len(self.past):
            options = [token for token, mass in enumerate(law) if not is_zero(mass)]
            self.pending.extend((*self.past, token) for token in options[1:])
            self.past = (*self.past, options[0])
        return self.past[place]


@dataclass(frozen=True)
class Path:
    """One path of a round: its steps, their joint chance, and what came of it."""

    steps: tuple[Step, ...]
    chance: Fraction
    outcome: Round


def round_tree(decoder: Decoder, gamma: int) -> list[Path]:
    """Every path of the first round of a decoder whose drafts are separate paths."""
    target, draft = rows_after(decoder.target, ()), rows_after(decoder.draft, ())
    drafting = decoder.drafting or independent(decoder.window, decoder.num_drafts)
    todo, paths = [()], list[Path]()  # type: list[tuple[int, ...]], list[Path]
    while todo:
        run = Recorder(decoder.draft, todo.pop())
        drafts = drafting(run, draft, gamma)
        outcome = decoder.verifier(run, target, draft, drafts, (), **decoder.params)
        chance = Fraction(1)
        for step in run.steps:
            chance *= step_chance(step, {"draft": decoder.draft})
        paths.append(Path(tuple(run.steps), chance, outcome))
        todo.extend(run.pending)
    return paths


def step_chance(step: Step, models: Mapping[str, Model]) -> Fraction:
    """The chance of one step."""
    table, place, last = step
    if isinstance(last, str):
        return Fraction(last)
    return to_fraction(models[table].row(prefix_of(place))[last])


@dataclass(frozen=True)
class Continued:
    """The law of ``tokens`` tokens: one round of a rule, then the reference model itself.

    Attributes:
        law: by text; ``table``: the same beside the reference's own law, as strings.
        distance: total variation to the reference's own law.
        mean: E[tau] of the round.
        paths: the paths of the certificate.
    """

    law: dict[Prefix, Fraction]
    table: dict[str, list[str]]
    distance: Fraction
    mean: Fraction
    paths: list[dict[str, Any]]


def continued(decoder: Decoder, gamma: int, tokens: int, reference: Model) -> Continued:
    """One round, then the reference, up to ``tokens`` tokens."""
    law = {text: Fraction(0) for text in prefixes(reference.vocab, tokens)}
    mean, paths = Fraction(0), list[dict[str, Any]]()
    for path in round_tree(decoder, gamma):
        kept = path.outcome.tokens[:tokens]
        mean += path.chance * path.outcome.accepted
        for rest in prefixes(reference.vocab, tokens - len(kept)):
            chance, steps, text = path.chance, list(path.steps), kept
            for x in rest:
                chance *= to_fraction(reference.row(text)[x])
                steps.append(("reference", text_of(text), x))
                text = (*text, x)
            if chance:
                law[text] += chance
                paths.append(
                    {"steps": steps, "emits": text_of(text), "accepted": path.outcome.accepted}
                )
    truth = {text: Fraction(1) for text in law}
    for text in truth:
        for i, x in enumerate(text):
            truth[text] *= to_fraction(reference.row(text[:i])[x])
    distance = sum((max(truth[t] - law[t], Fraction(0)) for t in law), Fraction(0))
    table = {text_of(t): [str(law[t]), str(truth[t])] for t in law if law[t] or truth[t]}
    return Continued(law, table, distance, mean, paths)


def law_certificate(
    name: str,
    refutes: str,
    decoder: Decoder,
    gamma: int,
    tokens: int,
    reference: Model | None = None,
    claimed: Fraction | None = None,
) -> Certificate:
    """The probability tree of one round that refutes a claim.

    Args:
        name, refutes: of the claim, and what the tree shows.
        reference: the model whose law should come out; by default the target.
        claimed: for a rule that is lossless: the number said to be the largest E[tau].
    """
    aim = reference or decoder.target
    found = continued(decoder, gamma, tokens, aim)
    tables = {"draft": (decoder.draft, gamma), "reference": (aim, tokens)}
    proof: Certificate = {
        "name": name,
        "kind": "law",
        "refutes": refutes,
        "rows": {table: _rows(model, depth) for table, (model, depth) in tables.items()},
        "reference": "reference",
        "law": found.table,
        "distance": str(found.distance),
        "mean": str(found.mean),
        "paths": found.paths,
    }
    return proof if claimed is None else {**proof, "claimed": str(claimed)}


def value_certificate(
    name: str, refutes: str, left: Formula, relation: str, right: Formula
) -> Certificate:
    """Two formulas that the claim needs equal (``"!="``), or left >= right (``"<"``)."""
    return {
        "name": name,
        "kind": "value",
        "refutes": refutes,
        "relation": relation,
        "formulas": [left, right],
        "left": str(evaluate(left)),
        "right": str(evaluate(right)),
    }


def law_finding(
    name: str,
    refutes: str,
    decoder: Decoder,
    gamma: int,
    tokens: int,
    note: str,
    reference: Model | None = None,
    **numbers: Any,
) -> Finding:
    """HOLDS if one round followed by the reference has the reference's law, else FAILS."""
    proof = law_certificate(name, refutes, decoder, gamma, tokens, reference)
    distance = Fraction(proof["distance"])
    found = {"distance": distance, **numbers}
    if distance == 0:
        return Finding(Verdict.HOLDS, found, note)
    return Finding(Verdict.FAILS, found, note, proof)


def value_finding(proof: Certificate, names: tuple[str, str], note: str, **numbers: Any) -> Finding:
    """FAILS if the two formulas stand in the relation of the proof, else HOLDS."""
    left, right = Fraction(proof["left"]), Fraction(proof["right"])
    found = {names[0]: left, names[1]: right, **numbers}
    if left < right if proof["relation"] == "<" else left != right:
        return Finding(Verdict.FAILS, found, note, proof)
    return Finding(Verdict.HOLDS, found, note)


def number(value: Any) -> str:
    """A rational as a formula."""
    return str(to_fraction(value))


def optimum_formula(proof: Mapping[str, Any]) -> Formula:
    """The upper bound that the weights of a ``theory.transport`` certificate prove, as a formula.

    E[tau] <= sum over levels t of B, (t - t') (1 - (1 - Q(B >= t))^K) + what the target's masses
    leave beyond the weights b; B sums b along a drafted string (``theory.transport.checker``).
    """
    target, draft = (read_rows(proof[role], proof["gamma"]) for role in ("target", "draft"))
    weights = {prefix_of(v): Fraction(value) for v, value in proof["weights"].items()}
    wanted, drafted = joint(target), joint(draft)
    along = {
        v: sum((weights.get(v[:i], Fraction(0)) for i in range(1, len(v) + 1)), Fraction(0))
        for v in leaves(drafted)
    }
    terms: list[Formula] = []
    levels = sorted({Fraction(0), *along.values()})
    for below, level in pairwise(levels):
        missed = 1 - sum(drafted[v] for v in along if along[v] >= level)
        power = ["*", *[str(missed)] * proof["num_drafts"]]
        terms.append(["*", str(level - below), ["-", "1", power]])
    gains = {v: 1 - weights.get(v, Fraction(0)) for v in wanted}
    if proof["claim"] == "block_optimum":
        terms += [["*", str(max(gains[v], Fraction(0))), str(wanted[v])] for v in wanted]
        return ["+", *terms]
    values: dict[Prefix, Formula] = {}
    for v in [*reversed(wanted), ()]:
        rest = [["*", str(p), values[(*v, x)]] for x, p in enumerate(target.get(v, []))]
        values[v] = ["max", "0", ["+", str(gains.get(v, 0)), *rest]]
    return ["+", *terms, values[()]]


def overlap_formula(p: Iterable[Any], q: Iterable[Any]) -> Formula:
    """sum min(p, q)."""
    return ["+", *(["min", number(a), number(b)] for a, b in zip(p, q, strict=True))]


def document(proofs: Iterable[Certificate]) -> str:
    """The file that ``papers_check/recheck.py`` reads, one certificate a line."""
    return "[\n" + ",\n".join(map(json.dumps, proofs)) + "\n]\n"


def _rows(model: Model, depth: int) -> dict[str, list[str]]:
    return {
        text_of(prefix): [number(value) for value in model.row(prefix)]
        for length in range(depth)
        for prefix in prefixes(model.vocab, length)
    }


def text_of(prefix: Prefix) -> str:
    """Tokens as "0 1"."""
    return " ".join(map(str, prefix))


def prefix_of(text: str) -> Prefix:
    """The inverse of :func:`text_of`."""
    return tuple(int(token) for token in text.split())
