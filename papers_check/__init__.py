"""Cross-checks of theory, simulation and runtime, and of the claims of papers."""
