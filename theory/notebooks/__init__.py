"""Ten notebooks that derive the theory, one theorem each (marimo; every one runs as a script)."""
