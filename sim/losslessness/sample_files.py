"""Files of samples: JSON lines or Parquet, complete or refused.

JSON lines: a header, one line a sample, and a last line that says how many there are (broken
here only to fit the page).

    {"format": "specproof samples", "version": 1, "vocab_size": 49152, "model": "...",
     "processor": {"temperature": 1.0, "top_k": 50}, "eos": [2], "stateful": false}
    {"prompt": [1, 5], "output": [7, 9, 2], "emitted": [2, 1], "drafted": [4, 4],
     "accepted": [1, 0]}
    {"end": true, "samples": 1}

Of the header only ``format`` and ``version`` are required; what is given is compared with the
target. ``emitted``, ``drafted`` and ``accepted`` are optional (``samples.Sample``); ``stateful``
says that the rule keeps state between rounds, so that places of the round are not bet on. Instead
of the last line the header may hold ``"samples": n``.

Parquet: the columns prompt, output, emitted, drafted, accepted (lists of int64, the last three
nullable), and the header as JSON in the schema's metadata under ``specproof samples``.

A file that ends before its last line is partial: a run may be taken up from it again, but it never
yields a verdict.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sim.losslessness.samples import Sample

FORMAT, VERSION = "specproof samples", 1
COLUMNS = ("prompt", "output", "emitted", "drafted", "accepted")
SCHEMA = pa.schema(
    [pa.field(name, pa.list_(pa.int64()), nullable=name not in COLUMNS[:2]) for name in COLUMNS]
)


@dataclass(frozen=True)
class Header:
    """Facts about a file of samples; None where they are not known.

    Attributes:
        model: the target that the engine ran.
        vocab_size: number of token ids.
        processor: temperature, filters and penalties.
        eos: ids that end an output.
        stateful: whether the rule keeps state between rounds.
        samples: how many the file holds.
    """

    model: str | None = None
    vocab_size: int | None = None
    processor: Mapping[str, Any] | None = None
    eos: tuple[int, ...] = ()
    stateful: bool = False
    samples: int | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)


def read_samples(path: str | Path, partial: bool = False) -> tuple[Header, list[Sample]]:
    """Read a file of samples.

    Args:
        partial: accept a file that breaks off (to take up a run again).

    Raises:
        ValueError: not such a file, a broken line, a partial file, or samples without prompts.
    """
    file = Path(path)
    if not file.is_file():
        raise ValueError(f"no file {str(path)!r}; check the path")
    if file.suffix == ".parquet":
        return _read_parquet(file)
    return _read_lines(file, partial)


def write_samples(path: str | Path, header: Header, samples: Sequence[Sample]) -> None:
    """Write a complete file; ``.parquet`` by suffix, else JSON lines."""
    file = Path(path)
    if file.suffix == ".parquet":
        table = pa.Table.from_pylist([_fields(sample) for sample in samples], schema=SCHEMA)
        facts = json.dumps(_document(header))
        pq.write_table(table.replace_schema_metadata({FORMAT: facts}), str(file))
        return
    start_file(file, header)
    append_samples(file, samples)
    end_file(file, len(samples))


def start_file(path: Path, header: Header) -> None:
    """Begin a JSON-lines file that samples are appended to as they come."""
    path.write_text(json.dumps(_document(header)) + "\n")


def append_samples(path: Path, samples: Iterable[Sample]) -> None:
    """Append samples to a file that has begun."""
    with path.open("a") as file:
        file.writelines(json.dumps(_fields(sample)) + "\n" for sample in samples)


def end_file(path: Path, count: int) -> None:
    """Write the last line, which makes the file complete."""
    with path.open("a") as file:
        file.write(json.dumps({"end": True, "samples": count}) + "\n")


def _read_lines(path: Path, partial: bool) -> tuple[Header, list[Sample]]:
    lines = path.read_text().split("\n")
    whole = lines[:-1] if lines[-1] == "" or partial else lines
    if not whole:
        raise ValueError(f"{path} is empty; a file of samples begins with a header line")
    header = _header(path, _parse(path, 1, whole[0]))
    samples: list[Sample] = []
    count = header.samples
    for number, line in enumerate(whole[1:], start=2):
        record = _parse(path, number, line)
        if record.get("end") is True:
            count = record.get("samples")
            if number != len(whole):
                raise ValueError(f"{path}, line {number}: lines follow the last one; remove them")
            break
        samples.append(_sample(path, f"line {number}", record))
    if partial:
        return header, samples
    if count is None:
        raise ValueError(
            f"{path} is partial: it has {len(samples)} samples and no last line "
            '{"end": true, "samples": n}; let the run finish, or take it up again'
        )
    if count != len(samples):
        raise ValueError(
            f"{path} is partial: it should hold {count} samples and holds {len(samples)}"
        )
    return header, samples


def _read_parquet(path: Path) -> tuple[Header, list[Sample]]:
    try:
        table = pq.read_table(str(path))
    except (pa.ArrowInvalid, OSError) as error:
        raise ValueError(f"{path} is no readable Parquet file (cut off?): {error}") from error
    facts = (table.schema.metadata or {}).get(FORMAT.encode())
    if facts is None:
        raise ValueError(f"{path} has no {FORMAT!r} in its metadata; write the header there")
    header = _header(path, json.loads(facts))
    rows = table.to_pylist()
    samples = [_sample(path, f"row {i}", row) for i, row in enumerate(rows)]
    if header.samples is not None and header.samples != len(samples):
        raise ValueError(f"{path} is partial: it should hold {header.samples} samples")
    return header, samples


def _parse(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}, line {number} is no JSON ({error}); is it cut off?") from error
    if not isinstance(record, dict):
        raise ValueError(f"{path}, line {number} is {line[:40]!r}; each line is one JSON object")
    return record


def _header(path: Path, facts: Mapping[str, Any]) -> Header:
    if facts.get("format") != FORMAT or facts.get("version") != VERSION:
        raise ValueError(
            f"{path}: the header must say format {FORMAT!r} and version {VERSION}, it says "
            f"{facts.get('format')!r} and {facts.get('version')!r}"
        )
    known = {"model", "vocab_size", "processor", "stateful", "samples"}
    rest = {key: facts[key] for key in facts if key not in known | {"format", "version", "eos"}}
    eos = facts.get("eos") or ()
    return Header(
        **{key: facts[key] for key in known & set(facts)},
        eos=tuple([eos] if isinstance(eos, int) else eos),
        extra=rest,
    )


def _sample(path: Path, where: str, record: Mapping[str, Any]) -> Sample:
    if record.get("prompt") is None:
        raise ValueError(
            f"{path}, {where}: the prompt is missing; a sample can only be judged together with "
            'the token ids that were given ("prompt": [...], [] for none)'
        )
    if record.get("output") is None:
        raise ValueError(f'{path}, {where}: the output is missing ("output": [...])')
    lists = {name: record.get(name) or () for name in COLUMNS}
    for name, values in lists.items():
        if not all(type(value) is int for value in values):
            raise ValueError(f"{path}, {where}: {name} must list token ids or counts (integers)")
    try:
        return Sample(**{name: tuple(values) for name, values in lists.items()})
    except ValueError as error:
        raise ValueError(f"{path}, {where}: {error}") from error


def _fields(sample: Sample) -> dict[str, list[int]]:
    given = {name: list(getattr(sample, name)) for name in COLUMNS}
    return {name: values for name, values in given.items() if values or name in COLUMNS[:2]}


def _document(header: Header) -> dict[str, Any]:
    facts = {key: value for key, value in asdict(header).items() if value not in (None, ())}
    extra = facts.pop("extra")
    return {"format": FORMAT, "version": VERSION, **facts, **extra}
