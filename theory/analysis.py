"""``analyse``: everything exact about one decoding algorithm on one pair of models."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from theory import catalogue
from theory.accepted_length import CLOSED_FORMS, IidPrediction, expected_accepted, iid_prediction
from theory.declared import Declared, predict
from theory.drafting import Window, drafting_for, drawn_tokens, fixed
from theory.fields import SYMBOLIC, Field, Number
from theory.generation import Decoder, GenerationLaw, autoregressive, distance, generate
from theory.inputs import whole
from theory.models import Prefix, RowTree, as_model, check_pair
from theory.verifiers.common import load_program
from theory.windows import AdaptiveDecoder, Stopping, load_rule

PATHS = 20_000_000
"""Largest estimated number of enumerated paths that is started on."""

LONGEST = 10_000
"""Largest gamma and K that are enumerated at all, over however few tokens."""

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
        fixed_window: whether every round drafts ``gamma`` tokens; else there is no closed form
            and no declared law.
    """

    entry: catalogue.Verifier
    decoder: Decoder
    gamma: int
    horizon: int
    fixed_window: bool = True

    @property
    def field(self) -> Field:
        return self.decoder.target.field

    @cached_property
    def _law(self) -> GenerationLaw:
        self._check_horizon()
        return generate(self.decoder, self.horizon)

    def _check_horizon(self) -> None:
        """Refuse a horizon whose strings, each a state with a round of its own, are too many."""
        vocab, total = self.decoder.target.vocab, 0.0
        num_drafts, params = self.decoder.num_drafts, self.decoder.params
        for length in range(self.horizon):
            block = min(self.gamma, self.horizon - length - 1)
            drawn = drawn_tokens(self.entry, block, num_drafts, params) if block else 0
            total += paths(vocab, length + drawn)
            if total > PATHS:
                raise ValueError(
                    f"{self.horizon} tokens from a vocabulary of {vocab} take more than "
                    f"{PATHS:.2g} paths; lower the horizon, use the expected calls of "
                    "theory.accepted_length.calls, or Monte Carlo (sim)"
                )

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
        if self.entry.kind != "lossy" or not self.fixed_window:
            return None
        models = self.decoder.target, self.decoder.draft
        declared = Declared(self.entry.name, *models, dict(self.decoder.params))
        law = predict(declared, self.gamma, self.horizon, self.decoder.eos).tokens
        return self.field.public(self.field.number(distance(self._law.tokens, law)))

    @property
    def lossless(self) -> bool:
        if self.field is SYMBOLIC:
            return self._lossless_for_symbols()
        return bool(self.distance <= (TOLERANCE if self.field.name == "float" else 0))

    def _lossless_for_symbols(self) -> bool:
        """Raises ValueError where sympy can't tell whether the distance is zero."""
        zero = self.distance.is_zero
        if zero is None:
            raise ValueError(
                "whether the output law is the target's depends on how the symbols compare; put "
                "numbers in, or see theory.derivations, which proves it case by case"
            )
        return bool(zero)

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
        if self.entry.name not in CLOSED_FORMS or not self.fixed_window:
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
        gamma: draft length of a round; of an adaptive window, the most it drafts.
        num_drafts: K drafts a round.
        horizon: tokens generated; default one full round, ``gamma + 1``.
        window: name of a window in ``theory.windows``, with its default settings; a
            ``theory.windows.Stopping`` of a rule with others; or a window program.
        field: ``"exact"``, ``"float"`` or ``"symbolic"``, for models given as rows.
        eos: token that ends the text.
        **params: parameters of the verifier.

    Raises:
        ValueError: unknown verifier, gamma or K below 1, models that do not match, or an
            enumeration that would not end (the message says how large it is).
    """
    entry = catalogue.verifier(verifier)
    gamma, num_drafts = whole(gamma, "gamma"), whole(num_drafts, "num_drafts")
    horizon = gamma + 1 if horizon is None else whole(horizon, "horizon")
    if entry.drafts == "one" and num_drafts != 1:
        raise ValueError(f"{verifier!r} verifies one draft, got num_drafts={num_drafts}")
    merged = _checked_params(entry, gamma, params)
    p, q = as_model(target, field, "target"), as_model(draft, field, "draft")
    check_pair(p, q)
    if eos is not None and whole(eos, "eos", 0) >= p.vocab:
        raise ValueError(f"eos {eos} is no token of 0..{p.vocab - 1}")
    too_long = max(gamma, num_drafts) > LONGEST
    if too_long or paths(p.vocab, drawn_tokens(entry, gamma, num_drafts, merged)) > PATHS:
        raise ValueError(
            f"{verifier!r} with {p.vocab} tokens, gamma {gamma}, K {num_drafts} has more than "
            f"{PATHS:.2g} paths a round; use the closed forms (theory.accepted_length), an "
            "enclosure (theory.enclosure) or Monte Carlo (sim)"
        )
    verify = load_program(verifier)
    program = _window(window, gamma, entry)
    if isinstance(program, Stopping):
        tell = verifier == "greedy_block"
        decoder: Decoder = AdaptiveDecoder(
            p, q, verify, program, num_drafts, merged, eos, tell=tell
        )
    else:
        drafting = drafting_for(entry, gamma, num_drafts, merged, program)
        decoder = Decoder(p, q, verify, program or fixed(gamma), num_drafts, merged, eos, drafting)
    return Analysis(entry, decoder, gamma, horizon, program is None)


def _checked_params(
    entry: catalogue.Verifier, gamma: int, params: dict[str, Any]
) -> dict[str, Any]:
    """All parameters of a verifier; their values are checked by the rule, as far as it can.

    Raises:
        ValueError: an unknown parameter, a switch that is neither True nor False, a tree of
            another depth than gamma.
    """
    unknown = set(params) - set(entry.params)
    if unknown:
        raise ValueError(
            f"{entry.name!r} has no parameter {sorted(unknown)}; it has {entry.params}"
        )
    for name, value in params.items():
        if isinstance(entry.params[name], bool) and not isinstance(value, bool):
            raise ValueError(f"{name} {value!r} is no switch; use True or False")
    branching = params.get("branching")
    if isinstance(branching, (tuple, list)) and len(branching) != gamma:
        raise ValueError(f"branching {branching!r} has {len(branching)} levels; use gamma of them")
    return {**entry.params, **params}


def paths(vocab: int, drawn: int) -> float:
    """About how many paths a round has that draws this many tokens and emits another."""
    exponent = (drawn + 1) * math.log(vocab)
    return (drawn + 1) * math.exp(exponent) if exponent < 100 else math.inf


def _window(window: str | Window, gamma: int, entry: catalogue.Verifier) -> Window | None:
    """The window that ends after ``gamma`` tokens at most; None for the fixed one.

    Raises:
        ValueError: unknown name, no window, or a rule that needs drafts of equal length.
    """
    if window == "fixed":
        return None
    if not isinstance(window, str) and not callable(window):
        raise ValueError(f"window {window!r} is no name and no program; see theory.windows")
    if entry.name not in ("marked_block", *_ONE_DRAFT):
        raise ValueError(
            f"{entry.name!r} needs drafts of equal length; use window='fixed', or one of "
            f"{('marked_block', *_ONE_DRAFT)}"
        )
    if isinstance(window, str):
        window = Stopping(load_rule(window))
    if not isinstance(window, Stopping):
        return window
    rule = window.rule
    return Stopping(lambda path, draft: len(path) >= gamma or rule(path, draft))


_ONE_DRAFT = tuple(entry.name for entry in catalogue.VERIFIERS if entry.drafts == "one")
