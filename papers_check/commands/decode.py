"""``specproof decode``: the runtime on real prompts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from papers_check.numbers import Json, dumps
from papers_check.options import Count
from theory.catalogue import lookup

if TYPE_CHECKING:
    from gpu_runtime.engine import Generation
    from gpu_runtime.windows import Window

DTYPES = ("float32", "float64", "bfloat16", "float16")


def decode(
    prompt: list[str],
    /,
    *,
    target: str = "smollm2",
    draft: str = "smollm2-draft",
    verifier: str = "block",
    gamma: Count = 4,
    drafts: Count = 1,
    window: str = "fixed",
    max_new_tokens: Count = 64,
    temperature: float = 1.0,
    top_k: Count = 0,
    top_p: float = 1.0,
    min_p: float = 0.0,
    seed: Count = 0,
    dtype: str = "float32",
    device: str = "cpu",
    trace: Path | None = None,
    json: bool = False,
) -> None:
    """Continue prompts by speculative decoding.

    Parameters
    ----------
    prompt:
        One or more texts; they are decoded as one batch.
    target:
        smollm2, tiny, or a Hugging Face model by name or folder.
    draft:
        smollm2-draft, tiny-draft, or another model with the same vocabulary.
    verifier:
        Name in `specproof list`, or autoregressive for plain decoding.
    gamma:
        Draft length of a round; of an adaptive window, the most it drafts.
    drafts:
        Drafts a round (K), for verifiers that take several.
    window:
        fixed, heuristic, confidence, svip, adaedl or optimal, with its default settings.
    max_new_tokens:
        Largest number of tokens written.
    temperature:
        0 is greedy decoding.
    top_k:
        Sample from the k likeliest tokens only; 0 is off.
    top_p:
        Sample from the smallest set of tokens with this mass; 1 is off.
    min_p:
        Drop tokens less likely than this share of the likeliest; 0 is off.
    seed:
        Seed; the same seed writes the same text whatever else is in the batch.
    dtype:
        float32, float64, bfloat16 or float16.
    device:
        cpu or cuda.
    trace:
        Parquet file for one row per round.
    json:
        Print JSON instead of text.
    """
    import torch

    from gpu_runtime import engine, zoo
    from gpu_runtime.sampling import Processor
    from sim.traces import write_trace

    if dtype not in DTYPES:
        raise ValueError(f"unknown dtype {dtype!r}; choose one of {', '.join(DTYPES)}")
    if device == "cuda" and not torch.cuda.is_available():
        raise ValueError("device 'cuda' was asked for, but no GPU is visible; use --device cpu")
    if trace is not None and not trace.resolve().parent.is_dir():
        raise ValueError(f"cannot write {trace}: its folder is missing; make it first")
    stopping = _window(window, gamma)
    loading = {"dtype": getattr(torch, dtype), "device": device}
    model = zoo.load(target, **loading)
    rows: list[dict[str, Any]] = []
    generations = engine.decode(
        model,
        None if verifier == "autoregressive" else zoo.load(draft, **loading),
        prompt,
        verifier=verifier,
        gamma=gamma,
        num_drafts=drafts,
        window=stopping,
        processor=Processor(temperature, top_k, top_p, min_p),
        max_new_tokens=max_new_tokens,
        eos=model.eos,
        seeds=seed,
        trace=rows if trace is not None else None,
    )
    if trace is not None:
        write_trace(trace, rows)
    if json:
        documents = [_document(generation) for generation in generations]
        print(dumps(documents[0] if len(documents) == 1 else documents))
        return
    console = Console()
    for text, generation in zip(prompt, generations, strict=True):
        console.print(text, style="dim", end="", markup=False, highlight=False)
        console.print(generation.text, markup=False, highlight=False)
    console.print(_summary(generations))


def _window(name: str, gamma: int) -> Window:
    """The window of a name that drafts at most ``gamma`` tokens.

    Raises:
        ValueError: unknown name, or a negative gamma.
    """
    from gpu_runtime.windows.adaedl import AdaEDLWindow
    from gpu_runtime.windows.confidence import ConfidenceWindow
    from gpu_runtime.windows.fixed import FixedWindow
    from gpu_runtime.windows.heuristic import HeuristicWindow
    from gpu_runtime.windows.optimal import OptimalWindow
    from gpu_runtime.windows.svip import SVIPWindow

    known = (
        FixedWindow,
        HeuristicWindow,
        ConfidenceWindow,
        SVIPWindow,
        AdaEDLWindow,
        OptimalWindow,
    )
    by_name = {kind.name: kind for kind in known}
    lookup(name, tuple(by_name), "window")
    return by_name[name](gamma)


def _document(generation: Generation) -> Json:
    return {
        "tokens": generation.tokens,
        "text": generation.text,
        "accepted": generation.accepted,
        "drafted": generation.drafted,
        "emitted": generation.emitted,
        "tokens_per_call": generation.tokens_per_call,
        "acceptance_rate": generation.acceptance_rate,
        "finish": generation.finish,
        "seconds": generation.seconds,
    }


def _summary(generations: list[Generation]) -> Table:
    table = Table("prompt", "tokens", "calls", "tokens per call", "accepted", "tokens/s", "finish")
    for index, generation in enumerate(generations):
        rate = generation.acceptance_rate
        table.add_row(
            str(index),
            str(len(generation.tokens)),
            str(len(generation.emitted)),
            f"{generation.tokens_per_call:.3f}",
            "—" if rate is None else f"{100 * rate:.1f} %",
            f"{len(generation.tokens) / generation.seconds:.1f}",
            generation.finish,
        )
    return table
