"""What samples are judged by: a model file, or a real model by teacher forcing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sim.losslessness.sample_files import Header
from sim.losslessness.samples import Sample
from sim.losslessness.scoring import scorer
from theory.models import Model, load_model

if TYPE_CHECKING:
    from gpu_runtime.models import LanguageModel
    from gpu_runtime.sampling import Processor
    from gpu_runtime.teacher_forcing import TeacherForcing

Rows = NDArray[np.floating]


class Target(Protocol):
    """A law of texts."""

    @property
    def name(self) -> str: ...

    @property
    def vocab_size(self) -> int: ...

    @property
    def eos(self) -> tuple[int, ...]: ...

    @property
    def settings(self) -> dict[str, Any] | None:
        """The processor's settings, or None where rows are taken as they are."""
        ...

    def log_rows(self, samples: Sequence[Sample]) -> Iterator[Rows]: ...

    def scores(self, samples: Sequence[Sample]) -> Iterator[Rows]: ...


class FileTarget:
    """A model file, or a bare row; the prompt is the start of the prefix."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.model: Model = load_model(name, "float")
        self._score = scorer(self.model)
        self.vocab_size = self.model.vocab
        self.eos: tuple[int, ...] = ()
        self.settings: dict[str, Any] | None = None

    def log_rows(self, samples: Sequence[Sample]) -> Iterator[Rows]:
        """The model's log rows along each output."""
        for sample in samples:
            yield self._score(sample.prompt, sample.output)

    def scores(self, samples: Sequence[Sample]) -> Iterator[Rows]:
        """The same: log probabilities are scores."""
        return self.log_rows(samples)


@dataclass(frozen=True)
class ModelTarget:
    """A Hugging Face model under a processor."""

    model: LanguageModel
    processor: Processor
    width: int

    @property
    def name(self) -> str:
        return self.model.name

    @property
    def vocab_size(self) -> int:
        return self.model.vocab_size

    @property
    def eos(self) -> tuple[int, ...]:
        return self.model.eos

    @property
    def settings(self) -> dict[str, Any] | None:
        """The processor's settings that are not at their defaults."""
        from gpu_runtime.sampling import Processor

        plain = asdict(Processor())
        return {k: v for k, v in asdict(self.processor).items() if v != plain[k]}

    def log_rows(self, samples: Sequence[Sample]) -> Iterator[Rows]:
        """The processed log rows along each output."""
        return self._forcing().log_rows([(s.prompt, s.output) for s in samples])

    def scores(self, samples: Sequence[Sample]) -> Iterator[Rows]:
        """The raw scores along each output."""
        return self._forcing().scores([(s.prompt, s.output) for s in samples])

    def _forcing(self) -> TeacherForcing:
        from gpu_runtime.teacher_forcing import TeacherForcing

        return TeacherForcing(self.model, self.processor, self.width, self.eos)


def is_file(name: str) -> bool:
    """Whether a target is named as a model file or a row, and not as a network."""
    return name.endswith(".json") or "," in name


def check_header(header: Header, target: Target) -> None:
    """Check that a file of samples can be judged by a target.

    Raises:
        ValueError: another vocabulary, or another processor.
    """
    if header.vocab_size is not None and header.vocab_size != target.vocab_size:
        raise ValueError(
            f"the samples were made with {header.vocab_size} token ids, {target.name} has "
            f"{target.vocab_size}: another tokenizer? Name the target that the engine ran"
        )
    if header.processor is None or target.settings is None:
        return
    neutral = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0}
    theirs, ours = dict(header.processor), dict(target.settings)
    for name in sorted({*theirs, *ours}):
        a, b = theirs.get(name, neutral.get(name)), ours.get(name, neutral.get(name))
        if a != b:
            raise ValueError(
                f"the samples were made with {name} = {a}, the target is read with {name} = {b}; "
                "audit with the engine's own settings"
            )
