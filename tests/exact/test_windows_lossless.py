"""Every stopping time is lossless with token, block and (told the rule) greedy block; peeking is
not."""

import itertools
import random
from fractions import Fraction

import pytest

from theory.drafting import fixed
from theory.fields import to_fraction
from theory.generation import Decoder, autoregressive, distance, generate
from theory.models import MarkovModel, Prefix, Rows, TableModel
from theory.verifiers import load_program
from theory.windows import AdaptiveDecoder, Costs, Rule, Sight, Stopping, load_rule, peeking

VERIFIERS = [("token", False), ("block", False), ("greedy_block", True)]
HORIZON = 4


def random_table(rng: random.Random, vocab: int, depth: int) -> TableModel:
    rows = {}
    for length in range(depth):
        for prefix in itertools.product(range(vocab), repeat=length):
            weights = [rng.randint(0, 4) for _ in range(vocab)]
            weights[rng.randrange(vocab)] += 1
            rows[prefix] = [Fraction(w, sum(weights)) for w in weights]
    return TableModel(rows, default=[Fraction(1, vocab)] * vocab)


def pair(seed: int, vocab: int = 2, depth: int = HORIZON) -> tuple[TableModel, TableModel]:
    rng = random.Random(seed)
    return random_table(rng, vocab, depth), random_table(rng, vocab, depth)


def gap(decoder: Decoder, horizon: int) -> Fraction:
    """Exact distance of a decoder's output law to the target's."""
    law = generate(decoder, horizon).tokens
    return to_fraction(distance(law, autoregressive(decoder.target, horizon)))


def law(decoder: Decoder, length: int, horizon: int) -> list[str]:
    """The law of the first ``length`` tokens, in order of the strings."""
    out = dict.fromkeys(itertools.product(range(2), repeat=length), Fraction(0))
    for text, mass in generate(decoder, horizon).tokens.items():
        out[text[:length]] += to_fraction(mass)
    return [str(mass) for mass in out.values()]


def arbitrary(seed: int) -> Rule:
    """A stopping set drawn at random: depends on the values of all drafted tokens."""

    def stop(path: Prefix, draft: Rows) -> bool:
        return random.Random(f"{seed} {path}").random() < 0.35

    return stop


RULES: dict[str, Rule] = {
    "confidence": load_rule("confidence", threshold="2/5"),
    "svip": load_rule("svip", threshold="31/100"),
    "adaedl": load_rule("adaedl", threshold="13/20"),
    "specdecpp": load_rule("specdecpp", threshold="1/2", floor=1),
    "pacer": load_rule("pacer", block=2, threshold="3/5"),
    "pacer, one": load_rule("pacer", block=1, threshold="3/4", growth="6/5"),
    "optimal": load_rule("optimal", rate="3/2", costs=Costs("1/5"), floor=0),
    "optimal, blocks": load_rule("optimal", rate="3/2", costs=Costs("1/10", block=2)),
}


@pytest.mark.parametrize(("verifier", "tell"), VERIFIERS)
@pytest.mark.parametrize("name", RULES)
def test_every_rule_of_the_catalogue_is_lossless(name: str, verifier: str, tell: bool) -> None:
    for seed in range(4):
        window = Stopping(RULES[name])
        decoder = AdaptiveDecoder(*pair(seed), load_program(verifier), window, tell=tell)
        assert gap(decoder, HORIZON) == 0


def test_the_rules_above_do_adapt() -> None:
    """Otherwise losslessness would say nothing: lengths vary, short of the cap."""
    for name, rule in RULES.items():
        lengths = set()
        for seed in range(4):
            target, draft = pair(seed)
            sight = Sight(draft.row, target.row)
            for path in autoregressive(draft, HORIZON - 1):
                stops = (n for n in range(HORIZON) if rule(path[:n], sight))
                lengths.add(next(stops, HORIZON - 1))
        assert len(lengths) > 1, name


@pytest.mark.parametrize(("verifier", "tell"), VERIFIERS)
def test_arbitrary_stopping_times_are_lossless(verifier: str, tell: bool) -> None:
    for seed in range(20):
        window = Stopping(arbitrary(seed))
        decoder = AdaptiveDecoder(*pair(seed), load_program(verifier), window, tell=tell)
        assert gap(decoder, HORIZON) == 0


def test_three_tokens_and_a_longer_horizon() -> None:
    target, draft = pair(1, vocab=3, depth=3)
    for verifier, tell in VERIFIERS:
        window = Stopping(arbitrary(7))
        decoder = AdaptiveDecoder(target, draft, load_program(verifier), window, tell=tell)
        assert gap(decoder, 3) == 0
    target, draft = pair(5, depth=5)
    window = Stopping(arbitrary(3))
    decoder = AdaptiveDecoder(target, draft, load_program("greedy_block"), window, tell=True)
    assert gap(decoder, 5) == 0


def test_block_accepts_at_least_as_much_as_token_under_every_rule() -> None:
    for seed in range(10):
        models, window = pair(seed), Stopping(arbitrary(seed))
        calls = [
            generate(AdaptiveDecoder(*models, load_program(name), window), HORIZON).calls
            for name in ("token", "block")
        ]
        assert to_fraction(calls[1]) <= to_fraction(calls[0])


def uneven(path: Prefix, draft: Rows) -> bool:
    """Stop at once after a first token 1, after two tokens otherwise."""
    return path == (1,) or len(path) == 2


def test_greedy_block_must_follow_the_stopping_tree_of_the_emitted_path() -> None:
    """p = (1/3, 2/3), q = (2/3, 1/3): after a correction the *drafted* length says nothing."""
    target, draft = MarkovModel(["1/3", "2/3"]), MarkovModel(["2/3", "1/3"])
    window, verifier = Stopping(uneven), load_program("greedy_block")
    assert gap(AdaptiveDecoder(target, draft, verifier, window, tell=True), 3) == 0
    assert gap(Decoder(target, draft, verifier, window), 3) == Fraction(1, 9)


def test_a_told_fixed_window_is_the_untold_one() -> None:
    for seed in range(3):
        models, window = pair(seed), Stopping(load_rule("fixed", gamma=2))
        verifier = load_program("greedy_block")
        told = generate(AdaptiveDecoder(*models, verifier, window, tell=True), HORIZON)
        untold = generate(Decoder(*models, verifier, fixed(2)), HORIZON)
        assert told.tokens == untold.tokens
        assert told.calls == untold.calls


HALVES = MarkovModel(["1/2", "1/2"])
SKEWED = MarkovModel(["3/4", "1/4"])


def likely(path: Prefix, draft: Rows) -> bool:
    """Whether the newest token has q >= 2/5."""
    return to_fraction(draft(path[:-1])[path[-1]]) >= Fraction(2, 5)


@pytest.mark.parametrize("verifier", ["token", "block"])
def test_dropping_a_token_for_its_value_is_biased(verifier: str) -> None:
    decoder = Decoder(HALVES, SKEWED, load_program(verifier), peeking.dropping(likely))
    assert law(decoder, 1, 2) == ["5/8", "3/8"]
    longer = {"token": ["5/8", "3/8"], "block": ["41/80", "39/80"]}
    assert law(decoder, 1, 4) == longer[verifier]


@pytest.mark.parametrize("verifier", ["token", "block"])
def test_the_free_repair_makes_dropping_one_token_exact(verifier: str) -> None:
    honest = Stopping(peeking.until_unworthy(likely))
    repaired = peeking.free_repair(load_program(verifier), likely)
    assert gap(Decoder(HALVES, SKEWED, repaired, honest), 3) == 0
    for seed in range(10):
        assert gap(Decoder(*pair(seed), repaired, honest), HORIZON) == 0


@pytest.mark.parametrize("verifier", ["token", "block"])
def test_the_free_repair_keeps_the_number_of_tokens_of_dropping(verifier: str) -> None:
    """On average over the first round: each emits what it sends, and one more."""
    program = load_program(verifier)
    honest = Stopping(peeking.until_unworthy(likely))
    repaired = Decoder(HALVES, SKEWED, peeking.free_repair(program, likely), honest)
    dropped = Decoder(HALVES, SKEWED, program, peeking.dropping(likely))
    for outcome in repaired.round_law((), (), 3):
        assert len(outcome.tokens) == outcome.accepted + 1
    longest = [max(len(o.tokens) for o in d.round_law((), (), 3)) for d in (repaired, dropped)]
    assert longest == [4, 4]


BLOCK_OF_TWO = ["5/16", "3/16", "9/32", "7/32"]


def test_dropping_a_failing_block_of_two_is_biased_and_the_repair_does_not_help() -> None:
    token = load_program("token")
    dropped = Decoder(HALVES, SKEWED, token, peeking.dropping(likely, block=2))
    assert law(dropped, 2, 3) == BLOCK_OF_TWO
    honest = Stopping(peeking.until_unworthy(likely, block=2))
    repaired = Decoder(HALVES, SKEWED, peeking.free_repair(token, likely, block=2), honest)
    assert law(repaired, 2, 3) == BLOCK_OF_TWO
    assert gap(Decoder(HALVES, SKEWED, token, honest), 3) == 0  # sending the block is exact


def test_a_budget_that_reads_the_next_confidence_is_biased() -> None:
    """DSpark, appendix A: p = (.7, .3), q = (.5, .5). A global search admits slot 1 only if the
    confidence after it is high, which depends on the token in it."""
    target = MarkovModel(["7/10", "3/10"])
    draft = TableModel({"": ["1/2", "1/2"], "0": ["9/10", "1/10"]}, default=["1/2", "1/2"])

    def sure_next(path: Prefix, rows: Rows) -> bool:
        return to_fraction(max(rows(path))) >= Fraction(4, 5)

    decoder = Decoder(target, draft, load_program("token"), peeking.dropping(sure_next))
    assert law(decoder, 1, 2) == ["17/20", "3/20"]


@pytest.mark.parametrize("seed", range(6))
def test_peeking_is_biased_in_general_and_stopping_is_not(seed: int) -> None:
    models, token = pair(seed + 40), load_program("token")
    honest = Stopping(peeking.until_unworthy(likely))
    assert gap(Decoder(*models, token, honest), HORIZON) == 0
    biased = [gap(Decoder(*pair(s + 40), token, peeking.dropping(likely)), HORIZON) for s in (0, 1)]
    assert max(biased) > 0


def test_the_clairvoyant_oracle_is_no_decoder() -> None:
    """Its law per position is min(p, q) + (1 - alpha) p; drawing the residual repairs it."""
    oracle = Decoder(HALVES, SKEWED, peeking.clairvoyant, fixed(2))
    assert law(oracle, 1, 3) == ["5/8", "3/8"]
    assert gap(Decoder(HALVES, SKEWED, load_program("token"), fixed(2)), 3) == 0


def test_the_clairvoyant_oracle_is_exact_for_one_hot_targets() -> None:
    target = MarkovModel(["1", "0"], [["0", "1"], ["1", "0"]])
    draft = MarkovModel(["1/3", "2/3"], [["1/4", "3/4"], ["1/2", "1/2"]])
    assert gap(Decoder(target, draft, peeking.clairvoyant, fixed(3)), HORIZON) == 0
