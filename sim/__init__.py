"""Vectorised simulation of speculative decoding and tests of losslessness."""
