"""Statistical tests of losslessness."""

from sim.losslessness.joint import JointResult, exact_multinomial, joint_test
from theory.power import detectable_tv, noncentrality, power_against, sample_size

__all__ = [
    "JointResult",
    "detectable_tv",
    "exact_multinomial",
    "joint_test",
    "noncentrality",
    "power_against",
    "sample_size",
]
