"""Paired benchmarks: every contender in one process, in rotation, reported as ratios."""
