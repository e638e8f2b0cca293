"""Verification rules as Triton kernels: the CUDA face of the array functions in ``sim.verifiers``.

A module named like a verifier holds that verifier; the others hold one step that they share:

    _stats      largest logit and sum of exponentials of every row, tile by tile
    _prefixes   which drafts of a request share a prefix
    _scan       scalar steps along a draft: log ratios, acceptance tests
    _weights    what a node leaves of its target, (keep p - take q)_+, summed over tiles
    _draw       one token from those weights by inverse CDF: the tile, then the token in it
    _accept     the longest prefix that passes (block rules)
    _rho        K-SEQ's rho by a search with 32 candidates at once
    _histogram  draft and target mass by cell; _split shares a node's label law among tokens

Rows come as logits or as log laws in fp32, bf16 or fp16; tiles are fp32, sums of tiles and running
ratios float64. Every reduction has a fixed order that depends on the vocabulary alone, so a
request's tokens do not depend on its batch, and nothing waits for the device within a round.
``python -m gpu_runtime.kernels.report`` compiles every kernel and reports registers and spills.
"""
