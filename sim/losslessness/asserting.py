"""``assert_lossless``: the audit as one line of an engine's own test-suite.

    def test_my_engine_is_lossless():
        assert_lossless(my_sampler, target)

Error rate: a correct engine fails with probability at most ``level``, however many looks are taken
(the audit stops at the first proof, or when all samples are in). What a passing run would have
found is stated in the result: ``detectable`` by set of tokens, and ``verdict`` in words.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sim.losslessness.eprocess import Audit
from sim.losslessness.report import AuditResult, result
from sim.losslessness.samples import Sample, after_end, observe
from sim.losslessness.scoring import Scorer, scorer
from sim.rows import OnePrefix, RowSource

Sampler = Callable[[int, int], Sequence[Sample | Sequence[int]]]
"""``sampler(count, seed)``: independent outputs, as token ids (no prompt) or as samples."""

Target = Scorer | RowSource | OnePrefix


def audit_sampler(
    sampler: Sampler,
    target: Target,
    *,
    draft: Target | None = None,
    samples: int = 2000,
    batch: int = 250,
    level: float = 1e-6,
    places: bool = False,
    eos: Sequence[int] = (),
    seed: int = 0,
) -> AuditResult:
    """Audit a sampler; it is asked for ``batch`` outputs at a time, with seeds that differ.

    Args:
        target: what it should sample from (``sim.losslessness.scoring``).
        draft: the draft model, if it is known: faults that favour drafts are then found sooner.
        samples: most outputs asked for.
        level: probability of a false alarm.
        places: also bet on places of the round; outputs must be ``Sample`` with rounds, and the
            rule must keep no state (``sim.losslessness.eprocess``).
        eos: ids that end an output.

    Raises:
        ValueError: outputs or rows that cannot be judged; the message says which.
    """
    if samples < 1 or batch < 1:
        raise ValueError(f"samples={samples}, batch={batch}; ask for at least one output")
    p = scorer(target)
    q = None if draft is None else scorer(draft)
    audit = Audit(level=level, places=places)
    note, first = None, 0
    while first < samples and not audit.found and note is None:
        count = min(batch, samples - first)
        outputs = [_as_sample(output) for output in sampler(count, seed + first)]
        outputs = [output for output in outputs if output.output]
        if not outputs:
            raise ValueError(f"the sampler gave no tokens for {count} outputs asked for")
        note = after_end(outputs, eos, first)
        rows = (p(s.prompt, s.output) for s in outputs)
        drafts = None if q is None else (q(s.prompt, s.output) for s in outputs)
        audit.add(*observe(outputs, rows, drafts, first))
        first += count
    return result(audit, note or "")


def assert_lossless(sampler: Sampler, target: Target, **options: object) -> AuditResult:
    """Fail unless the sampler follows the target; options as ``audit_sampler``.

    Raises:
        AssertionError: it is found not to be lossless; the message is the verdict.
        ValueError: as ``audit_sampler``.
    """
    found = audit_sampler(sampler, target, **options)  # type: ignore[arg-type]
    if not found.lossless:
        raise AssertionError(found.verdict)
    return found


def _as_sample(output: Sample | Sequence[int]) -> Sample:
    if isinstance(output, Sample):
        return output
    return Sample((), tuple(int(token) for token in output))
