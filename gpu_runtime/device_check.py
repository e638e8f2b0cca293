"""Everything on one device, in one script: correctness, lengths, times, speed; one JSON file.

    python -m gpu_runtime.device_check --output FILE.json [--reduced] [--part NAME ...]

Where there is a CUDA device the kernels run on it, at full size in under eight minutes. Without one
only ``--reduced`` runs: on the CPU, with kernels under Triton's interpreter if ``TRITON_INTERPRET``
is 1, else with the array functions; it says so, and its times are times of the CPU. The file is
written after every part, so an interrupted run leaves what it has.

Exit code 0: every law, tape and length held and every mutant was found. Times have no verdict.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import Any

import torch

from gpu_runtime.device_checks import costs, laws, lengths, speed, tapes
from gpu_runtime.device_checks.pairs import LARGE, SMALL
from gpu_runtime.verify import KERNELS, kernel, verify, verify_logits
from sim.provenance import provenance
from sim.verifiers import VERIFIERS, Verdict
from theory.catalogue import VERIFIERS as VERIFIER_ENTRIES

TIME_LIMIT = 440.0
"""Seconds after which no further part starts."""
GENERATIONS, ARRAY_GENERATIONS, MUTANT_GENERATIONS = 2_500_000, 500_000, 300_000
"""By rule with a kernel, other rule, and mutant. A generation takes more than two rounds, so four
rules with a kernel verify more than twenty million."""


@dataclass(frozen=True)
class Where:
    """device: what runs. kernels: "cuda", "interpreter", or "none" (array functions)."""

    device: torch.device
    kernels: str
    reduced: bool

    def rule(self, name: str, logits: bool) -> Callable[..., Verdict]:
        """The implementation of a rule that is checked here, on logits or on log laws."""
        if self.kernels == "none":
            return partial(verify_logits if logits else verify, name)
        return partial(kernel(name), logits=logits)

    def size(self, full: int, reduced: int) -> int:
        return reduced if self.reduced else full


def find_device(reduced: bool) -> Where:
    """Where to run.

    Raises:
        ValueError: the full check without a CUDA device.
    """
    if torch.cuda.is_available():
        return Where(torch.device("cuda", torch.cuda.current_device()), "cuda", reduced)
    if not reduced:
        raise ValueError("no CUDA device is available; use --reduced for a check on the CPU")
    interpreted = os.environ.get("TRITON_INTERPRET") == "1" and find_spec("triton") is not None
    return Where(torch.device("cpu"), "interpreter" if interpreted else "none", True)


def check_tapes(where: Where) -> list[dict[str, Any]]:
    """Kernels against float64 array functions, decision by decision."""
    generator = torch.Generator(where.device).manual_seed(0)
    found = []
    for case in tape_cases(where.reduced):
        outcome = tapes.agreement(case, where.rule(case.rule, True), generator)
        found.append({"case": case.label, **asdict(outcome), "passed": outcome.wrong == 0})
    return found


def tape_cases(reduced: bool) -> list[tapes.Case]:
    """Every rule with a kernel, over vocabularies up to 256k, all dtypes, several rounds."""
    found = []
    for rule in KERNELS:
        rounds, drafts = 3 if VERIFIERS[rule].stateful else 1, _drafts(rule, 3)
        case = tapes.Case(rule, 50, 2, drafts, batch=6, rounds=rounds)
        if reduced:
            found.append(case)
            continue
        case = case._replace(gamma=4)
        for dtype in (torch.float32, torch.bfloat16, torch.float16):
            found.append(case._replace(vocab=1025, batch=512, dtype=dtype))
            found.append(case._replace(vocab=262_144, batch=16, dtype=dtype))
        for vocab in (32_768, 131_072, 151_936):
            found.append(case._replace(vocab=vocab, batch=16, dtype=torch.bfloat16))
    return found


def _drafts(rule: str, several: int) -> int:
    return several if VERIFIERS[rule].multi_draft else 1


def lossless_rules() -> list[str]:
    """Lossless rules for drafts drawn independently, those with a kernel first."""
    known = [
        entry.name
        for entry in VERIFIER_ENTRIES
        if entry.lossless and entry.drafts in ("one", "iid") and entry.name in VERIFIERS
    ]
    return [*KERNELS, *(name for name in known if name not in KERNELS)]


def check_laws(where: Where) -> list[dict[str, Any]]:
    """Losslessness and exact lengths."""
    found = []
    for name in lossless_rules():
        full = GENERATIONS if name in KERNELS else ARRAY_GENERATIONS
        run = where.rule(name, False) if name in KERNELS else VERIFIERS[name].verify
        count = where.size(full, 300)
        found.append(facts(laws.check_law(name, VERIFIERS[name], run, count, where.device)))
    return found


def check_mutants(where: Where) -> list[dict[str, Any]]:
    """Faulty rules; a reduced run looks at whether they run, not at whether they are found."""
    count = where.size(MUTANT_GENERATIONS, 300)
    outcomes = laws.check_mutants(count, where.device)
    return [facts(found) | {"passed": found.rejected or where.reduced} for found in outcomes]


def check_lengths(where: Where) -> list[dict[str, Any]]:
    rules = lossless_rules() if not where.reduced else ["token", "kseq"]
    return [facts(x) for x in lengths.check_lengths(rules, where.size(4000, 60), where.device)]


def measure_times(where: Where) -> dict[str, Any]:
    """Kernel times and the rate of a plain copy, their other yardstick."""
    shapes = costs.REDUCED if where.reduced else costs.FULL
    copied = costs.copy_rate(where.device, where.size(2**32, 2**24))
    lines = [facts(line) for line in costs.measure(shapes, where.device)]
    return {"copied_bytes_per_second": copied, "lines": lines}


def predict(where: Where) -> list[dict[str, Any]]:
    plan = speed.Plan(8, 4, 1) if where.reduced else speed.Plan(320, 64, 6)
    size, vocab = (SMALL, 16) if where.reduced else (LARGE, 256)
    gammas = (2,) if where.reduced else (3, 7)
    return [facts(x) for x in speed.predict(size, vocab, gammas, plan, where.device)]


def contest(where: Where) -> list[dict[str, Any]]:
    size, vocab = (SMALL, 64) if where.reduced else (LARGE, 32_768)
    tokens, turns = where.size(128, 4), where.size(4, 1)
    return [facts(x) for x in speed.contest(size, vocab, 5, tokens, turns, where.device)]


PARTS: dict[str, Callable[[Where], Any]] = {
    "tapes": check_tapes,
    "laws": check_laws,
    "mutants": check_mutants,
    "lengths": check_lengths,
    "times": measure_times,
    "prediction": predict,
    "speed": contest,
}


def facts(found: Any) -> dict[str, Any]:
    """The fields of a dataclass and its properties."""
    names = [name for name, part in vars(type(found)).items() if isinstance(part, property)]
    return asdict(found) | {name: getattr(found, name) for name in names}


def holds(found: Any) -> bool:
    """Whether every entry that has a verdict passed; a part that broke has not."""
    if isinstance(found, dict):
        return "error" not in found
    return all(entry.get("passed", True) for entry in found)


def describe(where: Where) -> dict[str, Any]:
    """The device; a CPU is never described as anything else."""
    if where.device.type != "cuda":
        return {"type": "cpu", "name": None, "kernels": where.kernels}
    properties = torch.cuda.get_device_properties(where.device)
    return {
        "type": "cuda",
        "name": properties.name,
        "capability": f"{properties.major}.{properties.minor}",
        "multiprocessors": properties.multi_processor_count,
        "memory": properties.total_memory,
        "cuda": torch.version.cuda,
        "kernels": where.kernels,
    }


def run(where: Where, names: Sequence[str], output: Path) -> dict[str, Any]:
    """Run parts and write the file after each."""
    began = perf_counter()
    report: dict[str, Any] = {
        "provenance": provenance(),
        "device": describe(where),
        "reduced": where.reduced,
        "seconds": {},
    }
    for name in names:
        start = perf_counter()
        if start - began > TIME_LIMIT:
            report[name] = {"error": f"not started after {TIME_LIMIT:.0f} s"}
            continue
        try:
            report[name] = PARTS[name](where)
        except Exception as error:  # the other parts are still worth having
            report[name] = {"error": f"{type(error).__name__}: {error}"}
        report["seconds"][name] = perf_counter() - start
        report["verdict"] = all(holds(report[done]) for done in names if done in report)
        output.write_text(json.dumps(report, indent=1, default=_plain), encoding="utf-8")
        print(f"{name}: {'ok' if holds(report[name]) else 'FAILED'}", flush=True)
    return report


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else str(value)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m gpu_runtime.device_check")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--reduced", action="store_true", help="small sizes; also on a CPU")
    parser.add_argument("--part", action="append", choices=list(PARTS), help="default: all")
    options = parser.parse_args(arguments)
    try:
        where = find_device(options.reduced)
    except ValueError as error:
        parser.error(str(error))
    report = run(where, options.part or list(PARTS), options.output)
    total = math.fsum(report["seconds"].values())
    print(f"{describe(where)['type']}, kernels: {where.kernels}; {total:.0f} s; {options.output}")
    return 0 if report["verdict"] else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
