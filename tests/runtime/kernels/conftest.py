"""Wide programs for all interpreted tests: the interpreter's cost is per program, not per lane."""

import pytest

from gpu_runtime.kernels import _prefixes, _rho, _round

WIDE = 2**16


@pytest.fixture(autouse=True)
def _wide_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in (
        (_round, "ELEMENTS"),
        (_round, "LANES"),
        (_rho, "MOST_ELEMENTS"),
        (_prefixes, "MOST_ELEMENTS"),
    ):
        monkeypatch.setattr(module, name, WIDE)
