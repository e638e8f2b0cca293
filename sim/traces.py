"""Traces: one row per round, the one format of simulations and of real runs.

``SCHEMA`` is a pyarrow schema whose fields carry their meaning and unit as metadata, so that a
Parquet file explains itself. ``check_trace`` refuses tables that break an invariant of decoding:
a round emits between 1 and tau + 1 tokens, tau lies in 0..drafted, a round that emits fewer than
tau + 1 tokens has a finish reason, only the last round of a request has one, and the positions
of a request's rounds are contiguous.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

VERSION = "1"

_FIELDS: tuple[tuple[str, Any, bool, str], ...] = (
    ("run", pa.string(), False, "name of the run: one configuration, one invocation"),
    ("request", pa.int64(), False, "number of the request within the run"),
    ("round", pa.int64(), False, "number of the round within the request, from 0"),
    ("position", pa.int64(), False, "tokens emitted before this round, the prompt not counted"),
    ("drafter", pa.string(), False, "where the drafts came from"),
    ("verifier", pa.string(), False, "verification rule"),
    ("window", pa.string(), False, "rule that ended drafting"),
    ("num_drafts", pa.int32(), False, "drafts K of this round"),
    ("drafted", pa.int32(), False, "drafted tokens of one draft; paddings are not counted"),
    ("accepted", pa.int32(), False, "accepted length tau, without the correction or bonus token"),
    ("emitted", pa.int32(), False, "tokens kept after EOS and length limits, 1..tau+1"),
    ("bonus", pa.bool_(), False, "all drafts were accepted, so the last token is a bonus"),
    ("finish", pa.string(), True, "why the request ended with this round: eos, length, stop"),
    ("overlap", pa.list_(pa.float64()), True, "sum min(p, q) at each drafted position"),
    ("draft_seconds", pa.float64(), True, "time spent drafting, seconds"),
    ("verify_seconds", pa.float64(), True, "time of the target call and the verification, seconds"),
)

SCHEMA = pa.schema(
    [
        pa.field(name, kind, nullable=nullable, metadata={"doc": doc})
        for name, kind, nullable, doc in _FIELDS
    ],
    metadata={"format": "specproof trace, one row per round", "version": VERSION},
)

FINISH = ("eos", "length", "stop")
"""Reasons for the end of a request."""


def to_table(rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    """A checked table from one mapping per round; nullable fields may be left out.

    Raises:
        ValueError: unknown or missing fields, or rows that ``check_trace`` refuses.
    """
    listed = list(rows)
    known = set(SCHEMA.names)
    needed = {field.name for field in SCHEMA if not field.nullable}
    for i, row in enumerate(listed):
        unknown, missing = set(row) - known, needed - set(row)
        if unknown or missing:
            raise ValueError(
                f"trace row {i}: unknown fields {sorted(unknown)}, missing fields "
                f"{sorted(missing)}; the fields are {', '.join(SCHEMA.names)}"
            )
    try:
        table = pa.Table.from_pylist(listed, schema=SCHEMA)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise ValueError(f"trace rows do not fit the schema: {error}") from error
    check_trace(table)
    return table


def write_trace(path: str | Path, rows: pa.Table | Iterable[Mapping[str, Any]]) -> None:
    """Check a trace and write it as Parquet.

    Raises:
        ValueError: as ``to_table`` and ``check_trace``.
    """
    if isinstance(rows, pa.Table):
        check_trace(rows)
        table = rows
    else:
        table = to_table(rows)
    pq.write_table(table, str(path), compression="zstd")


def read_trace(path: str | Path) -> pa.Table:
    """Read and check a trace.

    Raises:
        ValueError: not a Parquet file, or a table that ``check_trace`` refuses.
    """
    try:
        table = pq.read_table(str(path))
    except (pa.ArrowInvalid, FileNotFoundError) as error:
        raise ValueError(f"{path} is not a readable Parquet trace: {error}") from error
    check_trace(table)
    return table


def check_trace(table: pa.Table) -> None:
    """Check names, types and the invariants of decoding.

    Raises:
        ValueError: the first broken rule, with the row and its values.
    """
    if not table.schema.equals(SCHEMA, check_metadata=False):
        found = ", ".join(f"{field.name}: {field.type}" for field in table.schema)
        raise ValueError(f"the table's fields are [{found}]; expected {SCHEMA.names} of SCHEMA")
    if table.num_rows == 0:
        return
    for field in SCHEMA:
        if not field.nullable and table.column(field.name).null_count:
            row = pc.index(pc.is_null(table.column(field.name)), True).as_py()
            raise ValueError(f"trace row {row}: {field.name} is null; {field.name} is required")
    ints = {
        name: table.column(name).to_numpy()
        for name in ("position", "num_drafts", "drafted", "accepted", "emitted", "bonus")
    }
    finish = np.array(table.column("finish").to_pylist(), dtype=object)
    ended = np.array([value is not None for value in finish], dtype=bool)
    _check_rounds(ints, finish, ended)
    _check_overlaps(table, ints["drafted"])
    _check_order(table, ints, ended)


def _check_rounds(ints: Mapping[str, Any], finish: Any, ended: NDArray[np.bool_]) -> None:
    drafted, accepted, emitted = ints["drafted"], ints["accepted"], ints["emitted"]
    values = {"drafted": drafted, "accepted": accepted, "emitted": emitted}
    _first(drafted < 0, values, "drafted is at least 0")
    _first(ints["num_drafts"] < 1, ints, "num_drafts is at least 1")
    _first((accepted < 0) | (accepted > drafted), values, "accepted lies in 0..drafted")
    _first((emitted < 1) | (emitted > accepted + 1), values, "emitted lies in 1..accepted+1")
    _first(
        (emitted <= accepted) & ~ended, values, "a round cut short (emitted <= accepted) has finish"
    )
    _first(ints["bonus"] & (accepted < drafted), values, "bonus means accepted = drafted")
    unknown = ended & ~np.isin(finish.astype(str), FINISH)
    _first(unknown, {"finish": finish}, f"finish is null or one of {', '.join(FINISH)}")


def _check_overlaps(table: pa.Table, drafted: NDArray[np.int64]) -> None:
    overlap = table.column("overlap")
    sizes = pc.fill_null(pc.list_value_length(overlap), -1).to_numpy()
    values = {"overlap entries": sizes, "drafted": drafted}
    _first((sizes >= 0) & (sizes != drafted), values, "overlap has one entry per drafted token")
    flat = pc.list_flatten(overlap).to_numpy()
    _first(~((flat >= 0) & (flat <= 1 + 1e-6)), {"overlap": flat}, "overlap lies in [0, 1]")
    for name in ("draft_seconds", "verify_seconds"):
        seconds = pc.fill_null(table.column(name), 0.0).to_numpy()
        _first(~(seconds >= 0), {name: seconds}, f"{name} is at least 0")


def _check_order(table: pa.Table, ints: Mapping[str, Any], ended: NDArray[np.bool_]) -> None:
    """Rounds of a request are numbered from 0, contiguous in position, and end once."""
    runs = np.unique(np.array(table.column("run").to_pylist(), dtype=str), return_inverse=True)[1]
    request, number = table.column("request").to_numpy(), table.column("round").to_numpy()
    order = np.lexsort((number, request, runs))
    same = (np.diff(runs[order]) == 0) & (np.diff(request[order]) == 0)
    first = order[np.concatenate([[True], ~same])]
    values = {"request": request, "round": number, "position": ints["position"]}
    _first(_only(first, number != 0), values, "the first round of a request is round 0")
    before, after = order[:-1][same], order[1:][same]
    _first(
        _only(after, number != _shifted(number, before, after) + 1),
        values,
        "rounds of a request are consecutive",
    )
    reached = _shifted(ints["position"] + ints["emitted"], before, after)
    _first(
        _only(after, ints["position"] != reached),
        values,
        "position = position + emitted of the round before",
    )
    _first(_only(before, ended), values, "only the last round of a request has finish")


def _only(rows: NDArray[np.int64], bad: NDArray[np.bool_]) -> NDArray[np.bool_]:
    flags = np.zeros(bad.shape, dtype=bool)
    flags[rows] = bad[rows]
    return flags


def _shifted(
    values: NDArray[Any], before: NDArray[np.int64], after: NDArray[np.int64]
) -> NDArray[Any]:
    out = np.zeros_like(values)
    out[after] = values[before]
    return out


def _first(bad: NDArray[np.bool_], values: Mapping[str, Any], rule: str) -> None:
    if not bad.any():
        return
    row = int(np.argmax(bad))
    shown = ", ".join(f"{name}={column[row]}" for name, column in values.items())
    raise ValueError(f"trace row {row}: {shown}; {rule}")
