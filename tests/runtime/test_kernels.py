"""Triton kernels without a GPU: run by Triton's interpreter, compiled ahead of time, and recorded.

Triton decides at import whether it interprets, so the interpreted tests (``kernels/``) run in
processes of their own.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("triton")

from gpu_runtime.device_checks.tapes import Case, random_rounds, same
from gpu_runtime.kernels import report
from gpu_runtime.kernels._record import Launch
from gpu_runtime.verify import KERNELS, get, has_kernel, kernel, verify_logits
from sim.verifiers import VERIFIERS
from theory import catalogue

FOLDER = Path(__file__).parent / "kernels"


@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("interpreted_*.py")))
def test_under_the_interpreter(name: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, "-W", "ignore::RuntimeWarning", str(FOLDER / f"{name}.py")],
        env=os.environ | {"TRITON_INTERPRET": "1"},
        cwd=FOLDER.parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]


def test_kernels_are_named_like_their_verifiers() -> None:
    faces = {entry.name for entry in catalogue.VERIFIERS if "kernel" in entry.faces}
    assert faces == set(KERNELS)
    with pytest.raises(ValueError, match="no kernel for 'typical'"):
        kernel("typical")


def launches() -> list[Launch]:
    """What a round launches, found on tensors without data: no result is read back."""
    return report.all_launches(gamma=3)


def test_no_host_synchronisation_within_a_round() -> None:
    names = {launch.name for launch in launches()}
    assert {"stats_kernel", "token_kernel", "layer_kernel", "beta_kernel", "draw_kernel"} <= names


@pytest.mark.slow
@pytest.mark.parametrize("arch", report.ARCHITECTURES)
def test_every_kernel_compiles_without_spills(arch: int, monkeypatch: Any, tmp_path: Path) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    lines = report.report(launches(), [arch])
    assert len(lines) >= 15
    for line in lines:
        assert line.spilled == 0, line
        assert 8 <= line.registers <= 255
        assert line.shared <= 48 * 1024


def test_a_spill_would_be_seen() -> None:
    text = "Function k:\n  REG:255 STACK:40 SHARED:16 LOCAL:0 CONSTANT[0]:576"
    assert report.spilled(text) == 40


def test_array_functions_serve_what_no_kernel_does() -> None:
    """On a CPU, in float64 and without drafts; by name, with the same verdicts."""
    for rule, drafts in (("token", 1), ("kseq", 2)):
        case = Case(rule, 6, num_drafts=drafts, batch=20)
        p, q, *rest = random_rounds(case, torch.Generator().manual_seed(0))
        assert not has_kernel(rule, p, q, rest[0])
        laws = [torch.log_softmax(part, dim=-1) for part in (p, q)]
        expected = VERIFIERS[rule].verify(*laws, *rest)
        assert same(get(rule).verify(*laws, *rest), expected).all()
        assert same(verify_logits(rule, p, q, *rest), expected).all()
        assert same(verify_logits(rule, p.bfloat16(), q.bfloat16(), *rest), expected).any()
    assert get("token").slots(3, 1) == 4
    with pytest.raises(ValueError, match="no array verifier"):
        get("tokne")


def test_a_kernel_is_chosen_by_device_dtype_and_shape() -> None:
    class Fake:
        is_cuda, dtype = True, torch.float32

        def numel(self) -> int:
            return 4

    class Double(Fake):
        dtype = torch.float64

    class Empty(Fake):
        def numel(self) -> int:
            return 0

    rows: Any = Fake()
    assert has_kernel("block", rows, rows, rows)
    assert not has_kernel("block", Double(), Double(), rows)  # type: ignore[arg-type]
    assert not has_kernel("block", rows, rows, Empty())  # type: ignore[arg-type]
    assert not has_kernel("typical", rows, rows, rows)
