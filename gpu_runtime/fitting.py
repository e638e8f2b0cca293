"""Which settings fit together: everything that can be refused is refused before any work."""

from __future__ import annotations

from collections.abc import Sequence

from gpu_runtime import tree_rules, verify
from gpu_runtime.drafters import Drafter
from gpu_runtime.judging import Verifier
from gpu_runtime.models import LanguageModel
from gpu_runtime.windows import Window

AUTOREGRESSIVE = "autoregressive"
STEPWISE = frozenset({"kseq", "recursive_rejection"})
"""Rules for several drafts that settle one position after another. Drafts of a request stop
together; rules that first choose one draft by its whole path would then misjudge its law."""


def resolve(
    verifier: str | Verifier, draft: Drafter | LanguageModel | None, gamma: int
) -> Verifier | None:
    """The rule to verify with; None for plain decoding.

    Raises:
        ValueError: no rule of that name for this drafter.
    """
    if verifier == AUTOREGRESSIVE or draft is None or gamma == 0:
        return None
    if not isinstance(verifier, str):
        return verifier
    if isinstance(draft, Drafter) and draft.trees:
        return tree_rules.get(verifier)
    return verify.get(verifier)


def check_rule(
    rule: Verifier | None,
    drafter: Drafter | None,
    num_drafts: int,
    window: Window,
    max_new_tokens: int,
) -> None:
    """Check that rule, drafter, window and numbers fit together.

    Raises:
        ValueError: they do not.
    """
    if max_new_tokens < 1:
        raise ValueError(f"max_new_tokens {max_new_tokens} leaves nothing to do; use 1 or more")
    if num_drafts < 1:
        raise ValueError(f"num_drafts {num_drafts} must be 1 or more")
    if rule is None or drafter is None:
        return
    drafter.fits(window, num_drafts)
    if num_drafts > 1 and not rule.multi_draft:
        raise ValueError(f"{rule.name} verifies one draft, got num_drafts={num_drafts}")
    if rule.stateful and not window.full:
        raise ValueError(f"{rule.name} needs full drafts every round; use the fixed window")
    if rule.stateful and not drafter.fills:
        raise ValueError(f"{rule.name} needs full drafts, {drafter.name} has shorter ones at times")
    if num_drafts > 1 and not window.planned and rule.name not in STEPWISE:
        raise ValueError(
            f"{rule.name} needs drafts whose length their tokens do not decide; use window fixed "
            f"or heuristic, or one of {', '.join(sorted(STEPWISE))}, or num_drafts 1"
        )


def prompt_ids(
    target: LanguageModel,
    drafter: Drafter | None,
    prompts: Sequence[Sequence[int] | str],
    new: int,
    beyond: int,
) -> list[list[int]]:
    """The prompts as token ids, checked with ``new`` tokens behind them (``beyond`` more, for the
    drafter).

    Raises:
        ValueError: a prompt that is empty, has foreign tokens or does not fit a context.
    """
    ids = [target.encode(p) if isinstance(p, str) else [int(t) for t in p] for p in prompts]
    for index, prompt in enumerate(ids):
        _check_prompt(target, index, prompt, new)
    if drafter is not None and ids:
        drafter.check(target, max(map(len, ids)) + new + beyond)
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
