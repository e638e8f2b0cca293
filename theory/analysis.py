"""``analyse``: everything exact about one decoding algorithm on one pair of models."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from theory import catalogue
from theory.accepted_length import CLOSED_FORMS, IidPrediction, expected_accepted, iid_prediction
from theory.declared import Declared, predict
from theory.drafting import Window, drafting_for, drawn_tokens, fixed
from theory.fields import Field, Number
from theory.generation import Decoder, GenerationLaw, autoregressive, distance, generate
from theory.models import Prefix, RowTree, as_model, check_pair
from theory.verifiers.common import load_program

PATHS = 20_000_000
"""Largest estimated number of enumerated paths that :func:`analyse` starts on."""

TOLERANCE = 1e-12
"""Distance up to which float laws count as equal."""


@dataclass(frozen=True)
class Analysis:
    """Exact facts of a decoder over a horizon; each is computed when first asked for.

    Attributes:
        expected_accepted: E[tau] of the first round.
        tokens_per_call: 1 + E[tau].
        output_law: law of the first ``horizon`` tokens.
        expected_calls: expected target calls for ``horizon`` tokens.
        distance: total variation between ``output_law`` and the target's own law.
        declared_distance: for a lossy rule, total variation to the law it declares (else None).
        lossless: whether that distance is zero (rationals: exactly).
        iid_prediction: the i.i.d. formula, for contrast (one draft, fixed window).
    """

    entry: catalogue.Verifier
    decoder: Decoder
    gamma: int
    horizon: int

    @property
    def field(self) -> Field:
        return self.decoder.target.field

    @cached_property
    def _law(self) -> GenerationLaw:
        return generate(self.decoder, self.horizon)

    @cached_property
    def accepted_law(self) -> dict[int, Number]:
        """Law of tau in the first round."""
        law: dict[int, Number] = {}
        for outcome, weight in self.decoder.round_law((), (), self.gamma).items():
            law[outcome.accepted] = law.get(outcome.accepted, self.field.zero) + weight
        return {tau: self.field.public(law[tau]) for tau in sorted(law)}

    @cached_property
    def expected_accepted(self) -> Number:
        return sum(tau * weight for tau, weight in self.accepted_law.items())

    @property
    def tokens_per_call(self) -> Number:
        return 1 + self.expected_accepted

    @property
    def output_law(self) -> dict[Prefix, Number]:
        return {text: self.field.public(mass) for text, mass in self._law.tokens.items()}

    @property
    def expected_calls(self) -> Number:
        return self.field.public(self._law.calls)

    @cached_property
    def distance(self) -> Number:
        truth = autoregressive(self.decoder.target, self.horizon, self.decoder.eos)
        return self.field.public(self.field.number(distance(self._law.tokens, truth)))

    @cached_property
    def declared_distance(self) -> Number | None:
        if self.entry.kind != "lossy":
            return None
        models = self.decoder.target, self.decoder.draft
        declared = Declared(self.entry.name, *models, dict(self.decoder.params))
        law = predict(declared, self.gamma, self.horizon, self.decoder.eos).tokens
        return self.field.public(self.field.number(distance(self._law.tokens, law)))

    @property
    def lossless(self) -> bool:
        return bool(self.distance <= (TOLERANCE if self.field.name == "float" else 0))

    @cached_property
    def trees(self) -> tuple[RowTree, RowTree]:
        """Row trees of both models down to depth gamma."""
        return (
            RowTree.of(self.decoder.target, self.gamma),
            RowTree.of(self.decoder.draft, self.gamma),
        )

    @cached_property
    def closed_form(self) -> Number | None:
        """E[tau] by the rule's closed form, or None where it has none."""
        if self.entry.name not in CLOSED_FORMS:
            return None
        value = expected_accepted(
            self.entry.name, *self.trees, self.gamma, self.decoder.num_drafts, **self.decoder.params
        )
        return self.field.public(value)

    @cached_property
    def iid_prediction(self) -> IidPrediction:
        prediction = iid_prediction(*self.trees, self.gamma)
        public = self.field.public
        return IidPrediction(public(prediction.alpha), public(prediction.tokens_per_call))


def analyse(
    target: Any,
    draft: Any,
    verifier: str = "token",
    gamma: int = 2,
    num_drafts: int = 1,
    horizon: int | None = None,
    window: str | Window = "fixed",
    field: Field | str = "exact",
    eos: int | None = None,
    **params: Any,
) -> Analysis:
    """Exact expected lengths, output law and losslessness of one configuration.

    Args:
        target, draft: models, or anything ``load_model`` reads (a bare row, a file, parsed JSON).
        verifier: name in the catalogue.
        gamma: draft length of a round.
        num_drafts: K drafts a round.
        horizon: tokens generated; default one full round, ``gamma + 1``.
        window: ``"fixed"``, or a window program of ``theory.windows``.
        field: ``"exact"``, ``"float"`` or ``"symbolic"``, for models given as rows.
        eos: token that ends the text.
        **params: parameters of the verifier.

    Raises:
        ValueError: unknown verifier, gamma or K below 1, models that do not match, or an
            enumeration that would not end (the message says how large it is).
    """
    entry = catalogue.verifier(verifier)
    if gamma < 1:
        raise ValueError(f"gamma {gamma} drafts nothing; use 1 or more")
    if num_drafts < 1:
        raise ValueError(f"num_drafts {num_drafts} is not a number of drafts; use 1 or more")
    if entry.drafts == "one" and num_drafts != 1:
        raise ValueError(f"{verifier!r} verifies one draft, got num_drafts={num_drafts}")
    unknown = set(params) - set(entry.params)
    if unknown:
        raise ValueError(f"{verifier!r} has no parameter {sorted(unknown)}; it has {entry.params}")
    p, q = as_model(target, field, "target"), as_model(draft, field, "draft")
    check_pair(p, q)
    if isinstance(window, str) and window != "fixed":
        raise ValueError(f"unknown window {window!r}; use 'fixed' or a program of theory.windows")
    merged = {**entry.params, **params}
    program = None if isinstance(window, str) else window
    drafting = drafting_for(entry, gamma, num_drafts, merged, program)
    drawn = drawn_tokens(entry, gamma, num_drafts, merged)
    paths = p.vocab ** (drawn + 1) * (drawn + 1)
    if paths > PATHS:
        raise ValueError(
            f"{verifier!r} with {p.vocab} tokens, gamma {gamma}, K {num_drafts} has about "
            f"{paths:.2g} paths a round, more than {PATHS:.2g}; use the closed forms "
            "(theory.accepted_length), an enclosure (theory.enclosure) or Monte Carlo (sim)"
        )
    verify = load_program(verifier)
    decoder = Decoder(p, q, verify, program or fixed(gamma), num_drafts, merged, eos, drafting)
    return Analysis(entry, decoder, gamma, gamma + 1 if horizon is None else horizon)
