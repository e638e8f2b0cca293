"""The device check in reduced form on a CPU: it runs, it says what it ran on, and it can fail."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from gpu_runtime import device_check
from gpu_runtime.device_checks import laws
from gpu_runtime.device_checks.pairs import SMALL, random_pair, transitions
from gpu_runtime.device_checks.tapes import Agreement

on_cpu = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
ROOT = Path(__file__).parents[2]


@on_cpu
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_reduced_run_on_a_cpu(tmp_path: Path) -> None:
    file = tmp_path / "check.json"
    assert device_check.main(["--reduced", "--output", str(file)]) == 0
    report = json.loads(file.read_text())
    assert set(device_check.PARTS) <= set(report)
    assert report["verdict"] is True
    assert report["reduced"] is True
    assert report["device"] == {"type": "cpu", "name": None, "kernels": "none"}
    assert report["provenance"]["packages"]["torch"] == torch.__version__
    for line in report["times"]["lines"]:
        assert line["kernel"] is None
        assert line["over_floor"] is None
        assert line["array"] > 0
    assert {line["name"] for line in report["lengths"]} == {"token", "kseq"}
    assert {line["gamma"] for line in report["prediction"]}
    assert all(line["exact_calls"] > 0 for line in report["prediction"])


@on_cpu
@pytest.mark.slow
def test_kernels_run_in_it_under_the_interpreter(tmp_path: Path) -> None:
    pytest.importorskip("triton")
    file = tmp_path / "check.json"
    command = [sys.executable, "-W", "ignore", "-m", "gpu_runtime.device_check", "--reduced"]
    done = subprocess.run(
        [*command, "--output", str(file), "--part", "tapes"],
        env=os.environ | {"TRITON_INTERPRET": "1"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(file.read_text())
    assert report["device"] == {"type": "cpu", "name": None, "kernels": "interpreter"}
    assert {line["wrong"] for line in report["tapes"]} == {0}


@on_cpu
def test_the_full_check_needs_a_device(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        device_check.main(["--output", str(tmp_path / "check.json")])
    assert "use --reduced" in capsys.readouterr().err


def test_a_failure_and_a_broken_part_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def disagree(*args: Any, **options: Any) -> Agreement:
        return Agreement(6, 0, 1)

    def explode(*args: Any) -> None:
        raise RuntimeError("no memory")

    monkeypatch.setattr(device_check.tapes, "agreement", disagree)
    monkeypatch.setitem(device_check.PARTS, "laws", explode)
    file = tmp_path / "check.json"
    parts = ["--part", "laws", "--part", "tapes"]
    assert device_check.main(["--reduced", "--output", str(file), *parts]) == 1
    report = json.loads(file.read_text())
    assert report["laws"] == {"error": "RuntimeError: no memory"}
    assert report["tapes"][0]["passed"] is False
    assert report["verdict"] is False


def test_a_faulty_rule_fails_the_law_check() -> None:
    mutant = laws.MUTANTS["residual_from_target"].verifier.verify
    rule = laws.VERIFIERS["token"]
    assert not laws.check_law("mutant", rule, mutant, 20_000, torch.device("cpu")).passed
    sound = laws.check_law("token", rule, rule.verify, 20_000, torch.device("cpu"))
    assert sound.passed
    assert sound.rounds > 2 * sound.generations


def test_the_random_pair_is_a_markov_chain() -> None:
    """What the prediction rests on: a row depends on one token, whatever came before."""
    for model in random_pair(SMALL, 12, torch.device("cpu")):
        chain = transitions(model)
        text = torch.randint(12, (1, 9), generator=torch.Generator().manual_seed(0))
        with torch.no_grad():
            rows = torch.softmax(model.model(text).logits[0].double(), dim=-1).numpy()
        assert abs(rows - chain[text[0]]).max() < 1e-6
        assert chain.max() < 0.999
