"""Speculative decoding of a batch of prompts on real models.

``decode`` drafts, verifies with one target call a round, and emits, until every request has met
its end-of-sequence, a stop or its budget. Whatever the verifier, drafter and batch: the tokens of
a request depend only on its prompt, its key (seed, request id) and the settings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from gpu_runtime import tree_rules
from gpu_runtime.drafters import Drafter, Setting
from gpu_runtime.drafters.model import ModelDrafter
from gpu_runtime.judging import Rules, Verifier
from gpu_runtime.models import LanguageModel
from gpu_runtime.random_streams import fresh_seed
from gpu_runtime.requests import Request
from gpu_runtime.sampling import Processor
from gpu_runtime.session import Round, Session
from gpu_runtime.trace import TraceRecorder
from gpu_runtime.windows import Window
from gpu_runtime.windows.fixed import FixedWindow

AUTOREGRESSIVE = "autoregressive"
STEPWISE = frozenset({"kseq", "recursive_rejection"})
"""Rules for several drafts that settle one position after another. Drafts of a request stop
together; rules that first choose one draft by its whole path would then misjudge its law."""


@dataclass(frozen=True)
class Generation:
    """The output of one request.

    Attributes:
        tokens: output ids, end-of-sequence or stop token included.
        finish: "eos", "stop" (a stop token or string) or "length".
        accepted: tau of each round, as the verifier decided it.
        drafted: drafted tokens of each round (on each of the K branches).
        emitted: tokens kept of each round, after end-of-sequence, stops and the budget.
        prompt_tokens: length of the prompt.
        seconds: from the start of the batch, prompt included, to the request's end.
        text: the decoded output (before a stop string), if the target has a tokenizer.
    """

    tokens: list[int]
    finish: str
    accepted: list[int]
    drafted: list[int]
    emitted: list[int]
    prompt_tokens: int
    seconds: float
    text: str | None

    @property
    def tokens_per_call(self) -> float:
        """Emitted tokens per target call; the call that only reads the prompt is not counted."""
        return len(self.tokens) / len(self.emitted)

    @property
    def acceptance_rate(self) -> float | None:
        """Accepted per drafted token on the kept branch; None if nothing was drafted."""
        drafted = sum(self.drafted)
        return sum(self.accepted) / drafted if drafted else None


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

    Raises:
        ValueError: settings that do not fit together, or a prompt that does not fit the context,
            before any work; a NaN in the target's rows, naming request and position.
    """
    start = perf_counter()
    rule = _resolve(verifier, draft, gamma if window is None else window.maximum)
    window = FixedWindow(gamma) if window is None else window
    drafter = ModelDrafter(draft) if isinstance(draft, LanguageModel) else draft
    if rule is None:
        drafter, window, num_drafts = None, FixedWindow(0), 1
    _check_rule(rule, num_drafts, window, max_new_tokens)
    if rule is not None and rule.stateful and drafter is not None and not drafter.fills:
        raise ValueError(f"{rule.name} needs full drafts, {drafter.name} has shorter ones at times")
    new = max_new_tokens + (window.maximum if rule is not None and rule.stateful else 0)
    ids = _prompt_ids(target, drafter, prompts, new)
    keys = request_keys(len(ids), seeds, request_ids)
    requests = [Request(i, keys[i], list(ids[i]), len(ids[i])) for i in range(len(ids))]
    ends = frozenset([eos] if isinstance(eos, int) else eos)
    rules = Rules(rule, params or {}, max_new_tokens, ends, frozenset(stop), tuple(stop_strings))
    observers = [] if observer is None else [observer]
    if trace is not None:
        observers.append(_recorder(trace, rule, drafter, window, num_drafts))
    if requests:
        session = _open(target, drafter, requests, rules, window, processor, num_drafts)
        _run(session, observers, start)
    return [_generation(request, target) for request in requests]


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
        longest + nodes + 1,
        tuple(sorted(rules.eos | rules.stop)),
    )
    drafting = drafter.open(requests, setting) if drafter else None
    try:
        return Session(target, drafting, requests, setting, rules)
    except BaseException:
        if drafting:
            drafting.close()
        raise


def _run(session: Session, observers: Sequence[Callable[[Round], None]], start: float) -> None:
    """Rounds until every request has ended."""
    try:
        while session.active:
            done = session.round()
            for request in done.requests:
                request.seconds = perf_counter() - start
            for watch in observers:
                watch(done)
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


def _resolve(
    verifier: str | Verifier, draft: Drafter | LanguageModel | None, gamma: int
) -> Verifier | None:
    if verifier == AUTOREGRESSIVE or draft is None or gamma == 0:
        return None
    if not isinstance(verifier, str):
        return verifier
    if isinstance(draft, Drafter) and draft.trees:
        return tree_rules.get(verifier)
    from sim.verifiers import get

    found: Verifier = get(verifier)
    return found


def _check_rule(
    rule: Verifier | None,
    num_drafts: int,
    window: Window,
    max_new_tokens: int,
) -> None:
    if max_new_tokens < 1:
        raise ValueError(f"max_new_tokens {max_new_tokens} leaves nothing to do; use 1 or more")
    if num_drafts < 1:
        raise ValueError(f"num_drafts {num_drafts} must be 1 or more")
    if rule is None:
        return
    if num_drafts > 1 and not rule.multi_draft:
        raise ValueError(f"{rule.name} verifies one draft, got num_drafts={num_drafts}")
    if rule.stateful and not window.full:
        raise ValueError(f"{rule.name} needs full drafts every round; use the fixed window")
    if num_drafts > 1 and not window.planned and rule.name not in STEPWISE:
        raise ValueError(
            f"{rule.name} needs drafts whose length their tokens do not decide; use window fixed "
            f"or heuristic, or one of {', '.join(sorted(STEPWISE))}, or num_drafts 1"
        )


def _prompt_ids(
    target: LanguageModel,
    drafter: Drafter | None,
    prompts: Sequence[Sequence[int] | str],
    new: int,
) -> list[list[int]]:
    """The prompts as token ids, checked with ``new`` tokens behind them."""
    ids = [target.encode(p) if isinstance(p, str) else [int(t) for t in p] for p in prompts]
    for index, prompt in enumerate(ids):
        _check_prompt(target, index, prompt, new)
    if drafter is not None and ids:
        drafter.check(target, max(map(len, ids)) + new)
    return ids


def _check_prompt(target: LanguageModel, index: int, prompt: list[int], new: int) -> None:
    if not prompt:
        raise ValueError(f"prompt {index} is empty; give at least one token (such as BOS)")
    wrong = [token for token in prompt if not 0 <= token < target.vocab_size]
    if wrong:
        raise ValueError(
            f"prompt {index} holds token {wrong[0]}; {target.name} has ids 0 to "
            f"{target.vocab_size - 1}"
        )
    length = len(prompt) + new
    if length > target.context:
        raise ValueError(
            f"prompt {index} needs {length} positions ({len(prompt)} + {new}), the context of "
            f"{target.name} has {target.context}; shorten the prompt or max_new_tokens"
        )


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


def _generation(request: Request, target: LanguageModel) -> Generation:
    text = request.text
    if text is None and target.tokenizer is not None:
        text = target.decode(request.output)
    return Generation(
        request.output,
        request.finish or "length",
        request.accepted,
        request.drafted,
        request.emitted,
        request.prompt_length,
        request.seconds,
        text,
    )
