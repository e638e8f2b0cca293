"""Engines that an audit can run itself. Sample number n is the same whenever it is asked for.

* our runtime, with any verifier and drafter;
* ``transformers``: plain sampling, or assisted generation with a draft model, by prompt lookup,
  with the static ensemble that it ships, or by early exit;
* ``vllm``: its offline engine, where it is installed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sim.losslessness.samples import Sample

if TYPE_CHECKING:
    from gpu_runtime.drafters import Drafter
    from gpu_runtime.models import LanguageModel
    from gpu_runtime.sampling import Processor

METHODS = ("plain", "assisted", "prompt-lookup", "ensemble", "early-exit")
"""Ways in which transformers decodes."""


@dataclass(frozen=True)
class Specproof:
    """Our runtime."""

    target: LanguageModel
    draft: Drafter | LanguageModel | None
    prompts: Sequence[tuple[int, ...]]
    processor: Processor
    verifier: str = "block"
    gamma: int = 4
    num_drafts: int = 1
    max_new_tokens: int = 64
    seed: int = 0

    def __call__(self, numbers: range) -> list[Sample]:
        """Samples by number, decoded as one batch."""
        from gpu_runtime.engine import decode

        prompts = [self.prompts[n % len(self.prompts)] for n in numbers]
        found = decode(
            self.target,
            self.draft,
            prompts,
            verifier=self.verifier,
            gamma=self.gamma,
            num_drafts=self.num_drafts,
            processor=self.processor,
            max_new_tokens=self.max_new_tokens,
            eos=self.target.eos,
            seeds=self.seed,
            request_ids=numbers,
        )
        return [
            Sample(
                tuple(prompt),
                tuple(one.tokens),
                tuple(one.emitted),
                tuple(one.drafted),
                tuple(one.accepted),
            )
            for prompt, one in zip(prompts, found, strict=True)
        ]


class Rounds:
    """A streamer that notes how many tokens come at once: the rounds of assisted generation."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def put(self, value: Any) -> None:
        """The prompt first, then the tokens of each round."""
        self.sizes.append(int(value.numel()))

    def end(self) -> None:
        """Nothing is left to do."""


@dataclass(frozen=True)
class Transformers:
    """``generate`` of the installed transformers, one request at a time.

    Attributes:
        method: one of ``METHODS``.
        gamma: drafted tokens a round.
        schedule: how transformers changes that number ("constant" or "heuristic").
        confidence: its threshold for going on drafting (0: never stops early).
        weight: of the target in the ensemble.
        exit_layer: layers of the early-exit draft.
        options: further arguments of ``generate``.
    """

    target: LanguageModel
    draft: LanguageModel | None
    prompts: Sequence[tuple[int, ...]]
    processor: Processor
    method: str = "assisted"
    gamma: int = 4
    schedule: str = "constant"
    confidence: float = 0.0
    weight: float = 0.5
    exit_layer: int = 1
    max_new_tokens: int = 64
    seed: int = 0
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise ValueError(f"unknown method {self.method!r}; choose one of {', '.join(METHODS)}")
        if self.method in ("assisted", "ensemble") and self.draft is None:
            raise ValueError(f"method {self.method!r} needs a draft model; name one with --draft")
        if self.processor.min_p or self.processor.needs_context or self.processor.allowed:
            raise ValueError(
                "transformers is run with temperature, top-k and top-p only; leave the rest out"
            )

    def __call__(self, numbers: range) -> list[Sample]:
        """Samples by number."""
        return [self._one(number) for number in numbers]

    def _one(self, number: int) -> Sample:
        import torch

        prompt = self.prompts[number % len(self.prompts)]
        ids = torch.tensor([prompt], device=self.target.device)
        rounds = Rounds()
        torch.manual_seed((self.seed << 32) + number)
        output = self.target.model.generate(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=self.max_new_tokens,
            streamer=rounds,
            **self._sampling(),
            **self._assistance(),
            **self.options,
        )
        tokens = tuple(int(token) for token in output[0, len(prompt) :])
        return Sample(tuple(prompt), tokens, tuple(rounds.sizes[1:]))

    def _sampling(self) -> dict[str, Any]:
        p = self.processor
        if p.temperature == 0:
            return {"do_sample": False}
        return {"do_sample": True, "temperature": p.temperature, "top_k": p.top_k, "top_p": p.top_p}

    def _assistance(self) -> dict[str, Any]:
        if self.method == "plain":
            return {}
        if self.method == "prompt-lookup":
            return {"prompt_lookup_num_tokens": self.gamma}
        if self.method == "early-exit":
            self._set_window(self.target.model)
            return {"assistant_early_exit": self.exit_layer}
        assert self.draft is not None
        self._set_window(self.draft.model)
        weight = {"assistant_ensemble_weight": self.weight} if self.method == "ensemble" else {}
        return {"assistant_model": self.draft.model, **weight}

    def _set_window(self, model: Any) -> None:
        config = model.generation_config
        config.num_assistant_tokens = self.gamma
        config.num_assistant_tokens_schedule = self.schedule
        config.assistant_confidence_threshold = self.confidence


@dataclass(frozen=True)
class VLLM:
    """vLLM's offline engine; ``options`` are those of ``vllm.LLM`` (``speculative_config``...)."""

    model: str
    prompts: Sequence[tuple[int, ...]]
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    max_new_tokens: int = 64
    seed: int = 0
    options: dict[str, Any] = field(default_factory=dict)

    def __call__(self, numbers: range) -> list[Sample]:
        """Samples by number, one batch; each has a seed of its own."""
        vllm = _import_vllm()
        prompts = [self.prompts[n % len(self.prompts)] for n in numbers]
        settings = [
            vllm.SamplingParams(
                temperature=self.temperature,
                top_k=self.top_k or -1,
                top_p=self.top_p,
                max_tokens=self.max_new_tokens,
                seed=(self.seed << 32) + n,
            )
            for n in numbers
        ]
        asked = [{"prompt_token_ids": list(prompt)} for prompt in prompts]
        found = self._engine(vllm).generate(asked, settings, use_tqdm=False)
        return [
            Sample(tuple(prompt), tuple(one.outputs[0].token_ids))
            for prompt, one in zip(prompts, found, strict=True)
        ]

    def _engine(self, vllm: Any) -> Any:
        engines: dict[str, Any] = self.__dict__.setdefault("_engines", {})
        if self.model not in engines:
            engines[self.model] = vllm.LLM(self.model, **self.options)
        return engines[self.model]


def _import_vllm() -> Any:
    try:
        import vllm
    except ImportError as error:
        raise ValueError(f"vLLM is not installed ({error}); pip install vllm") from error
    return vllm
