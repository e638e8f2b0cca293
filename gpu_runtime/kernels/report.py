"""Compile every kernel for sm_80 and sm_90, without a device, and report what it uses.

    python -m gpu_runtime.kernels.report [--json] [--vocab 131072]

Registers and spills are read off the machine code, shared memory is the compiler's. The kernels are
those that one call of every verifier launches, found by ``_record``.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from gpu_runtime.kernels._record import ALIGNMENT, Launch, launches_of

ARCHITECTURES = (80, 90)
VOCAB = 131_072
DRAFTS = 4
"""Drafts of a round, for rules that take several."""


@dataclass(frozen=True)
class Usage:
    """What one compiled kernel uses: registers a thread, bytes spilled a thread (its stack, since
    kernels have no arrays), bytes of shared memory a program. ``variant`` names its constants."""

    kernel: str
    variant: str
    arch: int
    registers: int
    spilled: int
    shared: int


def all_launches(
    vocab: int = VOCAB, dtype: torch.dtype = torch.bfloat16, gamma: int = 7
) -> list[Launch]:
    """The different kernels that the verifiers launch, each once."""
    from gpu_runtime.verify import KERNELS, kernel
    from sim.verifiers import VERIFIERS

    found: dict[Any, Launch] = {}
    for name in KERNELS:
        rule = VERIFIERS[name]
        drafts = DRAFTS if rule.multi_draft else 1
        shape: dict[str, Any] = {"num_drafts": drafts, "gamma": gamma, "vocab": vocab}
        slots = rule.slots(gamma, drafts)
        for launch in launches_of(kernel(name), slots, batch=8, dtype=dtype, **shape):
            found.setdefault(launch.key, launch)
    return list(found.values())


def compiled(launch: Launch, arch: int) -> Any:
    """Triton's compilation of a launch for one architecture."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    names = launch.kernel.arg_names
    source = ASTSource(
        launch.kernel,
        dict(launch.signature),
        dict(launch.constants),
        {(names.index(name),): [["tt.divisibility", ALIGNMENT]] for name in launch.aligned},
    )
    options = {"num_warps": launch.warps, "enable_fp_fusion": True}
    return triton.compile(source, target=GPUTarget("cuda", arch, 32), options=options)


def usage(launch: Launch, arch: int) -> Usage:
    """Compile a launch and read what its machine code uses."""
    code = compiled(launch, arch)
    text = resource_usage(code.asm["cubin"])
    known = ("LANES", "TILE", "TILES", "CELLS", "K", "G")
    constants = dict(launch.constants)
    return Usage(
        launch.name,
        " ".join(f"{name}={constants[name]}" for name in known if name in constants),
        arch,
        _number("REG", text),
        spilled(text),
        int(code.metadata.shared),
    )


def resource_usage(cubin: bytes) -> str:
    """What Triton's ``cuobjdump`` says a kernel uses, such as ``REG:40 STACK:0 LOCAL:0``."""
    from triton import knobs

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "kernel.cubin")
        file.write_bytes(cubin)
        command = [knobs.nvidia.cuobjdump.path, "--dump-resource-usage", str(file)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def spilled(text: str) -> int:
    """Bytes a thread keeps outside registers."""
    return _number("STACK", text) + _number("LOCAL", text)


def _number(name: str, text: str) -> int:
    found = re.search(rf"\b{name}:(\d+)", text)
    if found is None:
        raise ValueError(f"the resource usage lacks {name}: {text!r}")
    return int(found[1])


def report(launches: Iterable[Launch], architectures: Iterable[int]) -> list[Usage]:
    """The usage of every launch on every architecture; the compiler runs on two threads."""
    jobs = [(launch, arch) for arch in architectures for launch in launches]
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(lambda job: usage(*job), jobs))


def main(arguments: list[str]) -> int:
    """Print the table; 1 if a kernel spills."""
    parser = argparse.ArgumentParser(prog="python -m gpu_runtime.kernels.report")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--vocab", type=int, default=VOCAB)
    parser.add_argument("--arch", type=int, action="append", choices=ARCHITECTURES)
    options = parser.parse_args(arguments)
    lines = report(all_launches(options.vocab), options.arch or ARCHITECTURES)
    if options.json:
        print(json.dumps([asdict(line) for line in lines]))
    else:
        print("arch  kernel            registers  spilled  shared  constants")
        for line in lines:
            numbers = f"{line.registers:9}  {line.spilled:7}  {line.shared:6}"
            print(f"sm_{line.arch} {line.kernel:17} {numbers}  {line.variant}")
    return int(any(line.spilled for line in lines))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
