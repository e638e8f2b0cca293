"""``specproof exact``: one configuration, exactly."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from papers_check.numbers import Json, dumps, show, with_floats
from papers_check.options import Count, number_field
from theory import catalogue
from theory.analysis import Analysis, analyse

SHOWN_STRINGS = 12
"""Strings of the output law shown in the terminal; ``--json`` has them all."""


def facts(analysis: Analysis) -> Json:
    """The analysis as JSON-ready fields."""
    iid = analysis.iid_prediction
    numbers = with_floats(
        {
            "expected_accepted": analysis.expected_accepted,
            "tokens_per_call": analysis.tokens_per_call,
            "expected_calls": analysis.expected_calls,
            "distance": analysis.distance,
            "declared_distance": analysis.declared_distance,
        }
    )
    return {
        "verifier": analysis.entry.name,
        "kind": analysis.entry.kind,
        "gamma": analysis.gamma,
        "num_drafts": analysis.decoder.num_drafts,
        "horizon": analysis.horizon,
        **numbers,
        "lossless": analysis.lossless,
        "accepted_law": analysis.accepted_law,
        "iid_prediction": with_floats(
            {"alpha": iid.alpha, "tokens_per_call": iid.tokens_per_call, "accepted": iid.accepted}
        ),
        "output_law": analysis.output_law,
    }


def parse_params(verifier: str, settings: list[str]) -> dict[str, Any]:
    """``name=value`` settings as parameters, each with the type of its default.

    Raises:
        ValueError: a setting of another form, an unknown parameter, a value of another type.
    """
    defaults = catalogue.verifier(verifier).params
    params: dict[str, Any] = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals or name not in defaults:
            known = ", ".join(f"{key}={default}" for key, default in defaults.items())
            raise ValueError(f"{setting!r} sets nothing of {verifier!r}; it has: {known or 'none'}")
        params[name] = _parse(setting, value, defaults[name], name)
    return params


def _parse(setting: str, value: str, default: Any, name: str) -> Any:
    if isinstance(default, bool):
        if value not in ("true", "false"):
            raise ValueError(f"{setting!r}: write true or false")
        return value == "true"
    if isinstance(default, int) or name == "branching":
        try:
            numbers = tuple(int(part) for part in value.split(","))
        except ValueError as error:
            raise ValueError(f"{setting!r}: write whole numbers, such as 2 or 2,1") from error
        return numbers if name == "branching" else numbers[0]
    return value


def exact(
    *,
    target: str,
    draft: str,
    verifier: str = "token",
    gamma: Count = 2,
    drafts: Count = 1,
    horizon: Count | None = None,
    window: str = "fixed",
    field: str = "exact",
    param: list[str] | None = None,
    json: bool = False,
) -> None:
    """Expected lengths, output law and losslessness of one configuration, exactly.

    Parameters
    ----------
    target:
        A model file, or a row such as 1/3,2/3 used at every position.
    draft:
        The draft model, likewise.
    verifier:
        Name in `specproof list`.
    gamma:
        Draft length of a round.
    drafts:
        Drafts a round (K).
    horizon:
        Tokens generated; default gamma + 1.
    window:
        Name in `specproof list`, with its default settings; gamma is then the most it drafts.
    field:
        exact (rationals) or float.
    param:
        A parameter of the verifier, such as w=3/4 (see `specproof list --json`); repeatable.
    json:
        Print JSON instead of a table.
    """
    params = parse_params(verifier, param or [])
    analysis = analyse(
        target, draft, verifier, gamma, drafts, horizon, window, number_field(field), **params
    )
    if json:
        print(dumps(facts(analysis)))
        return
    iid = analysis.iid_prediction
    table = Table(title=f"{verifier}, gamma {gamma}, K {drafts}, {analysis.horizon} tokens")
    table.add_column("quantity")
    table.add_column("value", justify="right")
    rows = {
        "expected accepted, first round (E[tau])": show(analysis.expected_accepted),
        "tokens per call, first round": show(analysis.tokens_per_call),
        "  i.i.d. formula at the mean overlap": show(iid.tokens_per_call),
        f"expected calls for {analysis.horizon} tokens": show(analysis.expected_calls),
        "distance to the target (total variation)": show(analysis.distance),
        "lossless": "yes" if analysis.lossless else "NO",
    }
    if analysis.declared_distance is not None:
        rows["distance to the law it declares"] = show(analysis.declared_distance)
    for name, value in rows.items():
        table.add_row(escape(name), value)
    console = Console()
    console.print(table)
    law = sorted(analysis.output_law.items(), key=lambda entry: (-entry[1], entry[0]))
    strings = Table("string", "probability", title="likeliest output strings")
    for text, mass in law[:SHOWN_STRINGS]:
        strings.add_row(" ".join(map(str, text)), show(mass))
    console.print(strings)
