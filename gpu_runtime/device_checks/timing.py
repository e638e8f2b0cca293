"""Times of device work: graph replays and events on CUDA, the clock on a CPU; medians."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

import torch

REPEATS, WARM_UP = 15, 3


def seconds(work: Sequence[Callable[[], Any]], device: torch.device) -> float:
    """Median time of one item of ``work``, the same work on different inputs, run in turn.

    Different inputs keep a cache from serving what was read a moment ago. On CUDA all items are
    captured in one graph, so that launches cost what they cost inside a captured round.
    """
    if device.type != "cuda":
        return eager_seconds(work, device, REPEATS)
    with torch.cuda.device(device):
        graph = captured(work)
        for _ in range(WARM_UP):
            graph.replay()
        times = [_event_time(graph.replay) for _ in range(REPEATS)]
    return statistics.median(times) / len(work)


def eager_seconds(
    work: Sequence[Callable[[], Any]], device: torch.device, repeats: int = 5
) -> float:
    """The same by the clock, launch by launch, for work that waits for the device in between."""
    for item in work:
        item()
    times = []
    for _ in range(repeats):
        for item in work:
            synchronize(device)
            start = perf_counter()
            item()
            synchronize(device)
            times.append(perf_counter() - start)
    return statistics.median(times)


def captured(work: Sequence[Callable[[], Any]]) -> torch.cuda.CUDAGraph:
    """All items in one graph, after a run that compiles what they launch."""
    for item in work:
        item()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for item in work:
            item()
    return graph


def synchronize(device: torch.device) -> None:
    """Wait for the device, if it runs on its own."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _event_time(run: Callable[[], Any]) -> float:
    event: Any = torch.cuda.Event
    start, end = event(enable_timing=True), event(enable_timing=True)
    start.record()
    run()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) / 1e3
