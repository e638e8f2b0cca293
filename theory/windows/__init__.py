"""Windows: when a drafter stops drafting, as programs, and what the best of them can earn."""
