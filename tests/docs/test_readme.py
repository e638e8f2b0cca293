"""Every command of the README runs, and says what it should."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", README, flags=re.DOTALL)
COMMANDS = [line for kind, block in BLOCKS if kind == "bash" for line in block.splitlines()]
OURS = [line for line in COMMANDS if line.startswith("specproof ")]
SETUP = [line for line in COMMANDS if not line.startswith("specproof ")]
NEEDS_MODEL = ("smollm2", "models fetch")


def run(arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(arguments, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(line, marks=pytest.mark.models)
        if any(n in line for n in NEEDS_MODEL)
        else line
        for line in OURS
    ],
)
def test_command(command: str, tmp_path: Path) -> None:
    arguments = [sys.executable, "-m", "papers_check.cli", *shlex.split(command)[1:]]
    done = run(arguments, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    for name in re.findall(r"\S+\.(?:svg|png)", command):
        assert (tmp_path / name).stat().st_size > 1000


def test_python_snippet(tmp_path: Path) -> None:
    (code,) = [block for kind, block in BLOCKS if kind == "python"]
    done = run([sys.executable, "-c", code], tmp_path)
    assert done.stdout.splitlines() == ["4/3 True 221/81 19/9", "2/3 11/16 11/16"]


def test_continuous_integration_runs_the_setup_commands() -> None:
    assert len(SETUP) == 2
    script = (ROOT / ".ci" / "run").read_text()
    for extras in ("'.[all,dev]'", "check --quick", "pytest", "-c constraints.txt"):
        assert extras in script
    assert all("pip install -c constraints.txt" in line for line in SETUP)


def test_a_broken_command_would_be_noticed(tmp_path: Path) -> None:
    broken = [
        sys.executable,
        "-m",
        "papers_check.cli",
        "exact",
        "--target",
        "1/3,1/3",
        "--draft",
        "1",
    ]
    done = run(broken, tmp_path)
    assert done.returncode == 2
    assert "sum to 2/3" in done.stderr
