"""Is a decoder lossless? Statistical answers with stated error rates.

* ``joint_test``: the joint law of the first tokens against an exact law (small models);
* ``Audit``: an anytime-valid audit of any engine's samples against the target's rows;
* ``GreedyAudit``: greedy engines, by the gap of every token;
* ``assert_lossless``: the audit as one line of an engine's own test-suite.

Power of the fixed tests, and the sample sizes that they need: ``theory.power``.
"""

from sim.losslessness.asserting import assert_lossless, audit_sampler
from sim.losslessness.eprocess import Audit
from sim.losslessness.greedy import GreedyAudit
from sim.losslessness.joint import JointResult, exact_multinomial, joint_test
from sim.losslessness.report import AuditResult, GreedyResult, greedy_result, result
from sim.losslessness.samples import Sample

__all__ = [
    "Audit",
    "AuditResult",
    "GreedyAudit",
    "GreedyResult",
    "JointResult",
    "Sample",
    "assert_lossless",
    "audit_sampler",
    "exact_multinomial",
    "greedy_result",
    "joint_test",
    "result",
]
