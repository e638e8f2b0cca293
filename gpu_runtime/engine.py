"""Speculative decoding of a batch of prompts on real models.

``decode`` drafts, verifies with one target call a round, and emits, until every request has met
its end-of-sequence, a stop or its budget. Whatever the verifier, drafter and batch: the tokens of
a request depend only on its prompt, its key (seed, request id) and the settings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from time import perf_counter
from typing import Any

from gpu_runtime.drafters import Drafter, Setting
from gpu_runtime.drafters.model import ModelDrafter
from gpu_runtime.fitting import AUTOREGRESSIVE, check_rule, prompt_ids, resolve
from gpu_runtime.generation import DecodingError, Generation, collected, failure
from gpu_runtime.judging import Rules, Verifier
from gpu_runtime.models import LanguageModel
from gpu_runtime.random_streams import fresh_seed
from gpu_runtime.requests import Request
from gpu_runtime.sampling import Processor
from gpu_runtime.session import Round, Session
from gpu_runtime.trace import TraceRecorder
from gpu_runtime.windows import Window
from gpu_runtime.windows.fixed import FixedWindow

__all__ = ["AUTOREGRESSIVE", "DecodingError", "Generation", "decode", "request_keys"]

Stream = Callable[[Request, Sequence[int]], None]
"""``stream(request, tokens)``: new tokens of a request, of which ``request.accepted[-1]`` (at most)
were drafted; ``request.finish`` is set once they are the last."""


def decode(
    target: LanguageModel,
    draft: Drafter | LanguageModel | None,
    prompts: Sequence[Sequence[int] | str],
    *,
    verifier: str | Verifier = "block",
    gamma: int = 4,
    num_drafts: int = 1,
    processor: Processor | None = None,
    window: Window | None = None,
    max_new_tokens: int = 64,
    eos: int | Sequence[int] = (),
    stop: Sequence[int] = (),
    stop_strings: Sequence[str] = (),
    seeds: int | Sequence[int] | None = 0,
    request_ids: Sequence[int] | None = None,
    params: Mapping[str, Any] | None = None,
    trace: list[dict[str, Any]] | None = None,
    observer: Callable[[Round], None] | None = None,
    stream: Stream | None = None,
) -> list[Generation]:
    """Decode ``prompts`` (texts or token ids) and return one ``Generation`` each.

    Args:
        draft: a drafter, or a language model to draft with; None for plain decoding.
        verifier: a name of ``sim.verifiers``, an entry of that registry, or "autoregressive".
        gamma: drafted tokens a round; ``window`` replaces it.
        num_drafts: independent drafts a round (K), for verifiers that take several.
        seeds: one seed (requests then differ by their id), a seed for each, or None for fresh
            ones. ``request_ids`` default to the place in the batch, and to 0 with listed seeds.
        params: parameters of the verifier.
        trace: a list that gets one row per request and round (``sim.traces``).
        observer: called with every ``Round``.
        stream: called with the new tokens of each request after each round.

    Raises:
        ValueError: settings that do not fit together, or a prompt that does not fit the context,
            before any work.
        DecodingError: (a ValueError) a round failed, such as by a NaN in the target's rows, which
            is named by request and position, or out of memory; it holds what was written.
    """
    start = perf_counter()
    rule = resolve(verifier, draft, gamma if window is None else window.maximum)
    window = FixedWindow(gamma) if window is None else window
    drafter = ModelDrafter(draft) if isinstance(draft, LanguageModel) else draft
    if rule is None:
        drafter, window, num_drafts = None, FixedWindow(0), 1
    check_rule(rule, drafter, num_drafts, window, max_new_tokens)
    new = max_new_tokens + (window.maximum if rule is not None and rule.stateful else 0)
    beyond = drafter.overhang(window.maximum) if drafter else 0
    ids = prompt_ids(target, drafter, prompts, new, beyond)
    keys = request_keys(len(ids), seeds, request_ids)
    requests = [Request(i, keys[i], list(ids[i]), len(ids[i])) for i in range(len(ids))]
    ends = frozenset([eos] if isinstance(eos, int) else eos)
    rules = Rules(rule, params or {}, max_new_tokens, ends, frozenset(stop), tuple(stop_strings))
    observers = [] if observer is None else [observer]
    if stream is not None:
        observers.append(lambda done: _stream(done, stream))
    if trace is not None:
        observers.append(_recorder(trace, rule, drafter, window, num_drafts))
    if requests:
        session = _open(target, drafter, requests, rules, window, processor, num_drafts)
        _run(session, requests, observers, start)
    return collected(requests, target)


def _open(
    target: LanguageModel,
    drafter: Drafter | None,
    requests: Sequence[Request],
    rules: Rules,
    window: Window,
    processor: Processor | None,
    num_drafts: int,
) -> Session:
    """Read the prompts into the caches."""
    longest = max(request.prompt_length for request in requests) + rules.max_new_tokens
    nodes = drafter.nodes(window.maximum, num_drafts) if drafter else 0
    setting = Setting(
        processor or Processor(),
        window,
        num_drafts,
        target.width,
        target.law_dtype,
        target.device,
        longest + nodes + (drafter.overhang(window.maximum) if drafter else 0) + 1,
        tuple(sorted(rules.eos | rules.stop)),
    )
    drafting = drafter.open(requests, setting) if drafter else None
    try:
        return Session(target, drafting, requests, setting, rules)
    except BaseException:
        if drafting:
            drafting.close()
        raise


def _run(
    session: Session,
    requests: Sequence[Request],
    observers: Sequence[Callable[[Round], None]],
    start: float,
) -> None:
    """Rounds until every request has ended.

    Raises:
        DecodingError: one failed; it holds what all requests have written.
    """
    try:
        while session.active:
            done = session.round()
            for request in done.requests:
                request.seconds = perf_counter() - start
            for watch in observers:
                watch(done)
    except Exception as error:
        raise failure(error, requests, session.target) from error
    finally:
        if session.drafting:
            session.drafting.close()


def request_keys(
    count: int, seeds: int | Sequence[int] | None, request_ids: Sequence[int] | None
) -> list[tuple[int, int]]:
    """The (seed, request id) keys of a batch.

    Raises:
        ValueError: lists of another length than the batch.
    """
    if seeds is None:
        seeds = fresh_seed()
    listed = not isinstance(seeds, int)
    seed_list = [seeds] * count if isinstance(seeds, int) else list(seeds)
    if request_ids is None:
        request_ids = [0] * count if listed else range(count)
    if len(seed_list) != count or len(request_ids) != count:
        raise ValueError(
            f"{len(seed_list)} seeds and {len(request_ids)} request ids for {count} prompts; "
            "give one of each per prompt"
        )
    return list(zip(seed_list, request_ids, strict=True))


def _stream(done: Round, stream: Stream) -> None:
    for request in done.requests:
        stream(request, request.sequence[len(request.sequence) - request.emitted[-1] :])


def _recorder(
    trace: list[dict[str, Any]],
    rule: Verifier | None,
    drafter: Drafter | None,
    window: Window,
    num_drafts: int,
) -> TraceRecorder:
    return TraceRecorder(
        run="decode",
        drafter=drafter.name if drafter else "none",
        verifier=rule.name if rule else AUTOREGRESSIVE,
        window=window.name,
        num_drafts=num_drafts,
        rows=trace,
    )
