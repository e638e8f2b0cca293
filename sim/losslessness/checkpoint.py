"""The state of an audit in a file, so that a long run can stop and go on.

The file (NumPy's npz) also holds a mark of what is audited; a state is only taken up for the same
mark. Writing goes through a temporary file, so that an interrupted write leaves the old state.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sim.losslessness import bets as betting
from sim.losslessness.eprocess import Audit, Violation
from sim.losslessness.mean_tv import MeanTV
from sim.losslessness.memory import Counter, Memory

COUNTERS = ("memory.visits", "memory.followed", "placed.visits", "placed.followed")


def save(path: Path, audit: Audit, done: int, mark: Mapping[str, Any]) -> None:
    """Write the state after ``done`` samples."""
    facts = {
        "mark": dict(mark),
        "done": done,
        "level": audit.level,
        "places": audit.places,
        "draft": any(bet.family == "draft" for bet in audit.bets),
        "started": bool(audit.bets),
        "tokens": audit.tokens,
        "sequences": audit.sequences,
        "largest": audit.largest,
        "found_at": audit.found_at,
        "violations": [(v.sequence, v.position, v.token) for v in audit.violations],
        "curve": audit.curve,
        "sets": audit.mean_tv.names,
        "n": audit.mean_tv.n,
    }
    arrays: dict[str, Any] = {
        "capital": audit.capital,
        "evidence": audit.evidence,
        "seen": audit.seen,
        "total": audit.mean_tv.total,
        "squares": audit.mean_tv.squares,
    }
    for name in COUNTERS:
        counter = _counter(audit, name)
        arrays |= {f"{name}.keys": counter.keys, f"{name}.counts": counter.counts}
    scratch = path.with_name(path.name + ".part")
    with scratch.open("wb") as file:
        np.savez(file, facts=np.array(json.dumps(facts)), **arrays)
    scratch.replace(path)


def load(path: Path, mark: Mapping[str, Any]) -> tuple[Audit, int]:
    """Take up a state: the audit, and after how many samples it was saved.

    Raises:
        ValueError: not such a file, or the state of an audit of something else.
    """
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as data:
            arrays = {name: data[name] for name in data.files}
        facts = json.loads(str(arrays["facts"]))
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} is no readable state of an audit ({error})") from error
    wanted = json.loads(json.dumps(dict(mark)))
    if facts["mark"] != wanted:
        differing = [k for k in {*wanted, *facts["mark"]} if wanted.get(k) != facts["mark"].get(k)]
        raise ValueError(
            f"{path} is the state of another audit ({', '.join(sorted(differing))} differ); delete "
            "it, or use the same settings"
        )
    audit = Audit(facts["level"], facts["places"], facts["tokens"], facts["sequences"])
    audit.bets = betting.bets(facts["draft"], facts["places"]) if facts["started"] else ()
    audit.capital, audit.evidence = arrays["capital"], arrays["evidence"]
    audit.seen, audit.largest = arrays["seen"], facts["largest"]
    audit.found_at = tuple(facts["found_at"]) if facts["found_at"] else None
    audit.violations = [Violation(*place) for place in facts["violations"]]
    audit.curve = [(a, b, c) for a, b, c in facts["curve"]]
    audit.mean_tv = MeanTV(tuple(facts["sets"]), facts["n"], arrays["total"], arrays["squares"])
    for name in COUNTERS:
        counter = _counter(audit, name)
        counter.keys, counter.counts = arrays[f"{name}.keys"], arrays[f"{name}.counts"]
    return audit, int(facts["done"])


def _counter(audit: Audit, name: str) -> Counter:
    memory, kind = name.split(".")
    held: Memory = getattr(audit, memory)
    found: Counter = getattr(held, kind)
    return found
