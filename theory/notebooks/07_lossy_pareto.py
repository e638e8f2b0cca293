import marimo

__generated_with = "0.25.2"
app = marimo.App(app_title="Lossy verification: bias costs one for one, and where weights help")

with app.setup(hide_code=True):
    from fractions import Fraction
    from itertools import product

    import marimo as mo

    from theory import EXACT, MarkovModel, TableModel, analyse
    from theory.clip import clip_law, upper_for_acceptance
    from theory.fields import to_fraction
    from theory.laws import kl, mixture, total_variation
    from theory.notebooks import _charts as charts
    from theory.notebooks import _page as page
    from theory.pareto.many_contexts import Context, mixture_point, reward_frontier
    from theory.pareto.one_context import excess_bias
    from theory.pareto.survey import CURVES, at_one_context
    from theory.pareto.texts import Texts, best_weights, evaluate
    from theory.verifiers.relaxed import load_rule


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    # 7. Lossy verification and its frontier

    A lossy rule accepts more than $1 - \mathrm{TV}(p, q)$ of the drafts and emits some other law
    $\nu$. DIVERSED, for example, verifies against the mixture $\nu = w p + (1-w) q$, with a
    weight $w$ that a small network reads off the context. How good can such a trade be?

    **Theorem (one context).** For *any* rule that judges one drafted token, with acceptance
    probability $\alpha$ and output law $\nu$,

    $$\mathrm{TV}(p, \nu) \;\ge\; \alpha - \bigl(1 - \mathrm{TV}(p, q)\bigr),$$

    with equality iff $\alpha = 1 - \mathrm{TV}(q, \nu)$ and $\nu$ lies in the box
    $\min(p, q) \le \nu \le \max(p, q)$.

    **Proof.** The drafted token and the emitted token are a coupling of $q$ and $\nu$, and they
    agree with probability at most $\sum \min(q, \nu) = 1 - \mathrm{TV}(q, \nu)$; so
    $\mathrm{TV}(q, \nu) \le 1 - \alpha$. The triangle inequality gives
    $\mathrm{TV}(p, \nu) \ge \mathrm{TV}(p, q) - \mathrm{TV}(q, \nu)$. It is an equality iff
    $\nu$ is between $p$ and $q$ token by token. $\square$

    Past the free part, **every point of acceptance costs a point of bias**. Mixtures are on the
    frontier, but so is everything else in the box. For other measures they are not: the law
    $\nu^* = \min(\max(q, l\,p), h\,p)$, clipped between two multiples of $p$, is best for *every*
    $f$-divergence at once, and mixtures only for TV.
    """)
    return


@app.cell(hide_code=True)
def _():
    measure = mo.ui.dropdown(
        {"total variation": "tv", "KL(p ‖ ν), nats": "kl"}, "total variation", label="bias in"
    )
    near = mo.ui.slider(0, 8, value=0, label="draft moved towards target, tenths", show_value=True)
    share = mo.ui.slider(1, 11, value=6, label="weight of context A, twelfths", show_value=True)
    return measure, near, share


@app.cell(hide_code=True)
def _(measure, near):
    mo.vstack([mo.md("## All rules at one context"), measure, near])
    return


@app.cell
def _(measure, near):
    move = Fraction(near.value, 10)
    p = EXACT.array(["1/10", "3/20", "1/4", "1/2"])
    far = EXACT.array(["1/2", "1/4", "3/20", "1/10"])
    q = EXACT.number(move) * p + (1 - EXACT.number(move)) * far
    shown = (
        "ensemble",
        "mentored",
        "lenience, target",
        "cascade, chow",
        "cascade, token_v3",
        "typical, argmax",
    )
    best, *curves = at_one_context(p, q, steps=12, measure=measure.value)
    rows = [
        {"alpha": page.number(at.acceptance), "bias": page.number(at.quality), "rule": curve.rule}
        for curve in curves
        if curve.rule in shown
        for at in curve.points
        if page.number(at.quality) < 10  # KL is infinite where a rule drops a token of p
    ]
    frontier = [
        {"alpha": page.number(at.acceptance), "bias": page.number(at.quality)} for at in best.points
    ]
    for name in CURVES:  # no setting of any rule is below the frontier
        for setting in name.values(6):
            above = excess_bias(name.rule, p, q, **{**name.fixed, name.knob: setting})
            assert page.number(above) >= -1e-12
    (
        charts.band(frontier, "alpha", "bias")
        + charts.dots(
            rows,
            x=("alpha", "acceptance probability α"),
            y=("bias", f"bias: {measure.selected_key} of the emitted law"),
            by=("rule", "rule, over its knob"),
        )
    ).properties(title="Pale band: the best of all rules")
    return p, q


@app.cell
def _(p, q):
    tv = to_fraction(total_variation(p, q))
    for weight_p in (Fraction(k, 8) for k in range(9)):
        rule = load_rule("ensemble").position(p, q, w=weight_p)
        assert to_fraction(rule.alpha(q)) == 1 - weight_p * tv
        assert to_fraction(total_variation(p, rule.law(q))) == (1 - weight_p) * tv
        assert excess_bias("ensemble", p, q, w=weight_p) == 0  # exactly on the frontier
    assert excess_bias("mentored", p, q, hi="3/2") == 0
    # In KL the clip law is better than the mixture of the same acceptance:
    clipped = clip_law(p, q, upper_for_acceptance(p, q, 1 - EXACT.number(tv) / 2))
    assert kl(p, clipped) < kl(p, mixture(EXACT.number("1/2"), p, q))
    mo.md(
        rf"Here $\mathrm{{TV}}(p, q) = {page.exact(tv)}$: the frontier starts at "
        rf"$\alpha = {page.exact(1 - tv)}$ and rises with slope 1. The mixture with weight $w$ has "
        r"$\alpha = 1 - w\,\mathrm{TV}(p, q)$ and bias $(1 - w)\,\mathrm{TV}(p, q)$."
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Do weights that depend on the context help?

    Average over contexts $c$ of weight $m_c$: each contributes $m_c(1 - w_c \mathrm{TV}_c)$ to
    acceptance and $m_c (1 - w_c) \mathrm{TV}_c$ to bias. The difference,
    $1 - \text{mean } \mathrm{TV}$, **does not depend on the weights**: for mean TV, learning them
    is pointless. For a task **reward** it is not. With reward $r_c(x)$ for emitting $x$, moving
    context $c$ from target to draft gains $m_c \mathrm{TV}_c$ acceptance and loses
    $m_c \sum_x r_c(x)(p_c - q_c)(x)$ reward, both linear in $w_c$. The frontier is a fractional
    **knapsack**: hand contexts to the draft in order of loss per acceptance.

    Two contexts: in A the draft is wrong, $p = (\tfrac12, \tfrac12)$, $q = (1, 0)$, but nobody
    minds; in B, $p = (1, 0)$, $q = (\tfrac12, \tfrac12)$, and token 1 forfeits the reward.
    """)
    return


@app.cell(hide_code=True)
def _(share):
    share
    return


@app.cell
def _(share):
    weight = EXACT.number(Fraction(share.value, 12))
    half, sure = EXACT.array(["1/2", "1/2"]), EXACT.array([1, 0])
    contexts = [Context(weight, half, sure), Context(1 - weight, sure, half)]
    rewards = [EXACT.array([1, 1]), EXACT.array([1, 0])]
    dynamic = reward_frontier(contexts, rewards)
    trade = [
        {"alpha": page.number(at.acceptance), "reward": page.number(at.quality), "map": "dynamic"}
        for at in dynamic.points
    ]
    for k in range(9):
        w = EXACT.number(Fraction(k, 8))
        at = mixture_point(contexts, [w, w])
        earned = sum(
            c.weight * (r * (w * c.p + (1 - w) * c.q)).sum()
            for c, r in zip(contexts, rewards, strict=True)
        )
        trade.append(
            {"alpha": page.number(at.acceptance), "reward": page.number(earned), "map": "static"}
        )
        assert at.acceptance - at.quality == EXACT.number("1/2")  # 1 - mean TV, whatever w
    charts.curves(
        trade,
        x=("alpha", "mean acceptance probability"),
        y=("reward", "expected reward per token (1 = all right)"),
        by=("map", "weight w of the target"),
    ).properties(title="Give the draft the contexts where it does no harm")
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Whole texts: DIVERSED's objective

    Over a text, $E\bigl[R + \lambda \sum_t (1 - \mathrm{TV}(q, \nu_t))\bigr]$ is a decision
    process whose stage return and transition are **affine** in each $w(\text{prefix})$. So some
    optimum has $w \in \{0, 1\}$ everywhere: the best "ensemble" is a *switch*, and backward
    recursion finds it. Below, the recursion against all $3^3$ maps with
    $w \in \{0, \tfrac12, 1\}$.
    """)
    return


@app.cell
def _():
    rows_p = {"": ["1/2", "1/2"], "0": ["3/4", "1/4"], "1": ["1/4", "3/4"]}
    rows_q = {"": ["3/4", "1/4"], "0": ["1/2", "1/2"], "1": ["7/8", "1/8"]}
    texts = Texts.of(TableModel(rows_p), TableModel(rows_q), 2, reward=lambda text: int(sum(text)))
    price = EXACT.number("1/2")
    chosen, value = best_weights(texts, price)

    levels = [EXACT.number(x) for x in ("0", "1/2", "1")]
    tried = []
    for root, after_0, after_1 in product(levels, repeat=3):
        plan = evaluate(texts, (EXACT.array([root]), EXACT.array([after_0, after_1])))
        tried.append(plan.quality + price * plan.acceptance)
    assert max(tried) == value
    assert {w for level in chosen for w in level} <= {0, 1}
    mo.md(
        rf"Best value ${page.exact(value)}$ with weights $w = {chosen[0][0]}$ at the root, "
        rf"${chosen[1][0]}$ after token 0 and ${chosen[1][1]}$ after token 1: the draft where it "
        "is cheap, the target where it matters."
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## A trap: the bonus token

    Engines draw the bonus token from $p$, because $q$ was never computed there. Then the text is
    *not* sampled from $\nu$, and its law depends on $\gamma$.
    """)
    return


@app.cell
def _():
    # Sun's rows, w = 1/2, so nu = (1/2, 1/2); gamma = 1: token 2 is often a bonus.
    engine = analyse("1/3,2/3", "2/3,1/3", "ensemble", gamma=1, horizon=3)
    faithful = analyse("1/3,2/3", "2/3,1/3", "ensemble", gamma=1, horizon=3, bonus="ensemble")
    assert engine.declared_distance == 0  # predicted exactly, place in the block included
    assert faithful.declared_distance == 0
    assert set(faithful.output_law.values()) == {Fraction(1, 8)}  # AR(nu)
    second = sum(mass for text, mass in engine.output_law.items() if text[1] == 0)
    kept = Fraction(5, 6)
    assert second == kept * Fraction(1, 3) + (1 - kept) * Fraction(1, 2)
    mo.md(
        rf"$\nu = (\tfrac12, \tfrac12)$, but the second token is 0 with probability "
        rf"${page.exact(second)}$: after a kept draft it is the bonus, from $p$."
    )
    return (second,)


@app.cell(hide_code=True)
def _(second):
    sun_p, sun_q = MarkovModel(["1/3", "2/3"]).row(()), MarkovModel(["2/3", "1/3"]).row(())
    p_three = EXACT.array(["1/5", "3/10", "1/2"])
    q_three = EXACT.array(["1/2", "1/4", "1/4"])
    knob_zero = load_rule("cascade").declared(p_three, q_three, rule="token_v3", knob="0")
    tasks = page.check(
        [
            page.Exercise(
                r"Sun's rows and $w = \tfrac12$: what acceptance does the mixture have?",
                r"$\alpha = 1 - w\,\mathrm{TV}(p, q) = 1 - \tfrac12 \cdot \tfrac13$.",
                1 - Fraction(1, 2) * Fraction(1, 3),
                load_rule("ensemble").position(sun_p, sun_q, w="1/2").alpha(sun_q),
            ),
            page.Exercise(
                r"And with $\gamma = 1$ and the bonus from $p$, how likely is token 0 as the "
                r"*second* token?",
                r"With $\tfrac56$ the first draft is kept, and the second token is the bonus, 0 "
                r"with $\tfrac13$; otherwise a new block starts, 0 with $\nu(0) = \tfrac12$.",
                Fraction(5, 6) * Fraction(1, 3) + Fraction(1, 6) * Fraction(1, 2),
                second,
            ),
            page.Exercise(
                r"Cascade rule Token3 keeps $q(x)$ on tokens with "
                r"$p(x) \ge (1 - \kappa)\max p$ and spreads the rest of $q$ as $p$. Is it lossless "
                r"at $\kappa = 0$? With $p = (\tfrac15, \tfrac3{10}, \tfrac12)$, "
                r"$q = (\tfrac12, \tfrac14, \tfrac14)$, what is $\nu(2)$?",
                r"Token 2, the argmax of $p$, keeps $q(2) = \tfrac14$; the dropped mass "
                r"$\tfrac34$ is spread as $p$: $\tfrac14 + \tfrac34 \cdot \tfrac12$. Not "
                r"lossless: $p(2) = \tfrac12$.",
                Fraction(1, 4) + Fraction(3, 4) * Fraction(1, 2),
                knob_zero[2],
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

    * DIVERSED, 2026, arXiv 2604.07622: the learned ensemble and its objective; static mixtures:
      *Speculative Ensemble*, 2025, arXiv 2502.01662.
    * V. Tran-Thien 2023 and arXiv 2609.30474: the clip law (mentored decoding).
    * M. Yin et al. 2024, arXiv 2411.00841: the least bias at given acceptances.
    * H. Narasimhan et al., *Faster cascades via speculative decoding*, 2024, arXiv 2405.19261.
    * The frontier, its box, the knapsack and the reduction to a switch are derived here.
    """)
    return


if __name__ == "__main__":
    app.run()
