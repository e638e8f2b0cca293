"""``specproof bounds``: how long any lossless round can be, with certificates."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.table import Table

from papers_check.numbers import dumps, show, with_floats
from papers_check.options import Count, number_field
from theory.transport import Bounds, check_certificate
from theory.transport import bounds as all_bounds

MEANING = {
    "alpha_star": "largest acceptance of the first position",
    "cic": "value claimed for SpecTr-GBV",
    "stateless_optimum": "longest round of rules that leave later targets alone",
    "block_optimum": "longest round of any lossless rule",
    "level_wise": "upper bound: the optimum of each length by itself",
    "marginal": "upper bound: each string by itself",
}


def bounds(
    *,
    target: str,
    draft: str,
    gamma: Count = 2,
    drafts: Count = 2,
    field: str = "exact",
    certificate: Path | None = None,
    json: bool = False,
) -> None:
    """Transport bounds on the expected accepted length of K i.i.d. drafts.

    Parameters
    ----------
    target:
        A model file, or a row such as 3/4,1/4 used at every position.
    draft:
        The draft model, likewise.
    gamma:
        Draft length of a round.
    drafts:
        Drafts a round (K).
    field:
        exact (rationals) or float.
    certificate:
        JSON file for the proofs of the two optima.
    json:
        Print JSON instead of a table.
    """
    if certificate is not None and not certificate.resolve().parent.is_dir():
        raise ValueError(f"cannot write {certificate}: its folder is missing; make it first")
    found = all_bounds(target, draft, gamma, drafts, number_field(field))
    if certificate is not None:
        certificate.write_text(dumps(found.certificates) + "\n")
    values = {name: getattr(found, name) for name in MEANING}
    if json:
        print(dumps({**with_floats(values), "certificates": found.certificates}))
        return
    table = Table("bound", "value", "what it is", title=f"gamma {gamma}, K {drafts}")
    for name, meaning in MEANING.items():
        table.add_row(name.replace("_", " "), show(values[name]), meaning)
    console = Console()
    console.print(table)
    for name in found.certificates:
        console.print(_proof(found, name))


def _proof(found: Bounds, name: str) -> str:
    """What the certificate of one optimum proves, checked afresh."""
    lower, upper = check_certificate(found.certificates[name])
    title = name.replace("_", " ")
    if lower == upper:
        return f"{title}: proved, {show(upper)}"
    return f"{title}: proved between {show(float(lower), 10)} and {show(float(upper), 10)}"
