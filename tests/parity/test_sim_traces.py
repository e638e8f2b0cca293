"""Traces: what is written is read back, and broken rows are named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sim.traces import SCHEMA, check_trace, read_trace, to_table, write_trace


def rows() -> list[dict[str, Any]]:
    """Two requests: three rounds ended by EOS inside the block, and one round without drafts."""
    common = {"run": "a", "drafter": "model", "verifier": "block", "window": "fixed",
              "num_drafts": 1}  # fmt: skip
    numbers = [
        # request, round, position, drafted, accepted, emitted, bonus, finish
        (0, 0, 1, 3, 3, 4, True, None),
        (0, 1, 5, 3, 0, 1, False, None),
        (0, 2, 6, 3, 2, 2, False, "eos"),
        (1, 0, 1, 0, 0, 1, True, "length"),
    ]
    names = ("request", "round", "position", "drafted", "accepted", "emitted", "bonus", "finish")
    out = [{**common, **dict(zip(names, values, strict=True))} for values in numbers]
    out[0] |= {"overlap": [0.9, 1.0, 0.25], "draft_seconds": 0.01, "verify_seconds": 0.2}
    return out


def test_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "trace.parquet"
    write_trace(path, rows())
    table = read_trace(path)
    assert table.num_rows == 4
    for found, given in zip(table.to_pylist(), rows(), strict=True):
        assert found == {name: given.get(name) for name in SCHEMA.names}
    write_trace(path, table)
    assert read_trace(path).equals(table)


def test_the_file_explains_itself(tmp_path: Path) -> None:
    path = tmp_path / "trace.parquet"
    write_trace(path, rows())
    schema = read_trace(path).schema
    assert b"one row per round" in schema.metadata[b"format"]
    for field in schema:
        assert len(field.metadata[b"doc"]) > 10


def test_order_of_the_rows_does_not_matter() -> None:
    check_trace(to_table(rows()[::-1]))


def test_an_empty_trace_is_a_trace(tmp_path: Path) -> None:
    write_trace(tmp_path / "empty.parquet", [])
    assert read_trace(tmp_path / "empty.parquet").num_rows == 0


@pytest.mark.parametrize(
    ("row", "change", "message"),
    [
        (1, {"accepted": 4}, r"row 1: drafted=3, accepted=4.*accepted lies in 0\.\.drafted"),
        (1, {"accepted": -1}, "accepted lies in"),
        (1, {"emitted": 0}, r"emitted=0; emitted lies in 1\.\.accepted\+1"),
        (0, {"emitted": 5}, "emitted lies in"),
        (2, {"finish": None}, "cut short"),
        (2, {"finish": "bored"}, "finish is null or one of eos, length, stop"),
        (1, {"finish": "eos"}, "only the last round of a request"),
        (1, {"bonus": True}, "bonus means accepted = drafted"),
        (0, {"overlap": [0.5]}, "one entry per drafted token"),
        (0, {"overlap": [0.5, 2.0, 0.1]}, r"overlap lies in \[0, 1\]"),
        (0, {"draft_seconds": -1.0}, "draft_seconds is at least 0"),
        (2, {"position": 7}, "row 2: .*position = position"),
        (2, {"round": 3}, "consecutive"),
        (3, {"round": 1}, "first round of a request is round 0"),
        (0, {"num_drafts": 0}, "num_drafts is at least 1"),
        (0, {"verifier": None}, "verifier is null"),
        (0, {"colour": "red"}, r"unknown fields \['colour'\]"),
        (0, {"accepted": "many"}, "do not fit the schema"),
    ],
)
def test_broken_rows_are_named(row: int, change: dict[str, Any], message: str) -> None:
    broken = rows()
    broken[row] |= change
    with pytest.raises(ValueError, match=message):
        to_table(broken)


def test_missing_fields_and_files_are_named(tmp_path: Path) -> None:
    broken = rows()
    del broken[2]["window"]
    with pytest.raises(ValueError, match=r"row 2: .*missing fields \['window'\]"):
        to_table(broken)
    with pytest.raises(ValueError, match="not a readable Parquet trace"):
        read_trace(tmp_path / "nothing.parquet")
    with pytest.raises(ValueError, match="fields are"):
        check_trace(pa.table({"accepted": [1]}))
