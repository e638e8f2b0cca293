"""The catalogue: every algorithm with its paper, its kind, and where its faces live.

Faces follow one convention, so nothing needs registering twice: the verifier ``name`` is

* an exact program in ``theory/verifiers/<name>.py``,
* an array function in ``sim/verifiers/<name>.py``,
* a Triton kernel in ``gpu_runtime/kernels/<name>.py``, where it has one.

``specproof list``, the contract tests and the explorer read this table.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, Literal

Kind = Literal["lossless", "lossy", "biased"]
"""lossless: output law = target's; lossy: equals a declared other law; biased: claimed lossless
in print, but is not."""

Drafts = Literal["one", "iid", "without_replacement", "tree", "point_mass"]
"""How the drafts of a round are drawn: one path; K i.i.d. paths; K distinct first tokens; a tree
with fresh children at each node; a deterministic tree."""


@dataclass(frozen=True)
class Verifier:
    """One verification rule.

    Attributes:
        name: the name used everywhere.
        kind: see :data:`Kind`.
        drafts: see :data:`Drafts`.
        stateful: whether it hands a carry to later rounds.
        summary: what it does, in one line.
        paper: where it comes from.
        params: its parameters with their defaults.
    """

    name: str
    kind: Kind
    drafts: Drafts
    stateful: bool
    summary: str
    paper: str
    params: dict[str, Any] = field(default_factory=dict)

    @property
    def lossless(self) -> bool:
        return self.kind == "lossless"

    @property
    def faces(self) -> dict[str, str]:
        """The modules that implement it, by layer."""
        places = {
            "theory": f"theory.verifiers.{self.name}",
            "sim": f"sim.verifiers.{self.name}",
            "kernel": f"gpu_runtime.kernels.{self.name}",
        }
        return {face: place for face, place in places.items() if _exists(place)}


def _exists(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


VERIFIERS: tuple[Verifier, ...] = (
    Verifier(
        "token",
        "lossless",
        "one",
        False,
        "keep each token with min(1, p/q), correct from norm((p - q)_+)",
        "Leviathan et al. 2023 (2211.17192); Chen et al. 2023 (2302.01318)",
    ),
    Verifier(
        "block",
        "lossless",
        "one",
        False,
        "keep the longest prefix that passes on its clipped running ratio",
        "Sun et al. 2024 (2403.10444)",
    ),
    Verifier(
        "greedy_block",
        "lossless",
        "one",
        True,
        "keep each node with mass min(P, Q); later targets are modified",
        "Sun et al. 2024 (2403.10444), appendix",
    ),
    Verifier(
        "kseq",
        "lossless",
        "iid",
        False,
        "try K drafts in turn with min(1, p/(rho q)), position by position",
        "SpecTr: Sun et al. 2023 (2310.15141)",
    ),
    Verifier(
        "recursive_rejection",
        "lossless",
        "iid",
        False,
        "test K drafts in turn against what the earlier ones left over",
        "Miao et al. 2023 (2305.09781); without replacement: Jeon et al. 2024 (2402.14160)",
        {"replacement": True},
    ),
    Verifier(
        "sequential_block",
        "lossless",
        "iid",
        False,
        "block verification of one draft after another, along the kept path",
        "derived here from Sun et al. 2024 (2403.10444)",
    ),
    Verifier(
        "sequential_greedy_block",
        "lossless",
        "iid",
        True,
        "greedy block verification of one draft after another, along the kept path",
        "derived here from Sun et al. 2024 (2403.10444), appendix",
    ),
    Verifier(
        "optimal_transport",
        "lossless",
        "iid",
        False,
        "select a survivor by labels so that each position accepts alpha*, the most there is",
        "value: Khisti et al. 2024 (2410.18234), Hu et al. 2025 (2502.18779); sampler derived here",
    ),
    Verifier(
        "max_ratio_block",
        "lossless",
        "iid",
        False,
        "follow the drafted token of largest p/q, then block-verify with that path's law",
        "idea: Thomas and Pal 2026 (2602.16961); derived here",
    ),
    Verifier(
        "traversal",
        "lossless",
        "tree",
        False,
        "settle a drafted tree from its leaves to the root",
        "Weng et al. 2025 (2505.12398)",
        {"branching": None, "replacement": True},
    ),
    Verifier(
        "point_mass",
        "lossless",
        "point_mass",
        False,
        "draw from p at each node of a deterministic tree and descend while drafted",
        "EAGLE: Li et al. 2024 (2401.15077), reference code",
    ),
    Verifier(
        "spectr_gbv",
        "biased",
        "iid",
        True,
        "the published multi-draft greedy block rule; its drafts pre-empt each other",
        "Lin et al. 2026 (2604.25925), official code",
        {"last_position": "published", "modification": False, "residual": "code"},
    ),
    Verifier(
        "ensemble",
        "lossy",
        "one",
        False,
        "verify against w p + (1 - w) q; w constant or a function of the prefix",
        "DIVERSED (2604.07622); Speculative Ensemble (2502.01662)",
        {"w": "1/2", "bonus": "target"},
    ),
    Verifier(
        "lenience",
        "lossy",
        "one",
        False,
        "keep with min(1, p/(l q)); residual norm((p - s q)_+)",
        "Leviathan et al. 2023 (2211.17192), A.5",
        {"lenience": "1/2", "residual": "stock"},
    ),
    Verifier(
        "mentored",
        "lossy",
        "one",
        False,
        "verify against clip(q, lo p, hi p), the best law for every f-divergence",
        "Tran-Thien 2023; Tran-Thien and Nock (2609.30474)",
        {"hi": "3/2", "budget": None},
    ),
    Verifier(
        "cascade",
        "lossy",
        "one",
        False,
        "verify against a deferral rule: the draft where it is good enough, else the target",
        "speculative cascades (2405.19261)",
        {"rule": "token_v3", "knob": "1/2"},
    ),
    Verifier(
        "typical",
        "lossy",
        "one",
        False,
        "keep every token with p > min(eps, delta exp(-entropy)), without a coin",
        "Medusa (2401.10774)",
        {"eps": "9/100", "delta": "3/10", "correction": "argmax"},
    ),
    Verifier(
        "marked_block",
        "lossless",
        "iid",
        False,
        "each draft draws a label along its path, the highest wins and is block verified",
        "derived here (theory.marks)",
        {"cells": 8, "coupling": "mix", "histogram": True},
    ),
    Verifier(
        "marked_greedy_block",
        "lossless",
        "iid",
        True,
        "as marked_block, but the winner is judged by greedy block verification",
        "derived here (theory.marks)",
        {"cells": 8, "coupling": "mix", "histogram": True},
    ),
)


@dataclass(frozen=True)
class Drafter:
    """One source of drafts; it lives in ``gpu_runtime/drafters/<name>.py``."""

    name: str
    summary: str
    paper: str


DRAFTERS: tuple[Drafter, ...] = (
    Drafter(
        "model",
        "a smaller language model draws K i.i.d. drafts",
        "Leviathan et al. 2023 (2211.17192)",
    ),
    Drafter(
        "model_tree",
        "a tree of a smaller language model's likeliest tokens",
        "Medusa: Cai et al. 2024 (2401.10774); EAGLE: Li et al. 2024 (2401.15077)",
    ),
    Drafter(
        "layer_skip",
        "the target itself without some of its layers",
        "LayerSkip (2404.16710); Draft & Verify: Zhang et al. 2023 (2309.08168)",
    ),
    Drafter(
        "prompt_lookup",
        "what followed the last n tokens when they last occurred in the text",
        "Saxena 2023 (prompt lookup decoding)",
    ),
    Drafter(
        "suffix",
        "the likeliest continuation of the longest useful match, here or in other requests",
        "SuffixDecoding: Oliaro et al. 2024 (2411.04975)",
    ),
    Drafter(
        "pearl",
        "a smaller language model drafts the next block while the target reads the pending one",
        "PEARL: Liu et al. 2024 (2408.11850)",
    ),
    Drafter(
        "hybrid",
        "a suffix draft where its score promises enough, else the model's draft",
        "snowflakedb/ArcticInference",
    ),
)


def lookup(name: str, known: tuple[str, ...], what: str) -> str:
    """``name`` if it is known.

    Raises:
        ValueError: unknown; the message suggests the nearest names.
    """
    if name in known:
        return name
    near = difflib.get_close_matches(str(name), known, n=3, cutoff=0.4)
    hint = f"did you mean {' or '.join(map(repr, near))}?" if near else f"choose one of {known}"
    raise ValueError(f"unknown {what} {name!r}; {hint}")


def verifier(name: str) -> Verifier:
    """The entry of a verifier.

    Raises:
        ValueError: unknown name; the message suggests the nearest.
    """
    lookup(name, tuple(entry.name for entry in VERIFIERS), "verifier")
    return next(entry for entry in VERIFIERS if entry.name == name)
