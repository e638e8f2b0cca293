"""Exact theory of speculative decoding: programs, closed forms, laws and bounds."""
