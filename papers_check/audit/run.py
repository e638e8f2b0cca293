"""The run of an audit: samples in, rows along them, evidence out; interruptible at any point."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from papers_check.audit.targets import Target
from sim.losslessness import checkpoint
from sim.losslessness.eprocess import Audit
from sim.losslessness.greedy import GreedyAudit
from sim.losslessness.report import AuditResult, GreedyResult, greedy_result, result
from sim.losslessness.sample_files import (
    Header,
    append_samples,
    end_file,
    read_samples,
    start_file,
)
from sim.losslessness.samples import Sample, after_end, observe

Say = Callable[[int, str], None]
"""``say(samples done, what was found so far)``."""
Engine = Callable[[range], Sequence[Sample]]
"""Samples by number; the same number gives the same sample."""


def quiet(done: int, text: str) -> None:
    """Say nothing."""


@dataclass(frozen=True)
class Plan:
    """How samples are judged.

    Attributes:
        target: the law that they should follow.
        draft: the draft, if known: bets on its laws are then made too.
        level: probability of a false alarm.
        places: bet on places of the round (stateless rules whose rounds are known).
        eos: ids that end an output.
        state: file for the audit's state, or None.
        stop: stop once a fault is found.
    """

    target: Target
    draft: Target | None = None
    level: float = 1e-9
    places: bool = False
    eos: tuple[int, ...] = ()
    state: Path | None = None
    stop: bool = True


def judge(
    batches: Iterable[Sequence[Sample]], plan: Plan, mark: dict[str, Any], say: Say = quiet
) -> AuditResult:
    """Audit samples as they come; a saved state skips those that it has seen.

    Raises:
        ValueError: samples that cannot be judged, none at all, or the state of another audit.
    """
    audit, seen = Audit(plan.level, plan.places), 0
    mark = {**mark, "level": plan.level, "places": plan.places, "draft": plan.draft is not None}
    if plan.state is not None and plan.state.exists():
        audit, seen = checkpoint.load(plan.state, mark)
    done, note = 0, None
    for samples in batches:
        first = max(done, seen)
        fresh = samples[first - done :]
        done += len(samples)
        if not any(sample.output for sample in fresh):
            continue
        note = after_end(fresh, plan.eos, first)
        filled = [sample for sample in fresh if sample.output]
        drafts = None if plan.draft is None else plan.draft.log_rows(filled)
        audit.add(*observe(fresh, plan.target.log_rows(filled), drafts, first))
        if plan.state is not None:
            checkpoint.save(plan.state, audit, done, mark)
        say(done, f"log10 E {audit.log_e / np.log(10):+.2f}")
        if plan.stop and (audit.found or note):
            break
    if not audit.tokens and not audit.found:
        raise ValueError("there are no tokens to judge; give samples with outputs")
    return result(audit, note or "")


def judge_greedy(
    batches: Iterable[Sequence[Sample]],
    target: Target,
    dtype: str,
    ulps: float,
    eos: Sequence[int],
    say: Say = quiet,
) -> GreedyResult:
    """Audit a greedy engine.

    Raises:
        ValueError: samples that cannot be judged, or none at all.
    """
    audit, done, note = GreedyAudit(dtype, ulps), 0, None
    for samples in batches:
        note = note or after_end(samples, eos, done)
        filled = [i for i, sample in enumerate(samples) if sample.output]
        scores = target.scores([samples[i] for i in filled])
        for i, rows in zip(filled, scores, strict=True):
            tokens = np.array(samples[i].output)
            audit.update(rows, tokens, np.full(len(tokens), done + i), np.arange(len(tokens)))
        done += len(samples)
        say(done, f"{audit.counts['wrong']} wrong")
    if not audit.tokens:
        raise ValueError("there are no tokens to judge; give samples with outputs")
    return greedy_result(audit, done, note or "")


def in_batches(samples: Sequence[Sample], size: int) -> Iterator[Sequence[Sample]]:
    """Consecutive batches."""
    for start in range(0, len(samples), size):
        yield samples[start : start + size]


def sampled(
    engine: Engine, total: int, size: int, save: Path | None, header: Header
) -> Iterator[Sequence[Sample]]:
    """Samples of an engine, in batches; with ``save`` they are kept, and taken up from there.

    Raises:
        ValueError: the file to save to belongs to another run.
    """
    kept = [] if save is None else _taken_up(save, header)
    for start in range(0, total, size):
        batch = kept[start : start + size]
        missing = range(start + len(batch), min(start + size, total))
        if missing:
            fresh = engine(missing)
            if save is not None:
                append_samples(save, fresh)
            batch = [*batch, *fresh]
        yield batch
    if save is not None:
        end_file(save, max(total, len(kept)))


def _taken_up(save: Path, header: Header) -> list[Sample]:
    """The samples of a file that a run is taken up from; the file is open for more afterwards."""
    if save.suffix != ".jsonl":
        raise ValueError(f"samples are saved as they come to a .jsonl file, not {save.name!r}")
    if not save.exists():
        start_file(save, header)
        return []
    found, samples = read_samples(save, partial=True)
    if dataclasses.replace(found, samples=None) != header:
        raise ValueError(f"{save} holds the samples of another run; name another file")
    scratch = save.with_name(save.name + ".part")
    start_file(scratch, header)  # without a line that was cut off, or an earlier last line
    append_samples(scratch, samples)
    scratch.replace(save)
    return samples
