"""``specproof audit``: is an engine lossless?"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cyclopts import App
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from papers_check.audit.run import Plan, Say, in_batches, judge, judge_greedy, sampled
from papers_check.audit.setup import Judging, LiveSettings, engine_of, target_of
from papers_check.audit.show import (
    complete,
    draw,
    mutant_document,
    print_audit,
    print_greedy,
    print_mutants,
)
from papers_check.audit.targets import Target, check_header
from papers_check.numbers import dumps
from sim.losslessness.report import AuditResult, GreedyResult
from sim.losslessness.sample_files import Header, read_samples
from sim.losslessness.samples import Sample
from sim.mutants import MUTANTS
from sim.mutants.table import table
from sim.provenance import provenance

audit = App(name="audit", help="Is an engine lossless? From samples or live, with an error rate.")

BATCH, SMALL_BATCH, SMALL_VOCABULARY = 8, 250, 1000
"""Samples drawn and judged at once: a large vocabulary needs a small batch."""


@audit.command
def samples(
    file: Path,
    /,
    *,
    target: str,
    draft: str | None = None,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    min_p: float = 0.0,
    greedy: bool = False,
    judging: Judging = Judging(),  # noqa: B008
) -> None:
    """Judge a file of samples (JSON lines or Parquet; sim/losslessness/sample_files.py).

    Exit code 0 if nothing is found, 1 if the engine is not lossless, 2 for samples that cannot be
    judged (a partial file, another tokenizer, missing prompts, other settings).

    Parameters
    ----------
    file:
        The samples.
    target:
        What they should follow: a model file, a row, or a model by alias, name or folder.
    draft:
        The draft model, if known: faults that favour drafts are then found sooner.
    temperature:
        The engine's temperature.
    top_k:
        The engine's top-k; 0 is off.
    top_p:
        The engine's top-p; 1 is off.
    min_p:
        The engine's min-p; 0 is off.
    greedy:
        Judge a greedy engine: is every token the target's choice?
    """
    header, found = read_samples(file)
    chosen = (1.0 if greedy else temperature, top_k, top_p, min_p)
    law = target_of(target, chosen, judging)
    beside = None if draft is None or greedy else target_of(draft, chosen, judging, law)
    if not greedy:
        check_header(header, law)
    mark = {"file": file.name, "samples": len(found), "target": law.name}
    batches = in_batches(found, _batch(law))
    _audit(batches, len(found), law, beside, greedy, header, judging, mark)


@audit.command
def run(
    *,
    live: LiveSettings = LiveSettings(),  # noqa: B008
    prompt: list[str] | None = None,
    samples: int = 64,
    use_draft: bool = True,
    save: Path | None = None,
    judging: Judging = Judging(),  # noqa: B008
) -> None:
    """Run an engine and judge what it samples.

    Parameters
    ----------
    prompt:
        A text; repeat the option for several. Default: HumanEval prompts, or 0 for a tiny model.
    samples:
        Outputs asked for; the prompts take turns.
    use_draft:
        Let the audit see the draft's rows too.
    save:
        .jsonl file that keeps the samples as they come; a run is taken up from it.
    """
    built = engine_of(live, judging, prompt)
    header = live.header(built.target)
    size = _batch(built.target)
    batches = sampled(built.engine, samples, size, save, header)
    beside = built.draft if use_draft else None
    greedy = live.temperature == 0
    mark = {**live.facts(), "prompt": prompt, "samples": samples}
    _audit(batches, samples, built.target, beside, greedy, header, judging, mark)


@audit.command
def mutants(*names: str, seed: int = 0, json: bool = False) -> None:
    """Which test sees which fault: the library's tests, and designs of public test-suites.

    Exit code 0 only if every fault is found by the tests that have to find it.

    Parameters
    ----------
    names:
        Mutants to show; default all.
    seed:
        Seed of the samples.
    json:
        Print JSON instead of tables.
    """
    console = Console(stderr=json)
    chosen = names or tuple(MUTANTS)
    with progress(console, len(chosen)) as say:
        done = iter(range(len(chosen)))
        lines = table(chosen, seed, lambda name: say(next(done), name))
    if json:
        print(dumps(mutant_document(lines)))
    else:
        print_mutants(lines, console)
    sys.exit(0 if complete(lines) else 1)


def _batch(target: Target) -> int:
    return SMALL_BATCH if target.vocab_size <= SMALL_VOCABULARY else BATCH


def _audit(
    batches: Iterable[Sequence[Sample]],
    total: int,
    target: Target,
    draft: Target | None,
    greedy: bool,
    header: Header,
    judging: Judging,
    mark: dict[str, Any],
) -> None:
    """Judge, show the outcome, and exit with its code."""
    console = Console(stderr=judging.json)
    ends = header.eos or target.eos
    places = judging.places and not header.stateful
    plan = Plan(
        target, draft, judging.level, places, ends, judging.state, stop=not judging.keep_going
    )
    found: AuditResult | GreedyResult
    with progress(console, total) as say:
        if greedy:
            found = judge_greedy(batches, target, judging.dtype, judging.ulps, ends, say)
        else:
            found = judge(batches, plan, mark, say)
    if judging.picture is not None and isinstance(found, AuditResult):
        draw(found, judging.picture)
    if judging.json:
        print(dumps({**found.document(), "provenance": provenance()}))
    elif isinstance(found, AuditResult):
        print_audit(found, console)
    else:
        print_greedy(found, console)
    sys.exit(0 if found.lossless else 1)


@contextmanager
def progress(console: Console, total: int) -> Iterator[Say]:
    """A progress line with what was found so far."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=total)
        yield lambda done, text: bar.update(task, completed=done, description=text)
