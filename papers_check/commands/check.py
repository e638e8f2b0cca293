"""``specproof check``: the main job."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from papers_check.claims import CLAIMS, Claim, Finding, certificates
from papers_check.crosscheck import Pair, Row, checked_verifiers, cross_check, rules_of
from papers_check.greedy import GreedyRow, greedy_rows
from papers_check.numbers import dumps
from papers_check.options import Count
from papers_check.pairs import smollm2_pair, table_pairs, tiny_pair
from papers_check.report import CheckReport, as_json, markdown
from papers_check.terminal import print_report
from sim.provenance import provenance

Say = Callable[[str], None]

SIMULATED = {True: 50_000, False: 400_000}
"""Simulated rounds a row, by ``quick``."""
TINY_DECODED = {True: 2_000, False: 20_000}
SMOLLM2_DECODED = {True: 150, False: 1_000}
SMOLLM2_TOKENS = {True: 12, False: 64}
"""Length of the greedy texts of SmolLM2."""


def check(
    *,
    quick: bool = False,
    seed: Count = 0,
    output: Path = Path("report"),
    json: bool = False,
) -> None:
    """Hold prediction, simulation and decoding against each other, and papers against the truth.

    Exit code 0 only if every row agrees and every claim has its recorded verdict. Writes
    OUTPUT.md, OUTPUT.json, and OUTPUT-certificates.json: the counter-examples to claims that fail,
    which ``python papers_check/recheck.py OUTPUT-certificates.json`` verifies on its own.

    Parameters
    ----------
    quick:
        Fewer rounds: minutes instead of a quarter of an hour.
    seed:
        Seed of everything random.
    output:
        Where the report goes, without a suffix.
    json:
        Print JSON instead of tables.
    """
    if not output.resolve().parent.is_dir():
        raise ValueError(f"cannot write {output}: {output.parent} is not a folder; make it first")
    console = Console(stderr=json)
    report = run(quick, seed, console)
    document = as_json(report)
    output.with_suffix(".md").write_text(markdown(report))
    output.with_suffix(".json").write_text(dumps(document) + "\n")
    proofs = [found.certificate for _, found in report.claims if found.certificate is not None]
    proofs_file = output.with_name(f"{output.with_suffix('').name}-certificates.json")
    proofs_file.write_text(certificates.document(proofs))
    if json:
        print(dumps(document))
    else:
        print_report(report, console)
        written = (output.with_suffix(".md"), output.with_suffix(".json"), proofs_file)
        console.print("written: " + ", ".join(map(str, written)))
    sys.exit(0 if report.passed else 1)


def run(quick: bool, seed: int, console: Console) -> CheckReport:
    """The cross-check, the greedy texts and the claims on the embedded models."""
    start = time.monotonic()
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=None)

        def say(text: str) -> None:
            progress.update(task, description=text)

        rows, claims = _computed(quick, seed, say)
        decoded_rows, greedy, notes = _decoded(quick, seed, say)
    seconds = time.monotonic() - start
    return CheckReport([*rows, *decoded_rows], greedy, claims, notes, provenance(), seconds)


def _computed(quick: bool, seed: int, say: Say) -> tuple[list[Row], list[tuple[Claim, Finding]]]:
    """What needs no network, in one process per core: tables and claims."""
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        rows = [
            pool.submit(cross_check, pair, rule, SIMULATED[quick], seed)
            for pair in table_pairs()
            for rule in rules_of(pair)
        ]
        findings = [pool.submit(_find, index) for index in range(len(CLAIMS))]
        jobs: list[Future[Any]] = [*rows, *findings]
        for done, _ in enumerate(as_completed(jobs)):
            say(f"tables and claims: {done} of {len(jobs)} done")
        claims = [(claim, job.result()) for claim, job in zip(CLAIMS, findings, strict=True)]
        return [row.result() for row in rows], claims


def _find(index: int) -> Finding:
    return CLAIMS[index].check()


def _decoded(quick: bool, seed: int, say: Say) -> tuple[list[Row], list[GreedyRow], list[str]]:
    """What needs a network: rows with decoding, greedy texts, and notes on what is missing."""
    try:
        import torch

        from gpu_runtime import zoo
    except ImportError as error:
        return [], [], [f"nothing was decoded: {error}; pip install 'specproof[all]'"]

    def cross(pair: Pair) -> list[Row]:
        rows = []
        for rule in rules_of(pair):
            say(f"{pair.name}: {rule}")
            rows.append(cross_check(pair, rule, SIMULATED[quick], seed))
        return rows

    say("tiny Llama: reading every row")
    rows = cross(tiny_pair(TINY_DECODED[quick], seed))
    greedy: list[GreedyRow] = []
    prompts = [[0], [1, 2, 0], [2, 2]]
    for dtype in (torch.float64, torch.float32):
        name = f"tiny Llama, {str(dtype).removeprefix('torch.')}"
        say(f"{name}: greedy texts")
        target = zoo.load("tiny", dtype=dtype, vocab=8)
        draft = zoo.load("tiny-draft", dtype=dtype, vocab=8)
        greedy += greedy_rows(target, draft, prompts, 4, 48, name, checked_verifiers())
    try:
        say("SmolLM2: loading (the first time it is fetched, 93 MB)")
        target, draft = zoo.load("smollm2"), zoo.load("smollm2-draft")
    except ValueError as error:
        return rows, greedy, [f"SmolLM2 was left out: {error}"]
    say("SmolLM2: reading every row below a prompt")
    pair = smollm2_pair(target, draft, SMOLLM2_DECODED[quick])
    rows += cross(pair)
    say("SmolLM2: greedy texts")
    texts = [target.encode(text) for text in zoo.humaneval_prompts(2)]
    name = "SmolLM2-135M, float32"
    greedy += greedy_rows(target, draft, texts, 4, SMOLLM2_TOKENS[quick], name, rules_of(pair))
    return rows, greedy, []
