import marimo

__generated_with = "0.25.2"
app = marimo.App(app_title="Hybrid drafting is renewal reward: one threshold, and it is not 6")

with app.setup(hide_code=True):
    from fractions import Fraction

    import marimo as mo
    import numpy as np

    from theory.notebooks import _charts as charts
    from theory.notebooks import _page as page
    from theory.payoff import (
        CACHE,
        MODEL,
        best,
        by_threshold,
        rate,
        regret,
        revealed,
        surplus,
        switch,
        threshold,
    )


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    # 8. Cache draft or model draft?

    Hybrid decoders have two sources of drafts: a **cache** that copies a continuation it has
    seen (free to draft, sometimes long, often useless), and a **model** that drafts a few tokens
    at a cost. Before each round they see features of the situation and choose. Let arm $a$ keep
    $\mu_a$ drafted tokens on average in this situation, so it emits $\mu_a + 1$, and let the
    whole round cost $C_a$.

    **Theorem.** Rounds are renewals, so a policy earns $R = E[\mu + 1] / E[C]$ tokens per time.
    The best rate $\lambda^*$ is the root of the convex, decreasing function

    $$F(\lambda) = E\Bigl[\max_a\, \bigl(\mu_a + 1 - \lambda C_a\bigr)\Bigr],$$

    and it is optimal to take the cache iff

    $$\mu_C \;\ge\; \theta^* = \mu_m + \lambda^* (C_C - C_m) .$$

    Any other policy $g$ loses exactly
    $\;\lambda^* - R_g = E\bigl[\,|\mu_C - \theta^*|\; 1\{\text{wrong side}\}\,\bigr] / E[C_g]$.

    **Proof.** For any policy $E[\mu + 1 - \lambda C] \le F(\lambda)$, and the left side is
    $E[C]\,(R - \lambda)$. At the root it reads $E[C](R - \lambda^*) \le 0$: nobody earns more
    than $\lambda^*$, and a policy that takes the maximum in every situation earns it. The maximum
    compares $\mu_C - \lambda^* C_C$ with $\mu_m - \lambda^* C_m$, which is the threshold. What
    $g$ gives away in a situation is the difference of the two, $|\mu_C - \theta^*|$; divide by
    $E[C_g]$. $\square$

    Two corollaries: *the better ratio* $(\mu + 1)/C$ *does not win* (the alternative is not to
    sit still but to earn $\lambda^*$); and an error matters only **near** $\theta^*$, so precision
    and recall of "long" drafts are the wrong score for a predictor.
    """)
    return


@app.cell(hide_code=True)
def _():
    cache_ms = mo.ui.slider(20, 80, value=48, label="round with a cache draft, ms", show_value=True)
    model_ms = mo.ui.slider(20, 80, value=40, label="round with a model draft, ms", show_value=True)
    kept = mo.ui.slider(0, 60, value=8, label=r"$\mu_m$ in tenths of a token", show_value=True)
    return cache_ms, kept, model_ms


@app.cell(hide_code=True)
def _(cache_ms, kept, model_ms):
    mo.vstack([mo.md("## The two sources, with your numbers"), cache_ms, model_ms, kept])
    return


@app.cell
def _(cache_ms, kept, model_ms):
    # How long cache drafts are on average, and how often: an assumption of this page.
    law = {
        **{0: "1/2", 1: "3/20", 2: "1/10", 3: "7/100", 4: "1/20"},
        **{6: "1/25", 8: "3/100", 12: "3/100", 24: "3/100"},
    }
    model = Fraction(kept.value, 10)
    problem = switch(law, model, cache_ms.value, model_ms.value)
    optimum = best(problem)
    theta = threshold(optimum.rate, model, cache_ms.value, model_ms.value)
    predicted = [Fraction(length) for length in law]

    def earned(theta):
        """Tokens per ms of the policy with this threshold."""
        policy = by_threshold(np.array(predicted), theta)
        assert optimum.rate - rate(problem, policy) == regret(problem, policy)  # the theorem
        return rate(problem, policy)

    at_six = earned(6)
    assert earned(theta) == optimum.rate
    cuts = [Fraction(k, 8) for k in range(26 * 8)]
    rates = [
        {"theta": float(cut), "rate": 1000 * float(earned(cut)), "who": "threshold policy"}
        for cut in cuts
    ]
    marks = [
        {"theta": float(theta), "rate": 1000 * float(optimum.rate), "text": "θ*"},
        {"theta": 6.0, "rate": 1000 * float(at_six), "text": "θ = 6"},
    ]
    (
        charts.curves(
            rates,
            x=("theta", "threshold θ on the predicted cache length (tokens)"),
            y=("rate", "long-run rate (tokens per second)"),
            by=("who", "policy"),
            points=False,
        )
        + charts.notes(marks, "theta", "rate")
    ).properties(title="The optimum is flat: near θ* an error costs little")
    return at_six, model, optimum, problem, theta


@app.cell(hide_code=True)
def _(at_six, optimum, theta):
    loss = 100 * float(1 - at_six / optimum.rate)
    mo.md(rf"""
    $\lambda^* = {1000 * float(optimum.rate):.2f}$ tokens per second, found in {optimum.rounds}
    rounds of $\lambda \leftarrow$ rate of the policy that is best at $\lambda$ (Dinkelbach);
    $\theta^* = {float(theta):.3f}$. The threshold 6 loses {loss:.2f} % here.
    """)
    return


@app.cell
def _(optimum, problem):
    assert surplus(problem, optimum.rate) == 0  # the root, exactly
    values = []
    for k in range(41):
        lam = optimum.rate * Fraction(k, 20)
        arms = (problem.weights[:, None] * problem.advantage(lam)).sum(axis=0)
        top_arm = page.number(surplus(problem, lam))
        parts = {
            "F(λ): the better arm in every situation": top_arm,
            "always the cache": page.number(arms[CACHE]),
            "always the model": page.number(arms[MODEL]),
        }
        assert max(parts.values()) <= top_arm + 1e-12
        ms = 1000 * float(lam)
        values += [{"lam": ms, "value": part, "arm": name} for name, part in parts.items()]
    (
        charts.curves(
            values,
            x=("lam", "λ (tokens per second)"),
            y=("value", "E[μ + 1 − λ C] (tokens per round)"),
            by=("arm", "choice"),
            points=False,
        )
        + charts.notes(
            [{"lam": 1000 * float(optimum.rate), "value": 0.0, "text": "λ*"}], "lam", "value"
        )
    ).properties(title="The best rate is where the surplus F is used up")
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Facts

    **The ratio rule loses.** The model keeps 1 token at cost 1; the cache costs 4 and keeps 0, 8
    or 30 tokens with probabilities $\tfrac12, \tfrac14, \tfrac14$. At 8 its ratio $9/4$ beats the
    model's $2/1$. Yet four units of time spent there could have waited for a 30:
    """)
    return


@app.cell
def _():
    spread = switch({0: "1/2", 8: "1/4", 30: "1/4"}, 1, 4, 1)
    by_ratio = [MODEL, CACHE, CACHE]  # (8 + 1)/4 > (1 + 1)/1
    top = best(spread)
    earned_by_ratio = rate(spread, by_ratio)
    assert list(top.policy) == [MODEL, MODEL, CACHE]
    assert earned_by_ratio < top.rate
    assert top.rate - earned_by_ratio == regret(spread, by_ratio)
    mo.md(
        rf"Ratio rule ${page.exact(earned_by_ratio)}$, optimum ${page.exact(top.rate)}$ tokens per "
        rf"unit of time, $\theta^* = {page.exact(threshold(top.rate, 1, 4, 1))}$."
    )
    return earned_by_ratio, spread, top


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    **What better prediction could buy.** Suppose the features only tell the *mean* length, and the
    real length is 0 or 16, half and half, where they say 8. Seeing the length itself is worth the
    difference of two rates, and no predictor can earn more than that.
    """)
    return


@app.cell
def _():
    vague = switch({0: "3/4", 8: "1/4"}, 2, 1, 1)
    clear = revealed(vague, CACHE, [{0: 1}, {0: "1/2", 16: "1/2"}])
    worth = best(clear).rate - best(vague).rate
    assert worth > 0
    mo.md(
        rf"Rate with means only ${page.exact(best(vague).rate)}$, with lengths known "
        rf"${page.exact(best(clear).rate)}$ tokens per round."
    )
    return (worth,)


@app.cell(hide_code=True)
def _(earned_by_ratio, top, worth):
    quarter = Fraction(1, 4)
    equal = switch({0: "3/4", 8: "1/4"}, 1, 1, 1)
    cheap = switch({0: "3/4", 8: "1/4"}, 1, 1, 2)
    tasks = page.check(
        [
            page.Exercise(
                r"The cache keeps 8 tokens with probability $\tfrac14$, else none; the model keeps "
                r"1; both rounds cost 1. What is $\lambda^*$?",
                r"Equal costs: $\theta^* = \mu_m = 1$, and "
                r"$\lambda^* = E\max(\mu_C, \mu_m) + 1 = \tfrac34 \cdot 2 + \tfrac14 \cdot 9$.",
                3 * quarter * 2 + quarter * 9,
                best(equal).rate,
            ),
            page.Exercise(
                r"Now the round with a model draft costs 2. What is $\lambda^*$?",
                r"Always the cache: $\tfrac34 \cdot 1 + \tfrac14 \cdot 9 = 3$ tokens per unit of "
                r"time. Using the model on empty cache drafts gives only "
                r"$\tfrac{15}{4} / \tfrac74 = \tfrac{15}{7}$. Indeed "
                r"$\theta^* = 1 + 3(1 - 2) = -2$.",
                3 * quarter * 1 + quarter * 9,
                best(cheap).rate,
            ),
            page.Exercise(
                r"By how much does the ratio rule above fall short?",
                r"Ratio rule: $\tfrac14 \cdot 31 + \tfrac14 \cdot 9 + \tfrac12 \cdot 2 = 11$ "
                r"tokens in time $\tfrac12 \cdot 4 + \tfrac12 \cdot 1 = \tfrac52$. Optimum: "
                r"$\tfrac14 \cdot 31 + \tfrac34 \cdot 2 = \tfrac{37}4$ in "
                r"$\tfrac14 \cdot 4 + \tfrac34 = \tfrac74$. So $\tfrac{37}7 - \tfrac{22}5$.",
                Fraction(37, 7) - Fraction(22, 5),
                top.rate - earned_by_ratio,
            ),
            page.Exercise(
                r"In the last fact, what is the information worth, in tokens per round?",
                r"With means: $\tfrac34 \cdot 2 + \tfrac14 \cdot 8 + 1 = \tfrac92$. Knowing: "
                r"$\tfrac78 \cdot 2 + \tfrac18 \cdot 16 + 1 = \tfrac{19}4$.",
                Fraction(19, 4) - Fraction(9, 2),
                worth,
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

    * *Hybrid Verified Decoding*, Su et al. 2026, arXiv 2606.01019: the switch between a suffix
      cache and EAGLE-3; as third parties report, with a fixed threshold of 6.
    * G. Oliaro et al. 2024, arXiv 2411.04975: SuffixDecoding, the cache.
    * W. Dinkelbach, *On nonlinear fractional programming*, 1967: the iteration for $\lambda^*$.
    * The threshold, the exact regret and the failure of the ratio rule are derived here. The law
      of cache lengths and the times on this page are assumptions to play with, not measurements.
    """)
    return


if __name__ == "__main__":
    app.run()
