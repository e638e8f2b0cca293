"""From logits to laws: filters, penalties, ties, NaN, and inverse-CDF draws."""

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gpu_runtime.finish import cut_at_text, cut_block
from gpu_runtime.penalties import Context, counts
from gpu_runtime.requests import Request, contexts
from gpu_runtime.sampling import Processor, draw, fit_vocabulary, require_laws
from theory import laws

F = Fraction


def log_row(*values: str | int | Fraction, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.tensor([float(F(v)) for v in values], dtype=dtype).log()


def law(processor: Processor, logits: torch.Tensor, context: Context | None = None) -> list[float]:
    return [float(x) for x in processor(logits, context).double().exp()]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    ("settings", "raw", "expected"),
    [
        ({"top_k": 2}, ("2/5", "1/5", "1/5", "1/5"), ("2/3", "1/3", 0, 0)),
        ({"top_p": 0.8}, ("1/2", "3/10", "1/5"), ("5/8", "3/8", 0)),
        ({"top_p": 0.8}, ("3/5", "1/5", "1/5"), ("3/4", "1/4", 0)),
        ({"top_k": 1}, ("1/4", "1/4", "1/4", "1/4"), (1, 0, 0, 0)),
        ({"top_p": 0.4}, ("1/5", "1/5", "1/5", "1/5", "1/5"), ("1/2", "1/2", 0, 0, 0)),
        ({"min_p": 0.5}, ("1/2", "1/4", "1/8", "1/8"), ("2/3", "1/3", 0, 0)),
        ({"allowed": (1, 3)}, ("1/2", "1/4", "1/8", "1/8"), (0, "2/3", 0, "1/3")),
        ({"temperature": 0.5}, ("2/3", "1/3"), ("4/5", "1/5")),
        ({"temperature": 0}, ("1/4", "3/8", "3/8"), (0, 1, 0)),
        ({"temperature": 0, "allowed": (0, 2)}, ("1/4", "1/2", "1/4"), (1, 0, 0)),
    ],
)
def test_filters(
    settings: dict[str, object],
    raw: tuple[str, ...],
    expected: tuple[str | int, ...],
    dtype: torch.dtype,
) -> None:
    got = law(Processor(**settings), log_row(*raw, dtype=dtype))  # type: ignore[arg-type]
    tolerance = 1e-12 if dtype == torch.float64 else 1e-6
    assert got == pytest.approx([float(F(x)) for x in expected], abs=tolerance)
    assert [x == 0 for x in got] == [F(x) == 0 for x in expected]


@given(
    weights=st.lists(st.integers(1, 9), min_size=2, max_size=8),
    k=st.integers(1, 8),
    mass=st.sampled_from(["1/3", "1/2", "4/5", "9/10"]),
    ratio=st.sampled_from(["1/10", "1/2"]),
)
def test_filters_agree_with_the_exact_operators(
    weights: list[int], k: int, mass: str, ratio: str
) -> None:
    row = laws.as_row([F(w, sum(weights)) for w in weights])
    exact = laws.min_p(laws.top_p(laws.top_k(row, k), F(mass)), F(ratio))
    processor = Processor(top_k=k, top_p=float(F(mass)), min_p=float(F(ratio)))
    got = law(processor, torch.tensor([float(x) for x in row], dtype=torch.float64).log())
    assert got == pytest.approx([float(x) for x in exact], abs=1e-12)


def test_top_p_sorts_the_whole_row_only_where_it_must() -> None:
    flat = torch.zeros(2, 2000, dtype=torch.float64)
    flat[1, 7] = 20.0
    kept = Processor(top_p=0.9)(flat).exp() > 0
    assert kept.sum(-1).tolist() == [1800, 1]
    assert kept[0, :1800].all()


def test_wide_rows_keep_ties_in_token_order() -> None:
    logits = torch.zeros(5000)
    logits[4000:] = 1.0
    assert Processor(top_k=3)(logits).exp().nonzero().flatten().tolist() == [4000, 4001, 4002]


def test_greedy_takes_the_argmax_before_any_rounding_to_sixteen_bits() -> None:
    logits = torch.tensor([10.0, 10.03, 9.0])
    assert law(Processor(0.0), logits) == [0, 1, 0]
    assert law(Processor(0.0), logits.bfloat16()) == [1, 0, 0]


def test_bfloat16_logits_give_float32_laws_and_float64_stays() -> None:
    assert Processor()(torch.zeros(3, dtype=torch.bfloat16)).dtype == torch.float32
    assert Processor()(torch.zeros(3, dtype=torch.float64)).dtype == torch.float64


def test_padding_ids_get_no_mass() -> None:
    fitted = fit_vocabulary(torch.zeros(4), real=3, width=4)
    assert law(Processor(), fitted) == pytest.approx([1 / 3, 1 / 3, 1 / 3, 0])
    longer = fit_vocabulary(torch.zeros(2, 4), real=3, width=6)
    assert longer.shape == (2, 6)
    assert law(Processor(), longer[1]) == pytest.approx([1 / 3, 1 / 3, 1 / 3, 0, 0, 0])


@pytest.mark.parametrize(
    "settings",
    [{}, {"temperature": 0}, {"top_k": 2}, {"top_p": 0.5}, {"min_p": 0.1}, {"allowed": (0,)}],
)
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_row_with_a_nan_is_refused(settings: dict[str, object], bad: float) -> None:
    logits = torch.tensor([[0.0, 1.0, 2.0, 3.0], [0.0, bad, 2.0, 3.0]])
    if settings.get("allowed") == (0,) and bad == math.inf:
        bad_rows = Processor(**settings)(torch.full((2, 4), bad))  # type: ignore[arg-type]
    else:
        bad_rows = Processor(**settings)(logits)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"somewhere: row \(\d,\) is not a law"):
        require_laws(bad_rows, "somewhere")


def test_a_row_without_any_token_left_is_refused() -> None:
    with pytest.raises(ValueError, match="the filters leave no token"):
        require_laws(Processor(allowed=(9,))(torch.zeros(1, 3)), "row")


@pytest.mark.parametrize(
    "settings",
    [
        {"temperature": -1},
        {"temperature": math.nan},
        {"top_k": -1},
        {"top_p": 0},
        {"top_p": 1.5},
        {"min_p": 2},
        {"allowed": ()},
        {"repetition_penalty": 0},
    ],
)
def test_settings_are_checked(settings: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(settings))):
        Processor(**settings)  # type: ignore[arg-type]


def test_draw_uses_half_open_buckets_and_skips_zeros() -> None:
    row = log_row(0, "1/2", 0, "1/2", 0)
    uniforms = torch.tensor([0.0, 0.25, np.nextafter(0.5, 0), 0.5, np.nextafter(1, 0)])
    assert draw(row.expand(5, -1), uniforms.double()).tolist() == [1, 1, 1, 3, 3]


def test_draw_falls_back_to_the_last_possible_token() -> None:
    row = log_row("1/3", "1/3", "1/3", 0)
    assert int(draw(row, torch.tensor(1.0, dtype=torch.float64))) == 2


def test_draw_follows_the_law_in_float32_at_a_real_vocabulary() -> None:
    generator = torch.Generator().manual_seed(0)
    row = torch.log_softmax(3 * torch.randn(50_000, generator=generator), -1)
    grid = (torch.arange(200_000, dtype=torch.float64) + 0.5) / 200_000
    tokens = draw(row.expand(200_000, -1)[:1], grid[:1])  # the same call, batched below
    edges = row.double().exp().cumsum(-1)
    expected = torch.searchsorted(edges / edges[-1], grid, right=True)
    drawn = torch.cat([draw(row.expand(500, -1), part) for part in grid[:2000].split(500)])
    assert tokens.tolist() == expected[:1].tolist()
    assert drawn.tolist() == expected[:2000].tolist()


def request_with(output: list[int], prompt: tuple[int, ...] = (3,)) -> Request:
    return Request(0, (0, 0), [*prompt, *output], len(prompt))


def test_penalties_count_the_output_and_the_drafts_before_each_row() -> None:
    drafted = torch.tensor([[[-1, -1], [5, -1], [5, 7]]])
    context = contexts([request_with([5])], drafted, ())
    assert counts(context.output, 8)[0, :, [5, 7]].tolist() == [[1, 0], [2, 0], [2, 1]]
    logits = torch.zeros(1, 3, 8, dtype=torch.float64)
    logits[..., 5], logits[..., 7] = 2, 1
    rows = Processor(frequency_penalty=0.5)(logits, context)[0]
    gaps = (rows[:, [5, 7]] - rows[:, [0]]).tolist()
    assert gaps == [pytest.approx(x) for x in ([1.5, 1.0], [1.0, 1.0], [1.0, 0.5])]


def test_presence_counts_once_and_repetition_sees_the_prompt() -> None:
    context = contexts([request_with([5, 5])], torch.full((1, 1, 0), -1), ())
    logits = torch.tensor([[[2.0, -1.0, 2.0, 2.0, -1.0, 2.0]]], dtype=torch.float64)
    rows = Processor(presence_penalty=0.25)(logits, context)[0, 0]
    assert float(rows[0] - rows[5]) == pytest.approx(0.25)
    rows = Processor(repetition_penalty=2.0)(logits, context)[0, 0]
    assert [float(rows[0] - rows[i]) for i in (3, 5)] == pytest.approx([1.0, 1.0])


def test_a_minimum_length_masks_the_stop_on_exactly_the_early_rows() -> None:
    drafted = torch.tensor([[[-1, -1, -1], [1, -1, -1], [1, 1, -1], [1, 1, 1]]])
    context = contexts([request_with([1, 1])], drafted, (2,))
    rows = Processor(min_new_tokens=4)(torch.zeros(1, 4, 4), context)
    assert (rows[0, :, 2] == -torch.inf).tolist() == [True, True, False, False]


def test_a_rule_sees_the_drafted_prefix_of_each_row() -> None:
    def no_zero_after_two(logits: torch.Tensor, context: Context) -> torch.Tensor:
        late = (context.output >= 0).sum(-1) >= 2
        logits = logits.clone()
        logits[..., 0] = logits[..., 0].masked_fill(late, -torch.inf)
        return logits

    drafted = torch.tensor([[[-1, -1], [0, -1], [0, 0]]])
    context = contexts([request_with([1])], drafted, ())
    logits = log_row("1/2", "3/10", "1/5").expand(1, 3, 3)
    rows = Processor(rule=no_zero_after_two)(logits, context)[0].exp()
    assert rows[0].tolist() == pytest.approx([0.5, 0.3, 0.2])
    assert rows[1].tolist() == rows[2].tolist() == pytest.approx([0, 0.6, 0.4])


def test_penalties_without_a_context_are_refused() -> None:
    with pytest.raises(ValueError, match="need a Context"):
        Processor(frequency_penalty=1.0)(torch.zeros(3))


@pytest.mark.parametrize(
    ("block", "remaining", "eos", "stop", "expected"),
    [
        ([4, 9, 5, 6, 7], 10, {9}, set(), (2, "eos")),
        ([10, 11, 3, 20, 21, 22], 5, set(), {3}, (3, "stop")),
        ([10, 11, 3, 20, 21, 22], 2, set(), {3}, (2, "length")),
        ([10, 11, 3], 3, set(), {3}, (3, "stop")),
        ([1, 2, 9, 4, 5], 9, {9}, set(), (3, "eos")),
        ([1, 2], 3, {9}, set(), (2, None)),
    ],
)
def test_the_earliest_end_wins(
    block: list[int],
    remaining: int,
    eos: set[int],
    stop: set[int],
    expected: tuple[int, str | None],
) -> None:
    assert cut_block(block, remaining, eos, stop) == expected


def test_a_stop_string_across_tokens_cuts_tokens_and_text_together() -> None:
    pieces = ["a", "b", " ha", " h", "a x", "y"]

    def text(tokens: object) -> str:
        return "".join(pieces[i] for i in tokens)  # type: ignore[attr-defined]

    assert cut_at_text(range(6), 3, (" ha ha",), text) == (5, "ab")
    assert cut_at_text(range(4), 4, (" ha ha",), text) is None
