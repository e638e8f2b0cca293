"""Models: which next-token law follows which prefix.

A model answers ``row(prefix)`` for any prefix of tokens. ``TableModel`` lists rows prefix by
prefix, ``MarkovModel`` looks at the last ``order`` tokens, and ``RowTree`` holds every row up to
a depth as arrays, level by level, which is what the closed forms work on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from theory.fields import EXACT, FLOAT, Array, Field, get_field
from theory.inputs import whole
from theory.laws import as_row
from theory.row_maps import rows_by_prefix, vocabulary

Prefix = tuple[int, ...]
Rows = Callable[[Prefix], Array]
"""Next-token laws seen from some committed prefix: ``rows(())`` is the law right after it."""

TREE_BYTES = 8 * 2**30
"""Largest row tree that is allocated without asking (bytes)."""


KEYS = {"table": ("rows", "default"), "markov": ("initial", "transition", "order")}
"""What describes a model of each kind; the first is always there."""


class Model(Protocol):
    """Anything that gives a next-token law for every prefix."""

    @property
    def vocab(self) -> int: ...

    @property
    def field(self) -> Field: ...

    def row(self, prefix: Prefix) -> Array: ...


def rows_after(model: Model, prefix: Prefix) -> Rows:
    """The model's rows as seen from ``prefix``."""
    return lambda path: model.row(prefix + path)


class TableModel:
    """Rows listed by prefix (keys: token tuples, or strings such as ``"0 1"``, ``""`` = root).

    Prefixes that are not listed get ``default``, or an error naming the prefix.

    Raises:
        ValueError: an invalid row, rows of different lengths, a token outside the vocabulary.
    """

    def __init__(
        self,
        rows: Mapping[Any, Any],
        default: Any = None,
        field: Field | str = EXACT,
    ) -> None:
        self.field = get_field(field)
        self._rows = rows_by_prefix(rows, self.field, "row")
        self._default = None if default is None else as_row(default, self.field, "default row")
        known = [*self._rows.values(), *([] if self._default is None else [self._default])]
        self.vocab = vocabulary(known, self._rows)

    def row(self, prefix: Prefix) -> Array:
        """The law after ``prefix``.

        Raises:
            ValueError: no row and no default for this prefix.
        """
        row = self._rows.get(tuple(prefix), self._default)
        if row is None:
            raise ValueError(f"no row after prefix {list(prefix)}; list it or give a default row")
        return row


class MarkovModel:
    """Rows that depend on the last ``order`` tokens.

    Args:
        initial: row of the empty prefix (order 1), or a mapping with the row of every prefix
            shorter than ``order``; for order 0 the one row used everywhere.
        transition: nested sequence of shape ``[V] * order + [V]``; omitted for order 0.
        order: number of tokens looked at.
    """

    def __init__(
        self,
        initial: Any,
        transition: Any = None,
        order: int = 1,
        field: Field | str = EXACT,
    ) -> None:
        self.field = get_field(field)
        self.order = whole(order, "order", 0) if transition is not None else 0
        starts = initial if isinstance(initial, Mapping) else {(): initial}
        self._initial = rows_by_prefix(starts, self.field, "initial row")
        if () not in self._initial:
            raise ValueError("initial: the row of the empty prefix is missing")
        self.vocab = vocabulary(self._initial.values(), self._initial)
        if self.order == 0:
            if transition is not None:
                raise ValueError("order 0 looks at no token; leave the transition out")
            self.transition = self._initial[()]
            return
        table = np.asarray(transition, dtype=object)
        if table.ndim != self.order + 1 or {*table.shape} != {self.vocab}:
            raise ValueError(
                f"transition has shape {table.shape}; order {self.order} over {self.vocab} tokens "
                f"needs {self.order + 1} axes of length {self.vocab}"
            )
        flat = table.reshape(-1, self.vocab)
        rows = [as_row(row, self.field, f"transition row {i}") for i, row in enumerate(flat)]
        self.transition = np.stack(rows).reshape(table.shape)

    def row(self, prefix: Prefix) -> Array:
        """The law after ``prefix``."""
        if self.order == 0:
            return np.asarray(self.transition)
        if len(prefix) >= self.order:
            return np.asarray(self.transition[tuple(prefix[len(prefix) - self.order :])])
        row = self._initial.get(tuple(prefix))
        if row is None:
            raise ValueError(f"initial: no row for the short prefix {list(prefix)}")
        return row


@dataclass(frozen=True)
class RowTree:
    """All rows up to a depth: ``levels[i]`` has shape ``[V**i, V]``.

    Row ``n`` of level ``i`` follows the prefix whose base-V digits are ``n``, first token most
    significant; so ``levels[i].reshape(-1)`` lines up with the rows of level ``i + 1``.
    """

    levels: tuple[Array, ...]

    @property
    def vocab(self) -> int:
        return int(self.levels[0].shape[-1])

    @property
    def depth(self) -> int:
        return len(self.levels)

    @property
    def field(self) -> Field:
        return EXACT if self.levels[0].dtype == object else FLOAT

    def row(self, prefix: Prefix) -> Array:
        """The law after ``prefix``.

        Raises:
            ValueError: the prefix is as long as the tree is deep.
        """
        if len(prefix) >= self.depth:
            raise ValueError(f"prefix {list(prefix)} is beyond the tree's depth {self.depth}")
        index = 0
        for token in prefix:
            index = index * self.vocab + token
        return np.asarray(self.levels[len(prefix)][index])

    @staticmethod
    def of(model: Model, depth: int, prefix: Prefix = ()) -> RowTree:
        """Tabulate ``model`` below ``prefix``: levels 0 to ``depth - 1``.

        Raises:
            ValueError: the tree would take more than ``TREE_BYTES``; the message says how much.
        """
        vocab = model.vocab
        entries = sum(vocab**i for i in range(1, depth + 1))
        need = entries * (8 if model.field is FLOAT else 100)
        if need > TREE_BYTES:
            raise ValueError(
                f"a row tree of depth {depth} over {vocab} tokens needs {need / 2**30:.3g} GiB; "
                "lower the depth, use the Markov closed forms, an enclosure, or Monte Carlo (sim)"
            )
        levels = []
        for level in range(depth):
            short = len(prefix) + level < getattr(model, "order", level + len(prefix) + 1)
            if isinstance(model, MarkovModel) and not short and not prefix:
                known = model.transition.reshape(-1, vocab)
                levels.append(np.tile(known, (vocab**level // len(known), 1)))
                continue
            prefixes = np.ndindex(*(vocab,) * level)
            levels.append(np.stack([model.row(prefix + tuple(path)) for path in prefixes]))
        return RowTree(tuple(levels))


def check_pair(target: Model, draft: Model) -> None:
    """Check that two models can be compared.

    Raises:
        ValueError: different vocabularies or fields.
    """
    if target.vocab != draft.vocab:
        raise ValueError(
            f"target has {target.vocab} tokens, draft has {draft.vocab}; "
            "extend the smaller draft rows with zeros"
        )
    if target.field != draft.field:
        raise ValueError(
            f"target is {target.field.name}, draft is {draft.field.name}; give both the same field"
        )


def load_model(source: str | Path | Mapping[str, Any], field: Field | str = EXACT) -> Model:
    """A model from a JSON file, a parsed JSON object, or a bare row such as ``"1/3,2/3"``.

    Formats: ``{"kind": "table", "rows": {"": [...], "0 1": [...]}, "default": [...]}`` and
    ``{"kind": "markov", "order": 1, "initial": [...], "transition": [...]}``.

    Raises:
        ValueError: a file that does not exist, is not JSON, or describes no model.
    """
    data = source if isinstance(source, Mapping) else _parsed(source)
    if not isinstance(data, Mapping):
        return MarkovModel(data, field=field)
    kind = data.get("kind")
    if not isinstance(kind, str) or kind not in KEYS:
        raise ValueError(f"model kind {kind!r} is unknown; use 'table' or 'markov'")
    if KEYS[kind][0] not in data or set(data) - {"kind", *KEYS[kind]}:
        raise ValueError(f"a {kind} model has {KEYS[kind]}, the first always; got {sorted(data)}")
    if kind == "table":
        return TableModel(data["rows"], data.get("default"), field)
    order = whole(data.get("order", 1 if "transition" in data else 0), "order", 0)
    if order and data.get("transition") is None:
        raise ValueError(f"a Markov model of order {order} needs its 'transition'")
    return MarkovModel(data["initial"], data.get("transition"), order, field)


def _parsed(source: str | Path) -> Any:
    """The row that a text writes, or what the file of that name holds."""
    text = str(source)
    if isinstance(source, str) and not text.endswith(".json"):
        if "," in text:
            return text
        with suppress(ValueError, ZeroDivisionError):
            return [Fraction(text)]  # a law over one token
    try:
        data = json.loads(Path(text).read_text(encoding="utf-8"), parse_float=str)
    except (FileNotFoundError, IsADirectoryError) as error:
        raise ValueError(
            f"{text!r} is neither a file nor a row such as '1/3,2/3'; check the path"
        ) from error
    except OSError as error:
        raise ValueError(f"{text!r} cannot be read ({error.strerror})") from error
    except ValueError as error:  # of JSON, or of its text
        raise ValueError(f"{text}: not valid JSON ({error})") from error
    if not isinstance(data, Mapping):
        raise ValueError(f"{text}: expected a JSON object with a 'kind', found {data!r:.40}")
    return data


def as_model(source: Any, field: Field | str, role: str) -> Model:
    """``source`` if it is a model already, else what :func:`load_model` or a row makes of it.

    Raises:
        ValueError: not a model; the message begins with ``role`` ("target", "draft").
    """
    if hasattr(source, "row") and hasattr(source, "vocab"):
        return source  # type: ignore[no-any-return]
    try:
        if isinstance(source, (str, Path, Mapping)):
            return load_model(source, field)
        return MarkovModel(source, field=field)
    except ValueError as error:
        raise ValueError(f"{role}: {error}") from error


def prefixes(vocab: int, length: int) -> Sequence[Prefix]:
    """All prefixes of one length, in the row order of ``RowTree``."""
    return [tuple(int(t) for t in path) for path in np.ndindex(*(vocab,) * length)]
