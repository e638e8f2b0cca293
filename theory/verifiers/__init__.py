"""Verification rules as probabilistic programs, one module each.

Every module defines ``program(fx, target, draft, drafts, carry=(), **params) -> Round``:

* ``fx``: the effects (``theory.effects``); the slots a rule reads are documented in its module;
* ``target``, ``draft``: next-token laws seen from the committed prefix (``theory.models.Rows``);
* ``drafts``: K drafted paths, drawn beforehand; ``carry``: what the previous round handed over.

The program emits the accepted path and one more token, a correction or a bonus.
"""

from theory.verifiers.common import Program, Round, load_program

__all__ = ["Program", "Round", "load_program"]
