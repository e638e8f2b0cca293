"""From the options of ``specproof audit`` to engines, targets and prompts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cyclopts import Parameter

from papers_check.audit.engines import VLLM, Specproof, Transformers
from papers_check.audit.run import Engine
from papers_check.audit.targets import FileTarget, ModelTarget, Target, is_file
from sim.losslessness.sample_files import Header

if TYPE_CHECKING:
    from gpu_runtime.models import LanguageModel
    from gpu_runtime.sampling import Processor

DTYPES = ("float32", "float64", "bfloat16", "float16")
ENGINES = ("specproof", "transformers", "vllm")
OWN_TOP_K = 50
"""What transformers filters with unless it is told otherwise."""
PROMPTS = 8
"""HumanEval prompts that take turns."""


@Parameter(name="*")
@dataclass(frozen=True)
class Judging:
    """How samples are judged.

    Parameters
    ----------
    level:
        Probability of a false alarm, whenever the audit stops.
    places:
        Also bet on places of the round; for rules without state whose rounds are known.
    ulps:
        Size of a near tie of a greedy engine, in units in the last place.
    dtype:
        Precision of the engine and of the target: float32, float64, bfloat16 or float16.
    device:
        cpu or cuda.
    state:
        File for the state of the audit, from which it can be taken up again.
    keep_going:
        Go on to the last sample after a fault was found.
    picture:
        PNG or SVG file for the evidence against samples.
    json:
        Print JSON instead of tables.
    """

    level: float = 1e-9
    places: bool = False
    ulps: float = 8.0
    dtype: str = "float32"
    device: str = "cpu"
    state: Path | None = None
    keep_going: bool = False
    picture: Path | None = None
    json: bool = False


@Parameter(name="*")
@dataclass(frozen=True)
class LiveSettings:
    """What an engine is asked to do.

    Parameters
    ----------
    engine:
        specproof (our runtime), transformers, or vllm.
    target:
        A model by alias, name or folder.
    draft:
        The draft model.
    method:
        For transformers: plain, assisted, prompt-lookup, ensemble or early-exit.
    verifier:
        For specproof: a name in `specproof list`, or autoregressive.
    gamma:
        Draft length of a round.
    drafts:
        Drafts a round (K), for verifiers that take several.
    weight:
        The target's weight in transformers' static ensemble.
    exit_layer:
        Layers of the early-exit draft.
    max_new_tokens:
        Largest length of an output.
    temperature:
        0 is greedy decoding, and is audited as such.
    top_k:
        Sample from the k likeliest tokens only; default 50 for transformers (its own), else off.
    top_p:
        Sample from the smallest set of tokens with this mass; 1 is off.
    seed:
        Seed of the samples.
    """

    engine: str = "specproof"
    target: str = "smollm2"
    draft: str | None = "smollm2-draft"
    method: str = "assisted"
    verifier: str = "block"
    gamma: int = 4
    drafts: int = 1
    weight: float = 0.5
    exit_layer: int = 10
    max_new_tokens: int = 64
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        if self.engine not in ENGINES:
            raise ValueError(f"unknown engine {self.engine!r}; choose one of {', '.join(ENGINES)}")

    @property
    def kept(self) -> int:
        """The top-k in force."""
        if self.top_k is not None:
            return self.top_k
        return OWN_TOP_K if self.engine == "transformers" else 0

    def facts(self) -> dict[str, Any]:
        """The settings, for the header of a file and the mark of a state."""
        return {**asdict(self), "top_k": self.kept}

    def header(self, target: Target) -> Header:
        """The header of a file of its samples."""
        from sim.verifiers import VERIFIERS

        rule = VERIFIERS.get(self.verifier) if self.engine == "specproof" else None
        return Header(
            model=self.target,
            vocab_size=target.vocab_size,
            processor=target.settings,
            eos=target.eos,
            stateful=rule is not None and rule.stateful,
            extra={"engine": self.facts()},
        )


@dataclass(frozen=True)
class Built:
    """An engine with what judges it."""

    engine: Engine
    target: Target
    draft: Target | None


def target_of(
    name: str,
    chosen: tuple[float, int, float, float],
    judging: Judging,
    beside: Target | None = None,
) -> Target:
    """A target by name; ``chosen`` is (temperature, top-k, top-p, min-p).

    Args:
        beside: the target that a draft has to share its vocabulary with.

    Raises:
        ValueError: no such target, or filters for a model file.
    """
    if is_file(name):
        if chosen != (1.0, 0, 1.0, 0.0):
            raise ValueError(f"{name} is read as it is; leave temperature and filters out")
        return FileTarget(name)
    from gpu_runtime.models import check_vocabularies
    from gpu_runtime.sampling import Processor

    model = load(name, judging.dtype, judging.device)
    if isinstance(beside, ModelTarget):
        check_vocabularies(beside.model, model)
    width = beside.width if isinstance(beside, ModelTarget) else model.width
    return ModelTarget(model, Processor(*chosen), width)


def load(name: str, dtype: str, device: str) -> LanguageModel:
    """A network by name.

    Raises:
        ValueError: unknown dtype, no GPU, or a name that cannot be loaded.
    """
    import torch

    from gpu_runtime import zoo

    if dtype not in DTYPES:
        raise ValueError(f"unknown dtype {dtype!r}; choose one of {', '.join(DTYPES)}")
    if device == "cuda" and not torch.cuda.is_available():
        raise ValueError("device 'cuda' was asked for, but no GPU is visible; use --device cpu")
    return zoo.load(name, dtype=getattr(torch, dtype), device=device)


def prompts_of(texts: Sequence[str] | None, target: str) -> Sequence[str]:
    """The prompts of a run: those given, else one token for tiny models, else HumanEval."""
    if texts:
        return texts
    if target.startswith("tiny"):
        return ["0"]
    from gpu_runtime.zoo import humaneval_prompts

    return humaneval_prompts(PROMPTS)


def engine_of(live: LiveSettings, judging: Judging, texts: Sequence[str] | None) -> Built:
    """Build an engine and its targets.

    Raises:
        ValueError: settings that do not fit together.
    """
    from gpu_runtime.models import check_vocabularies
    from gpu_runtime.sampling import Processor

    if is_file(live.target):
        raise ValueError(f"an engine runs a network, not {live.target!r}; name one, or use samples")
    model = load(live.target, judging.dtype, judging.device)
    processor = Processor(live.temperature, live.kept, live.top_p)
    prompts = [tuple(model.encode(text)) for text in prompts_of(texts, live.target)]
    drafting = _uses_draft(live)
    draft = load(live.draft, judging.dtype, judging.device) if drafting and live.draft else None
    if draft is not None:
        check_vocabularies(model, draft)
    judge = Processor(live.temperature or 1.0, live.kept, live.top_p)
    beside = None if draft is None else ModelTarget(draft, judge, model.width)
    engine = _engine(live, model, draft, prompts, processor)
    return Built(engine, ModelTarget(model, judge, model.width), beside)


def _uses_draft(live: LiveSettings) -> bool:
    if live.engine == "specproof":
        return live.verifier != "autoregressive"
    return live.engine == "transformers" and live.method in ("assisted", "ensemble")


def _engine(
    live: LiveSettings,
    model: LanguageModel,
    draft: LanguageModel | None,
    prompts: Sequence[tuple[int, ...]],
    processor: Processor,
) -> Engine:
    length, seed = live.max_new_tokens, live.seed
    if live.engine == "specproof":
        chosen = (live.verifier, live.gamma, live.drafts)
        return Specproof(model, draft, prompts, processor, *chosen, length, seed)
    if live.engine == "transformers":
        return Transformers(
            model,
            draft,
            prompts,
            processor,
            live.method,
            live.gamma,
            weight=live.weight,
            exit_layer=live.exit_layer,
            max_new_tokens=length,
            seed=seed,
        )
    sampling = (live.temperature, live.kept, live.top_p)
    return VLLM(live.target, prompts, *sampling, length, seed)
