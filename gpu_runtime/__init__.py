"""Speculative decoding on real models: engine, drafters, kernels and training."""
