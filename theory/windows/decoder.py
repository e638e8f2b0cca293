"""Decoders with an adaptive window: the rule sees the context, the verifier sees the rule."""

from __future__ import annotations

from dataclasses import dataclass

from theory.effects import Effects
from theory.fields import Number
from theory.generation import Decoder
from theory.models import Prefix, Rows, rows_after
from theory.verifiers.common import Carry, Round
from theory.windows.rule import Ending, Sight, Stopping


@dataclass(frozen=True)
class AdaptiveDecoder(Decoder):
    """A decoder whose window is a stopping rule.

    The rule's draft rows also know the target rows (``Sight``), so that estimators can be exact.

    Attributes:
        window: the rule's window.
        tell: hand the rule to the verifier as its parameter ``stop``. Greedy block verification
            needs it; token and block verification are lossless without.
    """

    window: Stopping
    tell: bool = False

    def round_law(self, prefix: Prefix, carry: Carry, cap: int) -> dict[Round, Number]:
        """The exact law of one round after ``prefix``, drafting at most ``cap`` tokens."""
        sight = Sight(rows_after(self.draft, prefix), rows_after(self.target, prefix))
        rule = self.window.rule

        def window(fx: Effects, draft: Rows, cap: int, k: int) -> Prefix:
            return self.window(fx, sight, cap, k)

        told = {"stop": Ending(rule, sight, cap)} if self.tell else {}
        bound = Decoder(
            self.target,
            self.draft,
            self.verifier,
            window,
            self.num_drafts,
            {**self.params, **told},
            self.eos,
        )
        return bound.round_law(prefix, carry, cap)
