"""Re-verify counter-examples: ``python papers_check/recheck.py FILE``, exit code 0 if all hold.

Stand-alone on purpose: exact fractions and nothing of the project. FILE is the list that
``specproof check`` writes; strings of tokens are "0 1", "" is the empty one. Two kinds:

law    The probability tree of one round and of the tokens that follow it. A step ["target", "0", 1]
       draws token 1 from a row of ``rows``; ["slot 0", "pass", "1/3"] states its own chance. The
       chances at every branching sum to 1. ``law`` holds, by text, the chance that it is emitted
       and its chance under the rows ``reference``; ``distance`` is their total variation. Either
       that refutes the claim; or it is 0, and the mean of ``accepted`` is ``mean``, more than
       ``claimed``, said to be the most that any rule accepts.
value  Two formulas, such as ["*", "1/2", ["min", "1/3", "1/4"]], of values ``left`` and ``right``:
       they differ where the claim needs them equal (``relation`` "!="), or the left one is smaller
       where the claim needs left >= right (``relation`` "<").
"""

import sys

if __name__ == "__main__":
    sys.path.pop(0)  # this folder, whose numbers.py would hide the standard module

import json
import math
from fractions import Fraction
from typing import Any

OPERATIONS: dict[str, Any] = {
    "+": sum,
    "*": math.prod,
    "-": lambda v: v[0] - v[1],
    "/": lambda v: v[0] / v[1],
    "min": min,
    "max": max,
}


def need(condition: bool, what: str) -> None:
    if not condition:
        raise ValueError(what)


def joint(rows: Any, length: int) -> dict[str, Fraction]:
    """Probabilities of all strings of one length."""
    masses = {"": Fraction(1)}
    for _ in range(length):
        laws = {v: [Fraction(value) for value in rows[v]] for v in masses}
        need(all(min(row) >= 0 and sum(row) == 1 for row in laws.values()), "a row is not a law")
        masses = {f"{v} {x}".strip(): masses[v] * c for v in masses for x, c in enumerate(laws[v])}
    return masses


def ends(rows: Any, paths: list[Any], depth: int = 0) -> list[tuple[Fraction, Any]]:
    """(chance, path) of paths that share their first ``depth`` steps, given these."""
    if len(paths) == 1 and len(paths[0]["steps"]) == depth:
        return [(Fraction(1), paths[0])]
    branches: dict[Any, list[Any]] = {}
    for path in paths:
        branches.setdefault(tuple(path["steps"][depth]), []).append(path)
    stated = {step: isinstance(step[2], str) for step in branches}
    need(len({s[:1] if stated[s] else s[:2] for s in branches}) == 1, f"mixed steps {branches}")
    chances = {s: Fraction(s[2] if stated[s] else rows[s[0]][s[1]][s[2]]) for s in branches}
    need(all(c > 0 for c in chances.values()) and sum(chances.values()) == 1, f"{chances}")
    return [(chances[s] * c, p) for s, on in branches.items() for c, p in ends(rows, on, depth + 1)]


def check_law(proof: Any) -> None:
    outcomes, rows = ends(proof["rows"], proof["paths"]), proof["rows"][proof["reference"]]
    tokens = len(outcomes[0][1]["emits"].split())
    law = {text: [Fraction(0), mass] for text, mass in joint(rows, tokens).items()}
    for chance, path in outcomes:
        law[path["emits"]][0] += chance
    stated = {text: [Fraction(mass) for mass in pair] for text, pair in proof["law"].items()}
    need({text: pair for text, pair in law.items() if any(pair)} == stated, f"the law is {law}")
    distance = sum(max(wanted - emitted, Fraction(0)) for emitted, wanted in law.values())
    need(distance == Fraction(proof["distance"]), f"the distance is {distance}")
    mean = sum(chance * path["accepted"] for chance, path in outcomes)
    need(mean == Fraction(proof["mean"]), f"the mean accepted length is {mean}")
    need(distance > 0 or mean > Fraction(proof["claimed"]), "nothing is refuted")


def evaluate(formula: Any) -> Fraction:
    if isinstance(formula, str):
        return Fraction(formula)
    return Fraction(OPERATIONS[formula[0]]([evaluate(part) for part in formula[1:]]))


def check_value(proof: Any) -> None:
    left, right = map(evaluate, proof["formulas"])
    need((left, right) == (Fraction(proof["left"]), Fraction(proof["right"])), f"{left}, {right}")
    need(left < right if proof["relation"] == "<" else left != right, f"{left} against {right}")


def main(path: str) -> int:
    with open(path) as file:
        certificates = json.load(file)
    failed = 0
    for proof in certificates:
        try:
            {"law": check_law, "value": check_value}[proof["kind"]](proof)
            print(f"verified  {proof['name']}: {proof['refutes']}")
        except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError) as error:
            failed += 1
            print(f"NOT VERIFIED  {proof['name']}: {error!r}")
    print(f"{len(certificates) - failed} of {len(certificates)} certificates verified")
    return 1 if failed or not certificates else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
