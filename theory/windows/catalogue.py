"""The windows by name, with their sources; each is a module ``theory/windows/<name>.py``.

Every rule here is a stopping time, so every lossless verifier that takes one draft stays lossless
(greedy block: if it is told the rule). A runtime window of the same name lives in
``gpu_runtime/windows/<name>.py``, where there is one.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from theory.catalogue import lookup
from theory.windows.rule import Rule


@dataclass(frozen=True)
class WindowEntry:
    """One window: its name, what it does in one line, and where it comes from."""

    name: str
    summary: str
    paper: str

    @property
    def factory(self) -> Callable[..., Rule]:
        """``rule(**params)`` of its module."""
        module = importlib.import_module(f"theory.windows.{self.name}")
        factory: Callable[..., Rule] = module.rule
        return factory

    @property
    def params(self) -> dict[str, Any]:
        """Its parameters and their defaults; ``inspect.Parameter.empty`` where one is required."""
        return {
            name: parameter.default
            for name, parameter in inspect.signature(self.factory).parameters.items()
        }

    @property
    def faces(self) -> dict[str, str]:
        """The modules that implement it, by layer."""
        faces = {"theory": f"theory.windows.{self.name}"}
        package = find_spec("gpu_runtime")  # its modules are looked up as files: they need torch
        for folder in (package and package.submodule_search_locations) or ():
            if (Path(folder) / "windows" / f"{self.name}.py").is_file():
                faces["runtime"] = f"gpu_runtime.windows.{self.name}"
        return faces


WINDOWS: tuple[WindowEntry, ...] = (
    WindowEntry(
        "fixed",
        "gamma tokens a round",
        "Leviathan et al. 2023 (2211.17192)",
    ),
    WindowEntry(
        "heuristic",
        "gamma tokens a round; gamma grows by 2 when all were accepted, else shrinks by 1",
        "Hugging Face transformers, assisted generation",
    ),
    WindowEntry(
        "confidence",
        "stop after a token of low draft probability",
        "Hugging Face transformers, llama.cpp",
    ),
    WindowEntry(
        "svip",
        "stop after a token from a row of high entropy",
        "Zhang et al. 2024 (2411.18462)",
    ),
    WindowEntry(
        "adaedl",
        "stop before a row whose entropy bounds its acceptance too low; threshold controlled",
        "Agrawal et al. 2024 (2410.18351)",
    ),
    WindowEntry(
        "specdecpp",
        "stop once the estimated probability of some rejection is high",
        "Huang et al. 2024 (2405.19715)",
    ),
    WindowEntry(
        "pacer",
        "draft in blocks; stop after one of low mean estimated acceptance, ever more strictly",
        "Zhang et al. 2026 (2602.01274)",
    ),
    WindowEntry(
        "optimal",
        "stop once running survival no longer pays the next block at the long-run rate",
        "derived here",
    ),
)


def window(name: str) -> WindowEntry:
    """The entry of a window.

    Raises:
        ValueError: unknown name; the message suggests the nearest.
    """
    lookup(name, tuple(entry.name for entry in WINDOWS), "window")
    return next(entry for entry in WINDOWS if entry.name == name)


def load_rule(name: str, **params: Any) -> Rule:
    """The stopping rule of a window by name.

    Raises:
        ValueError: unknown name or parameter, a missing one, or a value outside its range.
    """
    entry = window(name)
    known = entry.params
    missing = [key for key, default in known.items() if default is inspect.Parameter.empty]
    if set(params) - set(known) or set(missing) - set(params):
        raise ValueError(
            f"window {name!r} takes {sorted(known)} and needs {missing}; got {sorted(params)}: "
            "load_rule(name, setting=...) makes a rule, Stopping(rule) its window"
        )
    return entry.factory(**params)
