"""Where a result comes from: versions, machine, arguments, commit."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = ("specproof", "numpy", "scipy", "python-flint", "torch", "triton", "transformers")


def provenance() -> dict[str, object]:
    """Facts to store beside a result, so that it can be repeated."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "arguments": sys.argv[1:],
        "commit": _commit(),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "system": platform.system(),
        "cpus": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
        "packages": {name: found for name in PACKAGES if (found := _version(name))},
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _commit() -> str | None:
    """The commit of the source tree, with ``+`` when it has uncommitted changes."""
    root = Path(__file__).resolve().parent.parent
    try:
        head = subprocess.run(
            ["git", "-C", str(root), "rev-parse", "HEAD"],
            capture_output=True,
            text=True,
            check=True,
        )
        dirty = subprocess.run(
            ["git", "-C", str(root), "status", "--porcelain"],
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return head.stdout.strip() + ("+" if dirty.stdout.strip() else "")
