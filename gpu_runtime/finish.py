"""Where a request ends inside a block: the earliest of end-of-sequence, stop and budget wins.

The block is what one round would emit (accepted drafts and the correction or bonus token). Tokens
after the end are dropped; the token that completes a stop is kept, as an end-of-sequence token is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence


def cut_block(
    block: Sequence[int], remaining: int, eos: Collection[int] = (), stop: Collection[int] = ()
) -> tuple[int, str | None]:
    """How many tokens of ``block`` to keep, and why the request ends there (None: it goes on).

    The reason is "eos", "stop" or "length"; a token that ends the text counts before the budget.
    """
    for index, token in enumerate(block):
        if token in eos:
            return index + 1, "eos"
        if token in stop:
            return index + 1, "stop"
        if index + 1 == remaining:
            return index + 1, "length"
    return len(block), None


def cut_at_text(
    tokens: Sequence[int], new: int, strings: Sequence[str], decode: Callable[[Sequence[int]], str]
) -> tuple[int, str] | None:
    """The shortest prefix of ``tokens`` whose text contains one of ``strings``, if any.

    Only prefixes that end inside the last ``new`` tokens are tried. Returns the number of tokens
    kept and the text before the earliest stop string.
    """
    for kept in range(len(tokens) - new + 1, len(tokens) + 1):
        text = decode(tokens[:kept])
        found = [text.find(string) for string in strings if string in text]
        if found:
            return kept, text[: min(found)]
    return None
