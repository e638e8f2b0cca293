"""The commands of ``specproof``, one module each."""
