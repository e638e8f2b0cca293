"""Stopping rules, and the windows they make.

A *rule* answers ``rule(path, draft)``: does drafting end after ``path``? It is asked before every
draw, the first included, and may read

* the tokens of ``path``, and
* draft rows of prefixes of ``path``, up to the row that the next token would be drawn from.

Whatever it answers, {G = k} then depends on x_1..x_k alone: the window G is a stopping time, and
token and block verification stay lossless (``tests/exact/test_windows_lossless.py``). Ending a
block *before* a token because of that token's value is something else: ``theory.windows.peeking``.

Rules that estimate acceptance take an *estimator* (``theory.windows.estimators``). In exact
analysis the estimator may be the truth, for which the draft rows must also know the target rows:
:class:`Sight`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from theory.drafting import draw_path
from theory.effects import Effects
from theory.fields import Array
from theory.models import Prefix, Rows

Rule = Callable[[Prefix, Rows], bool]
"""``rule(path, draft)``: whether drafting ends after ``path``."""


@dataclass(frozen=True)
class Stopping:
    """The window of a rule: draft until the rule ends it, or the cap does."""

    rule: Rule

    def __call__(self, fx: Effects, draft: Rows, cap: int, k: int) -> Prefix:
        return draw_path(fx, draft, lambda path: self.rule(path, draft), cap, k)


@dataclass(frozen=True)
class Sight:
    """Draft rows that carry the target rows of the same context, for estimators that are exact."""

    draft: Rows
    target: Rows

    def __call__(self, path: Prefix) -> Array:
        return self.draft(path)


@dataclass(frozen=True)
class Ending:
    """A rule bound to a round: whether drafting ends after a path, by the rule or by the cap."""

    rule: Rule
    draft: Rows
    cap: int

    def __call__(self, path: Prefix) -> bool:
        return len(path) >= self.cap or self.rule(path, self.draft)
