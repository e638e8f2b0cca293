import marimo

__generated_with = "0.25.2"
app = marimo.App(app_title="Testing losslessness: the sample it takes, and what tests cannot see")

with app.setup(hide_code=True):
    import math
    from dataclasses import replace
    from fractions import Fraction

    import marimo as mo

    from theory import MarkovModel
    from theory.drafting import fixed
    from theory.fields import minimum, to_fraction
    from theory.generation import Decoder, autoregressive, distance
    from theory.laws import residual
    from theory.notebooks import _charts as charts
    from theory.notebooks import _page as page
    from theory.power import (
        noncentrality,
        passes_any,
        power_against,
        same_string,
        sample_size,
    )
    from theory.verifiers import greedy_block
    from theory.verifiers.common import Round, load_program


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    # 9. How to test losslessness

    An engine claims to sample from $p$. We draw $n$ strings and compare their counts with their
    exact probabilities (Pearson's $\chi^2$). If the engine really samples from $p'$:

    **Theorem.** With $B$ bins the statistic is nearly non-central $\chi^2$ with $B - 1$ degrees of
    freedom and non-centrality $n\lambda$,

    $$\lambda = \sum_s \frac{(p'(s) - p(s))^2}{p(s)} \;\ge\; 4\,\mathrm{TV}(p', p)^2 ,$$

    so the sample that finds the fault with given false alarm and power is
    $n = \mathrm{ncp}(B - 1) / \lambda$. **Merging strings can only lose**: a test that looks at a
    function of the string has $\lambda_{\text{view}} \le \lambda$, and if the two laws agree on
    that view, *no* sample is large enough.

    **Proof.** The counts have mean $n p'$; their standardised squares
    $(N_s - n p)^2 / (n p)$ sum to a $\chi^2$ whose mean is shifted by
    $\sum (n p' - n p)^2 / (n p) = n \lambda$. Cauchy–Schwarz:
    $(\sum |p' - p|)^2 \le \sum (p' - p)^2 / p \cdot \sum p$, and the left side is
    $4\,\mathrm{TV}^2$. Merging two strings: $\frac{(a + b)^2}{c + d} \le \frac{a^2}{c} +
    \frac{b^2}{d}$. $\square$

    What a test can see is therefore decided *before* any sample is drawn: by the model it runs
    on, and by what it looks at. Take a real kind of bug: a verifier whose target row is **one
    position late**.
    """)
    return


@app.cell
def _():
    def stale_row(fx, target, draft, drafts, carry=()):
        """Token verification that judges position i + 1 by the target row of position i."""
        (path,) = drafts
        for i, x in enumerate(path):
            p, q = target(path[: max(i - 1, 0)]), draft(path[:i])
            if not fx.flip(minimum(1, p[x] / q[x]), i):
                return Round(i, (*path[:i], fx.choose(residual(p, q), len(path))))
        return Round(len(path), (*path, fx.choose(target(path), len(path))))

    return (stale_row,)


@app.cell(hide_code=True)
def _():
    shift = mo.ui.slider(0, 12, value=4, label="context dependence, 24ths", show_value=True)
    return (shift,)


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## The same bug on two models

    The draft's row is $q = (\tfrac23, \tfrac13)$ everywhere, $\gamma = 2$. The target's row is
    $(\tfrac12, \tfrac12)$ at first, $(\tfrac12 + \delta, \tfrac12 - \delta)$ after token 0 and
    $(\tfrac12 - \delta, \tfrac12 + \delta)$ after token 1. With $\delta = 0$ all rows are equal.
    """)
    return


@app.cell(hide_code=True)
def _(shift):
    shift
    return


@app.cell
def _(shift, stale_row):
    horizon = 3
    guess = MarkovModel(["2/3", "1/3"])

    def context_model(delta):
        half = Fraction(1, 2)
        return MarkovModel(
            [half, half], [[half + delta, half - delta], [half - delta, half + delta]]
        )

    def laws(delta):
        """The target's law of three tokens, and the buggy engine's, as fractions."""
        target = context_model(delta)
        found = page.text_law(stale_row, target, guess, gamma=2, horizon=horizon)
        truth = autoregressive(target, horizon)
        return tuple({k: to_fraction(v) for k, v in law.items()} for law in (truth, found))

    assert distance(*laws(Fraction(0))) == 0  # equal rows: this bug is invisible, for ever
    sweep = []
    for n in range(1, 12):
        truth_n, found_n = laws(Fraction(n, 24))
        far = distance(truth_n, found_n)
        assert far > 0
        assert noncentrality(truth_n, found_n) >= 4 * far**2
        sweep.append({"delta": n / 24, "tv": float(far), "law": "three tokens"})
    charts.curves(
        [{"delta": 0.0, "tv": 0.0, "law": "three tokens"}, *sweep],
        x=("delta", "context dependence δ (probability)"),
        y=("tv", "TV(engine, target)"),
        by=("law", "law of"),
        zero=True,
    ).properties(title="A model with equal rows cannot show a stale row")
    return guess, laws


@app.cell(hide_code=True)
def _(laws, shift):
    truth, found = laws(Fraction(shift.value, 24))
    gap = distance(truth, found)
    if gap == 0:
        verdict = "no sample finds it"
    else:
        needed = math.ceil(sample_size(truth, found))
        verdict = f"{needed:,} strings find it with power 0.999 at 1e-9 false alarms"
    lam = page.exact(noncentrality(truth, found))
    mo.md(
        rf"At $\delta = {page.exact(Fraction(shift.value, 24))}$ the law of three tokens is at "
        rf"total variation ${page.exact(gap)}$, $\lambda = {lam}$: "
        f"{verdict}."
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## What the test looks at

    Now four faults on the model with $\delta = \tfrac16$, and four views of the same samples: the
    number of tokens kept in the first round, the first token, each of three tokens by itself, and
    all three jointly. A cell is the total variation that the view sees; 0 means blind.
    """)
    return


@app.cell
def _(guess, laws, stale_row):
    target = MarkovModel(["1/2", "1/2"], [["2/3", "1/3"], ["1/3", "2/3"]])
    token = load_program("token")

    def correction_from_p(fx, target, draft, drafts, carry=()):
        """Every correction is drawn from p instead of the residual."""
        outcome = token(fx, target, draft, drafts)
        kept = outcome.tokens[: outcome.accepted]
        if len(kept) == len(drafts[0]):
            return outcome
        return Round(len(kept), (*kept, fx.choose(target(kept), "again")))

    def bonus_from_draft(fx, target, draft, drafts, carry=()):
        """The bonus is drawn from q."""
        outcome = token(fx, target, draft, drafts)
        if outcome.accepted < len(drafts[0]):
            return outcome
        path = drafts[0]
        return Round(len(path), (*path, fx.choose(draft(path), "again")))

    def forgets_carry(fx, target, draft, drafts, carry=()):
        """Greedy block verification that forgets what it owes."""
        return replace(greedy_block.program(fx, target, draft, drafts), carry=())

    def kept_law(rule):
        """The law of tau in a round of two drafted tokens."""
        law: dict[int, Fraction] = {}
        for outcome, mass in Decoder(target, guess, rule, fixed(2)).round_law((), (), 2).items():
            law[outcome.accepted] = law.get(outcome.accepted, Fraction(0)) + to_fraction(mass)
        return law

    def seen(law, view):
        """The law of a function of the string."""
        out: dict[object, Fraction] = {}
        for text, mass in law.items():
            out[view(text)] = out.get(view(text), Fraction(0)) + to_fraction(mass)
        return out

    right = laws(Fraction(1, 6))[0]
    # name: (the faulty rule, the rule that it should be)
    faults = {
        "stale target row": (stale_row, token),
        "correction drawn from p": (correction_from_p, token),
        "bonus drawn from q": (bonus_from_draft, token),
        "greedy block without carry": (forgets_carry, load_program("greedy_block")),
    }
    seen_by = {}
    for fault, (rule, rightful) in faults.items():
        wrong = page.text_law(rule, target, guess, gamma=2, horizon=3)
        wrong = {text: to_fraction(mass) for text, mass in wrong.items()}
        singles = [
            distance(seen(right, lambda t, i=i: t[i]), seen(wrong, lambda t, i=i: t[i]))
            for i in range(3)
        ]
        seen_by[fault] = [
            distance(kept_law(rightful), kept_law(rule)),
            singles[0],
            max(singles),
            distance(right, wrong),
        ]
        # merging loses: no view sees more than the joint law, in lambda either
        pair = seen(right, lambda t: t[0]), seen(wrong, lambda t: t[0])
        assert noncentrality(*pair) <= noncentrality(right, wrong)
    assert all(row[3] > 0 for row in seen_by.values())  # the joint law sees all four
    assert seen_by["correction drawn from p"][0] == 0  # acceptance statistics are blind to it
    assert seen_by["bonus drawn from q"][:2] == [0, 0]
    views = ["accepted length", "first token", "best single token", "three tokens jointly"]
    mo.md(
        page.table(
            ["fault", *views],
            [[fault, *(f"{float(x):.4f}" for x in row)] for fault, row in seen_by.items()],
        )
    )
    return right, seen


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    Acceptance statistics, the favourite health check of engines, are blind to three of the four;
    so is the first token by itself. The joint law of enough tokens to cross into a second round
    sees all of them.

    ## Power against sample size

    The stale row again, at $10^{-9}$ false alarms. The last line is the same bug on the model
    with equal rows: its power is the false-alarm rate at every sample size.
    """)
    return


@app.cell
def _(guess, laws, right, seen, stale_row):
    stale = laws(Fraction(1, 6))[1]
    view_of = {
        "three tokens jointly": lambda text: text,
        "last two tokens": lambda text: text[1:],
        "third token alone": lambda text: text[2],
    }
    pairs = {name: (seen(right, view), seen(stale, view)) for name, view in view_of.items()}
    pairs["equal rows, jointly"] = laws(Fraction(0))
    sizes = sorted({round(10 ** (k / 8)) for k in range(8, 49)})
    powers = [
        {"n": float(n), "view": name, "power": power_against(law, wrong_law, n)}
        for name, (law, wrong_law) in pairs.items()
        for n in sizes
    ]
    equal_rows = pairs["equal rows, jointly"]
    blind = [power_against(equal_rows[0], equal_rows[1], n) for n in sizes]
    assert max(blind) < 2e-9  # the false-alarm rate, and nothing more
    costs = {name: sample_size(*pair) for name, pair in list(pairs.items())[:3]}
    assert costs["three tokens jointly"] < costs["last two tokens"] < costs["third token alone"]
    charts.curves(
        powers,
        x=("n", "sample size n (strings of three tokens)"),
        y=("power", "probability that the fault is found"),
        by=("view", "the test looks at"),
        points=False,
        zero=True,
        log=True,
    ).properties(title="Same samples, same bug: the view decides")
    return (costs,)


@app.cell(hide_code=True)
def _(costs):
    mo.md(
        "Strings needed for power 0.999: "
        + ", ".join(f"{name} **{math.ceil(n):,}**" for name, n in costs.items())
        + "."
    )
    return


@app.cell(hide_code=True)
def _(laws):
    fair = {0: Fraction(1, 2), 1: Fraction(1, 2)}
    biased = {0: Fraction(5, 8), 1: Fraction(3, 8)}
    coins = autoregressive(MarkovModel(["1/2", "1/2"]), 3)
    sixth = Fraction(1, 6)
    tasks = page.check(
        [
            page.Exercise(
                r"An engine emits token 0 with $\tfrac58$ instead of $\tfrac12$. What is "
                r"$\lambda$ for one token?",
                r"$2 \cdot (\tfrac18)^2 / \tfrac12$. (And $4\,\mathrm{TV}^2$ is the same: with "
                r"two equal bins Cauchy–Schwarz is tight.)",
                2 * Fraction(1, 8) ** 2 / Fraction(1, 2),
                noncentrality(fair, biased),
            ),
            page.Exercise(
                r"A flaky test finds the fault with probability 0.9. The CI reruns red tests, and "
                r"is green if any of three runs is green. How often does the fault pass?",
                r"$1 - 0.9^3$: retries multiply what is missed, not what is found.",
                1 - 0.9**3,
                passes_any(0.9, 3),
            ),
            page.Exercise(
                r"Two correct engines draw three fair coins each. How often are the texts equal? "
                r"(This is why comparing texts is no test under sampling.)",
                r"$\sum_s p(s)^2 = 8 \cdot (\tfrac18)^2$.",
                8 * Fraction(1, 8) ** 2,
                same_string(coins),
            ),
            page.Exercise(
                r"$\delta = \tfrac16$: the stale verifier judges the second draft by "
                r"$(\tfrac12, \tfrac12)$. How likely is its text to begin 0 0, when the target "
                r"says $\tfrac12 \cdot \tfrac23 = \tfrac13$?",
                r"Both tokens drafted and kept: $(\tfrac23 \cdot \tfrac34)^2 = \tfrac14$; the "
                r"residual never emits 0; and after a first token that was a correction, the text "
                r"does not begin with 0. So $\tfrac14$.",
                Fraction(1, 4),
                sum(mass for text, mass in laws(sixth)[1].items() if text[:2] == (0, 0)),
            ),
        ]
    )
    return (tasks,)


@app.cell(hide_code=True)
def _(tasks):
    answers = page.answers(tasks)
    return (answers,)


@app.cell(hide_code=True)
def _(answers, tasks):
    page.sheet(tasks, answers)
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Sources

    * K. Pearson 1900: the statistic; its non-central law: P. Patnaik, *The non-central
      $\chi^2$- and F-distributions and their applications*, 1949.
    * The faults are simplified from public bug reports of inference engines (a stale or late row,
      a correction from the wrong law, a bonus from the draft) and from Z. Sun et al. 2024, arXiv
      2403.10444 (greedy block verification needs its carry).
    * The exact distances, the blindness of views and the sample sizes are derived here.
    """)
    return


if __name__ == "__main__":
    app.run()
