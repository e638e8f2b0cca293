import marimo

__generated_with = "0.25.2"
app = marimo.App(app_title="Token verification is lossless, and E[tau] needs no independence")

with app.setup(hide_code=True):
    from fractions import Fraction

    import marimo as mo

    from theory import MarkovModel, RowTree, TableModel, analyse
    from theory.accepted_length import expected_accepted, iid_prediction
    from theory.fields import minimum, positive_part
    from theory.notebooks import _charts as charts
    from theory.notebooks import _page as page
    from theory.windows.peeking import clairvoyant


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    # 1. Token verification

    A *draft* model with next-token law $q$ proposes $\gamma$ tokens; the *target* with law $p$
    looks at all of them in one call. Token verification walks along the draft:

    * keep the drafted token $x$ with probability $\min(1, p(x)/q(x))$ and go on;
    * at the first refusal emit a **correction** from $\mathrm{norm}\,(p-q)_+$ and stop;
    * if nothing was refused, emit a **bonus** token from $p$.

    All rows are taken after the tokens kept so far. Let $\tau$ be the number of drafted tokens
    kept.

    **Theorem.** The emitted text has exactly the target's law, and for *any* pair of models

    $$E[\tau] \;=\; \sum_{i=1}^{\gamma}\; \sum_{x_1 \dots x_i}\; \prod_{j \le i}
      \min\bigl(p_j(x_j),\, q_j(x_j)\bigr) ,$$

    where $p_j, q_j$ are the rows after $x_1 \dots x_{j-1}$. Nothing is assumed to be independent.

    **Proof.** At one position, $x$ is drafted *and* kept with mass
    $q(x)\min(1, p(x)/q(x)) = \min(p(x), q(x))$. A refusal has the mass that is left,
    $1 - \sum_x \min(p, q)(x) = \sum_x (p - q)_+(x)$, and hands it out in proportion to
    $(p-q)_+$. Together $\min(p,q) + (p-q)_+ = p$. So the next token follows $p$ whatever
    came before it, and by induction on the length so does the text. The prefix
    $x_1 \dots x_i$ is drafted and kept with mass $\prod_j \min(p_j, q_j)(x_j)$; summing the
    masses over strings of length $i$ gives $P(\tau \ge i)$, and summing over $i$ gives
    $E[\tau]$. $\square$
    """)
    return


@app.cell(hide_code=True)
def _():
    p0 = mo.ui.slider(0, 12, value=4, label="$p(0)$ in twelfths", show_value=True)
    q0 = mo.ui.slider(0, 12, value=8, label="$q(0)$ in twelfths", show_value=True)
    gamma = mo.ui.slider(1, 4, value=2, label=r"draft length $\gamma$", show_value=True)
    stay = mo.ui.slider(6, 12, value=11, label="stay in a context, twelfths", show_value=True)
    return gamma, p0, q0, stay


@app.cell(hide_code=True)
def _(gamma, p0, q0):
    mo.vstack([mo.md("## One row at every position"), p0, q0, gamma])
    return


@app.cell
def _(gamma, p0, q0):
    # Every path of the rule is walked, in rationals: no sampling, no tolerance.
    p, q = page.coin(p0.value), page.coin(q0.value)
    walked = analyse(p, q, "token", gamma=gamma.value)

    assert walked.distance == 0  # the text law is the target's, fraction by fraction
    assert walked.expected_accepted == walked.closed_form  # the theorem's sum
    return p, q, walked


@app.cell(hide_code=True)
def _(gamma, walked):
    mo.md(rf"""
    Over the first $\gamma + 1 = {gamma.value + 1}$ tokens the text is at total variation
    **{walked.distance}** from the target's. The rule keeps
    $E[\tau] = {page.exact(walked.expected_accepted)}$ drafted tokens of ${gamma.value}$, so a
    target call emits ${page.exact(walked.tokens_per_call)}$ tokens.
    """)
    return


@app.cell
def _(p, q):
    target, draft = MarkovModel(p).row(()), MarkovModel(q).row(())
    parts = {
        "kept draft, min(p, q)": minimum(target, draft),
        "correction, (p − q)₊": positive_part(target - draft),
    }
    shares = [
        {"token": f"token {x}", "part": part, "mass": page.number(mass[x])}
        for part, mass in parts.items()
        for x in range(2)
    ]
    charts.bars(
        shares,
        x=("token", "first emitted token"),
        y=("mass", "probability"),
        by=("part", "where it comes from"),
        stacked=True,
    ).properties(title="The two parts always stack up to p", height=240)
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Rows that depend on the context

    Now let acceptance come in stretches. After token 0 the draft knows the target's row
    (overlap $\alpha = \sum \min(p, q) = 1$); after token 1 it has the two tokens the wrong way
    round. The usual formula $1 + \alpha + \dots + \alpha^\gamma$ (tokens per call) treats
    positions as independent trials with the mean overlap. It is a *prediction*; the theorem is
    the value.
    """)
    return


@app.cell(hide_code=True)
def _(stay):
    stay
    return


@app.cell
def _(stay):
    s = Fraction(stay.value, 12)
    half = [Fraction(1, 2)] * 2
    sticky = MarkovModel(half, [[s, 1 - s], [1 - s, s]])
    guess = MarkovModel(half, [[s, 1 - s], [s, 1 - s]])
    longest = 8
    trees = RowTree.of(sticky, longest), RowTree.of(guess, longest)
    lengths = []
    for g in range(1, longest + 1):
        truth = expected_accepted("token", *trees, g)
        predicted = iid_prediction(*trees, g).accepted
        lengths.append({"gamma": g, "which": "exact", "tau": page.number(truth)})
        lengths.append({"gamma": g, "which": "i.i.d. formula", "tau": page.number(predicted)})
    charts.curves(
        lengths,
        x=("gamma", "draft length γ (tokens)"),
        y=("tau", "E[τ] (drafted tokens kept per call)"),
        by=("which", "E[τ] by"),
        zero=True,
    ).properties(title="What independence would predict, and what happens")
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Facts

    Rows of Sun et al.: $p = (\tfrac13, \tfrac23)$, $q = (\tfrac23, \tfrac13)$ at every position,
    $\gamma = 2$. And a pair on which every plug-in fails: at the root $p = (\tfrac12, \tfrac12)$,
    $q = (\tfrac34, \tfrac14)$; after token 0 the rows are equal, after token 1 they share no
    token.
    """)
    return


@app.cell
def _():
    sun = analyse("1/3,2/3", "2/3,1/3", "token", gamma=2)
    assert sun.expected_accepted == Fraction(10, 9)
    assert sun.lossless

    split = analyse(
        TableModel({"": ["1/2", "1/2"], "0": ["1/2", "1/2"], "1": [1, 0]}, ["1/2", "1/2"]),
        TableModel({"": ["3/4", "1/4"], "0": ["1/2", "1/2"], "1": [0, 1]}, ["1/2", "1/2"]),
        "token",
        gamma=2,
    )
    assert split.lossless
    both = split.accepted_law[2]  # P(tau >= 2)
    over_drafts = Fraction(3, 4) * (Fraction(3, 4) * 1 + Fraction(1, 4) * 0)
    over_target = Fraction(3, 4) * (Fraction(1, 2) * 1 + Fraction(1, 2) * 0)
    assert both == Fraction(1, 2)
    assert (over_drafts, over_target) == (Fraction(9, 16), Fraction(3, 8))
    mo.md(
        rf"Sun's rows keep ${page.exact(sun.expected_accepted)}$ tokens. On the second pair "
        rf"$P(\tau \ge 2) = {page.exact(both)}$; a product of mean overlaps says "
        rf"${page.exact(over_drafts)}$ if the mean is taken over drafts, and "
        rf"${page.exact(over_target)}$ if over target text. Both are wrong: acceptance runs along "
        r"*kept* tokens."
    )
    return


@app.cell(hide_code=True)
def _():
    third, two = Fraction(1, 3), Fraction(2, 3)
    tasks = page.check(
        [
            page.Exercise(
                r"For Sun's rows, what is $E[\tau]$ at $\gamma = 3$?",
                r"The rows do not depend on the context, so the sum factorises into powers of "
                r"$\alpha = \tfrac13 + \tfrac13 = \tfrac23$: $\alpha + \alpha^2 + \alpha^3$.",
                two + two**2 + two**3,
                analyse("1/3,2/3", "2/3,1/3", "token", gamma=3).expected_accepted,
            ),
            page.Exercise(
                r"Somebody draws the correction from $p$ instead of $\mathrm{norm}\,(p-q)_+$. "
                r"With Sun's rows, what is then the probability of token 0 as the first token?",
                r"$\min(p, q)(0) + (1 - \alpha)\, p(0) = \tfrac13 + \tfrac13 \cdot \tfrac13$, "
                r"not $\tfrac13$: the shortcut is lossy.",
                third + third * third,
                first_token_without_residual(),
            ),
            page.Exercise(
                r"Half of all blocks are hopeless ($\alpha = 0$ throughout), half are certain "
                r"($\alpha = 1$). What is $E[\tau]$ at $\gamma = 4$? (The formula at the mean "
                r"$\alpha = \tfrac12$ says $\tfrac{15}{16}$.)",
                r"$\tfrac12 \cdot 0 + \tfrac12 \cdot 4$. The formula is convex in $\alpha$, so "
                r"averaging over blocks first gives too little.",
                Fraction(1, 2) * 4,
                half_hopeless(gamma=4),
            ),
        ]
    )
    return (tasks,)


@app.function
def first_token_without_residual():
    """P(first token = 0) for Sun's rows when corrections are drawn from p, by enumeration."""
    law = page.text_law(clairvoyant, "1/3,2/3", "2/3,1/3", gamma=1)
    return sum(mass for text, mass in law.items() if text[0] == 0)


@app.function
def half_hopeless(gamma):
    """E[tau] when half of all blocks never agree with the target, and half always do."""
    hopeless = analyse([0, 1], [1, 0], "token", gamma=gamma).expected_accepted
    certain = analyse([1, 0], [1, 0], "token", gamma=gamma).expected_accepted
    return (hopeless + certain) / 2


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

    * Y. Leviathan, M. Kalman, Y. Matias, *Fast inference from transformers via speculative
      decoding*, 2023, arXiv 2211.17192 (the rule; the i.i.d. formula is its equation 1).
    * C. Chen et al., *Accelerating large language model decoding with speculative sampling*, 2023,
      arXiv 2302.01318 (the same rule).
    * Z. Sun et al., *Block verification accelerates speculative decoding*, 2024, arXiv 2403.10444
      (the two-token rows).
    * The sum without independence and the counter-example are derived here.
    """)
    return


if __name__ == "__main__":
    app.run()
