"""Audits of engines: where samples come from, what they are judged by, and the run between."""
