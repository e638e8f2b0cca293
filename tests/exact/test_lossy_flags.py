"""Which dial is the exact rule: flags of the relaxed rules, checked both ways."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from theory.fields import Array, to_fraction
from theory.laws import as_row, point_mass
from theory.verifiers import ensemble
from theory.verifiers.relaxed import always, load_rule

F = Fraction

LOSSLESS: list[tuple[str, dict[str, Any]]] = [
    ("ensemble", {"w": 1}),
    ("lenience", {"lenience": 1}),
    ("lenience", {"lenience": "1", "residual": "scaled"}),
    ("mentored", {"hi": 1}),
    ("cascade", {"rule": "chow", "knob": "-1/100"}),
    ("cascade", {"rule": "chow_log", "knob": "-1/100"}),
    ("cascade", {"rule": "diff", "knob": -1}),
    ("cascade", {"rule": "opt", "knob": "-101/100"}),
    ("cascade", {"rule": "token_v1", "knob": -1}),
    ("cascade", {"rule": "token_v2", "knob": "-1/100"}),
    ("cascade", {"rule": "token_v3", "knob": "-1/100"}),
]
SMALLEST_BUT_LOSSY: list[tuple[str, dict[str, Any], str, str]] = [
    ("ensemble", {"w": "9/10"}, "1/3,2/3", "2/3,1/3"),
    ("lenience", {"lenience": 1, "residual": "target"}, "1/3,2/3", "2/3,1/3"),
    ("lenience", {"lenience": "99/100"}, "1/3,2/3", "2/3,1/3"),
    ("mentored", {"hi": "101/100"}, "1/3,2/3", "2/3,1/3"),
    ("cascade", {"rule": "chow", "knob": 0}, "1/3,2/3", "1,0"),
    ("cascade", {"rule": "chow_log", "knob": 0}, "1/3,2/3", "1,0"),
    ("cascade", {"rule": "diff", "knob": "-3/4"}, "1/4,1/4,1/4,1/4", "0,1,0,0"),
    ("cascade", {"rule": "opt", "knob": -1}, "1/2,1/2", "3/4,1/4"),
    ("cascade", {"rule": "token_v1", "knob": "-3/4"}, "1/4,1/4,1/4,1/4", "0,1,0,0"),
    ("cascade", {"rule": "token_v2", "knob": 0}, "1/3,2/3", "1/4,3/4"),
    ("cascade", {"rule": "token_v3", "knob": 0}, "1/5,3/10,1/2", "1/2,1/4,1/4"),
    ("typical", {"eps": 1, "delta": 1, "correction": "target"}, "1/3,2/3", "2/3,1/3"),
]


def _label(variant: tuple[Any, ...]) -> str:
    return f"{variant[0]}-" + "-".join(str(value) for value in variant[1].values())


def fractions(row: Array) -> list[Fraction]:
    return [to_fraction(value) for value in row]


def _law(counts: list[int]) -> Array:
    return as_row([F(count, sum(counts)) for count in counts])


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Array, Array]:
    """Two laws of 2 to 4 tokens, with zeros, ties and equal laws among them."""
    vocab = draw(st.integers(2, 4))
    rows = st.lists(st.integers(0, 5), min_size=vocab, max_size=vocab).filter(any).map(_law)
    p = draw(rows)
    return p, draw(st.one_of(rows, st.just(p)))


@pytest.mark.parametrize(("rule", "params"), LOSSLESS, ids=map(_label, LOSSLESS))
@settings(max_examples=40)
@given(pair=pairs())
def test_a_flagged_rule_emits_the_target(
    rule: str, params: dict[str, Any], pair: tuple[Array, Array]
) -> None:
    p, q = pair
    module = load_rule(rule)
    assert module.lossless_at(**params)
    assert list(module.declared(p, q, **params)) == list(p)
    assert list(module.position(p, q, **params).law(q)) == list(p)


@pytest.mark.parametrize(
    ("rule", "params", "p", "q"), SMALLEST_BUT_LOSSY, ids=map(_label, SMALLEST_BUT_LOSSY)
)
def test_a_small_dial_is_not_the_exact_rule(
    rule: str, params: dict[str, Any], p: str, q: str
) -> None:
    module, target = load_rule(rule), as_row(p)
    assert not module.lossless_at(**params)
    assert list(module.declared(target, as_row(q), **params)) != list(target)


def test_flags_of_parameters_that_depend_on_the_context() -> None:
    assert ensemble.lossless_at(w=1.0)
    assert not ensemble.lossless_at(w=0.9)
    assert ensemble.lossless_at(w={(): 1, (0,): "1"})
    assert not ensemble.lossless_at(w={(): 1, (0,): "1/2"})
    assert not ensemble.lossless_at(w=lambda prefix: 1)  # cannot be known
    assert not always(lambda prefix: 1, lambda value: True)


def test_chow_at_zero_is_exact_unless_the_draft_is_certain() -> None:
    chow = load_rule("cascade")
    p, q = as_row("1/5,3/10,1/2"), as_row("1/2,1/4,1/4")
    assert list(chow.declared(p, q, rule="chow", knob=0)) == list(p)
    assert list(chow.declared(p, point_mass(0, 3), rule="chow", knob=0)) == [1, 0, 0]


def test_token_rule_with_knob_zero_is_not_standard_decoding() -> None:
    cascade = load_rule("cascade")
    p, q = as_row("1/5,3/10,1/2"), as_row("1/2,1/4,1/4")
    nu = cascade.declared(p, q, rule="token_v3", knob=0)
    assert fractions(nu) == [F(3, 20), F(9, 40), F(5, 8)]
