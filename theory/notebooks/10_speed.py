import marimo

__generated_with = "0.25.2"
app = marimo.App(app_title="From theory to tokens per second: cost tables with steps")

with app.setup(hide_code=True):
    from fractions import Fraction

    import marimo as mo

    from theory import MarkovModel, RowTree
    from theory.accepted_length import expected_accepted, iid_prediction
    from theory.fields import EXACT, FLOAT, to_fraction
    from theory.notebooks import _charts as charts
    from theory.notebooks import _page as page
    from theory.windows import Costs, break_even, iid, ladder, throughput


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    # 10. From theory to tokens per second

    $E[\tau]$ is not speed. A round that drafts $k$ tokens takes the time

    $$t(k) = \mathrm{call}(k) + c\,k ,$$

    where $c$ is a draft step and $\mathrm{call}(k)$ a target call that verifies $k$ drafted tokens
    and reads one more row. On a real device $\mathrm{call}$ is a **step function**: work is done
    in tiles, and a few more tokens are free until the next tile begins.

    **Theorem.** With a fixed window the long-run speed is $S_\gamma = T_\gamma / t(\gamma)$,
    $T_\gamma = E[\tau] + 1$ (renewal reward), and one more token pays iff its chance to survive
    is worth its time at the present speed:

    $$S_{\gamma + 1} > S_\gamma \iff P(\tau \ge \gamma + 1) \;>\;
      S_\gamma \cdot \bigl(t(\gamma + 1) - t(\gamma)\bigr).$$

    Where $\mathrm{call}$ is flat and drafting is free, the best window therefore always ends
    **just before a step**.

    **Proof.** $S_{\gamma+1} = \frac{T_\gamma + P(\tau \ge \gamma + 1)}{t(\gamma) + \Delta t}$ is
    the mediant of $S_\gamma$ and $P(\tau \ge \gamma + 1) / \Delta t$; it is above $S_\gamma$ iff
    the second is. Inside a step $\Delta t = 0$ (with free drafting), and every token with any
    chance pays. $\square$

    It is the same comparison as in notebooks 6 and 8: gain against time at the going rate.
    """)
    return


@app.cell(hide_code=True)
def _():
    alpha = mo.ui.slider(40, 95, value=80, label=r"$\alpha$ in percent", show_value=True)
    draft_ms = mo.ui.slider(0, 40, value=4, label="draft step $c$, tenths of ms", show_value=True)
    tile = mo.ui.slider(1, 16, value=8, label="rows per tile", show_value=True)
    step_ms = mo.ui.slider(0, 120, value=60, label="extra tile, tenths of ms", show_value=True)
    return alpha, draft_ms, step_ms, tile


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## A device with tiles

    A call takes 25 ms for its first tile of rows (drafted tokens plus one) and more for every
    further tile. All times are inputs: put in those of your machine.
    """)
    return


@app.cell(hide_code=True)
def _(alpha, draft_ms, step_ms, tile):
    mo.vstack([alpha, draft_ms, tile, step_ms])
    return


@app.cell
def _(alpha, draft_ms, step_ms, tile):
    longest, base = 32, Fraction(25)
    extra, a = Fraction(step_ms.value, 10), EXACT.number(Fraction(alpha.value, 100))

    def calls(per_drafted=1):
        """Milliseconds of a call that verifies 0, 1, ... steps of so many tokens each."""
        rows_read = (per_drafted * k + 1 for k in range(longest + 2))
        return tuple(base + extra * ((n - 1) // tile.value) for n in rows_read)

    stepped = Costs(Fraction(draft_ms.value, 10), calls=calls())
    tokens = [EXACT.number(iid.tokens(a, k)) for k in range(longest + 2)]
    speed = [tokens[k] / stepped.fixed(k) for k in range(longest + 2)]  # tokens per ms
    for k in range(longest + 1):  # the theorem, in fractions
        worth_it = a ** (k + 1) > speed[k] * (stepped.fixed(k + 1) - stepped.fixed(k))
        assert worth_it == (speed[k + 1] > speed[k])
    best = max(range(longest + 1), key=lambda k: speed[k])
    if draft_ms.value == 0 and extra > 0:
        assert (best + 1) % tile.value == 0 or best == longest  # just before a step

    smooth = Costs(
        Fraction(draft_ms.value, 10), extra / tile.value, calls=(base,)
    )  # the same slope without steps
    lines = [
        {"gamma": k, "table": name, "speed": 1000 * page.number(value)}
        for k in range(longest + 1)
        for name, value in (
            ("with tiles", speed[k]),
            ("same slope, no tiles", tokens[k] / smooth.fixed(k)),
        )
    ]
    charts.curves(
        lines,
        x=("gamma", "window γ (drafted tokens)"),
        y=("speed", "speed (tokens per second)"),
        by=("table", "cost of a call"),
    ).properties(
        title=f"Best window: γ = {best}, {1000 * page.number(speed[best]):.1f} tokens per second"
    )
    return a, calls


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Longer drafts or more drafts?

    $K$ drafts of $\gamma$ tokens read $K\gamma + 1$ rows and take $\gamma$ draft steps (drafts run
    as a batch). $E[\tau]$ is exact: block verification for one draft, the marked rule of notebook
    5 for more, on a pair of three-token rows whose overlap follows the slider.
    """)
    return


@app.cell
def _(a, calls, draft_ms):
    deepest, moved = 5, 1 - page.number(a)
    p_row = [0.3, 0.3, 0.4]
    q_row = [0.3 + moved, 0.3 - 3 * moved / 7, 0.4 - 4 * moved / 7]  # overlap alpha
    p_tree = RowTree.of(MarkovModel(p_row, field=FLOAT), deepest)
    q_tree = RowTree.of(MarkovModel(q_row, field=FLOAT), deepest)
    budget = []
    for drafts in (1, 2, 3):
        table = Costs(Fraction(draft_ms.value, 10), calls=calls(drafts))
        for g in range(deepest + 1):
            kept = 0.0
            if g and drafts == 1:
                kept = expected_accepted("block", p_tree, q_tree, g)
            elif g:
                kept = expected_accepted("marked_block", p_tree, q_tree, g, drafts)
            rate = 1000 * (1 + kept) / page.number(table.fixed(g))
            budget.append({"gamma": g, "K": f"K = {drafts}", "speed": rate})
    charts.curves(
        budget,
        x=("gamma", "window γ (tokens per draft)"),
        y=("speed", "speed (tokens per second)"),
        by=("K", "drafts"),
    ).properties(title="More drafts help while their rows fit into a tile")
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Facts

    On a chain with easy and hard contexts, under a table with steps, all exact: the best fixed
    window, the best rule that knows both models, and the two ceilings of notebook 6, in tokens
    per plain target call. And what happens when acceptance is taken for independent.
    """)
    return


@app.cell
def _():
    text = MarkovModel(["1/2", "1/2"], [["9/10", "1/10"], ["1/10", "9/10"]])
    guess = MarkovModel(["1/2", "1/2"], [["19/20", "1/20"], ["1/2", "1/2"]])
    plain = Costs("1/20", calls=("1",))
    tiles = Costs("1/20", calls=("1", "1", "1", "1", "5/4", "5/4", "5/4", "5/4", "3/2"))
    without, with_tiles = (
        ladder(text, guess, costs, cap=12, max_gamma=24) for costs in (plain, tiles)
    )
    assert with_tiles.fixed <= without.fixed
    assert (without.gamma, with_tiles.gamma) == (7, 3)  # the second tile no longer pays
    trees = RowTree.of(text, 6), RowTree.of(guess, 6)
    true_length = expected_accepted("token", *trees, 6)
    predicted = iid_prediction(*trees, 6).accepted
    mo.md(
        page.table(
            ["kind of window", "flat calls", "calls with tiles"],
            [
                [name, f"{page.number(flat):.4f}", f"{page.number(tiled):.4f}"]
                for (name, flat), (_, tiled) in zip(
                    without.rungs(), with_tiles.rungs(), strict=True
                )
            ],
        )
        + f"\n\nThe best fixed window is {without.gamma} tokens with flat calls and "
        + f"{with_tiles.gamma} with tiles. From the start of a text, "
        + f"E[τ] at 6 tokens is {page.number(true_length):.4f}; the i.i.d. formula says "
        + f"{page.number(predicted):.4f}."
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Three units that must not be mixed

    A round that takes 1.6 plain steps breaks even at 1.6 **emitted** tokens, which is 0.6
    **accepted** ones, which at $\gamma = 4$ is an acceptance **rate** of 15 % of drafted tokens.
    And speeds of several runs are combined as total tokens over total time, not as a mean of
    ratios.
    """)
    return


@app.cell
def _():
    pays = break_even("8/5", 4)
    assert (pays.emitted, pays.accepted, pays.rate) == (
        Fraction(8, 5),
        Fraction(3, 5),
        Fraction(3, 20),
    )
    overall = throughput([100, 100], [2, 8])
    assert overall == 20
    mo.md(
        rf"100 tokens in 2 s and 100 tokens in 8 s are ${page.exact(overall)}$ tokens per second "
        r"together; the mean of the two speeds, $31.25$, belongs to no run."
    )
    return


@app.cell(hide_code=True)
def _():
    half = Fraction(1, 2)
    small = Costs(2, calls=(30, 30, 30, 30, 36))

    def per_second(k):
        return 1000 * iid.tokens(half, k) / to_fraction(small.fixed(k))

    tasks = page.check(
        [
            page.Exercise(
                r"$\alpha = \tfrac12$, a call of 30 ms for up to 3 drafted tokens and 36 ms "
                r"beyond, 2 ms per draft step. How many tokens per second does $\gamma = 3$ give?",
                r"$1 + \tfrac12 + \tfrac14 + \tfrac18 = \tfrac{15}8$ tokens in "
                r"$30 + 3 \cdot 2$ ms.",
                1000 * Fraction(15, 8) / 36,
                per_second(3),
            ),
            page.Exercise(
                r"Is that the best window on this device? Which one is?",
                r"$\gamma = 2$: $\tfrac74 / 34\,\text{ms} = 51.47$ per second; $\gamma = 3$: "
                r"$52.08$; $\gamma = 4$ crosses the step: "
                r"$\tfrac{31}{16} / 44\,\text{ms} = 44.03$.",
                3,
                max(range(12), key=per_second),
            ),
            page.Exercise(
                r"Plain decoding takes 30 ms a token. By what factor is $\gamma = 3$ faster?",
                r"$\tfrac{15}{8} \cdot \tfrac{30}{36}$.",
                Fraction(15, 8) * Fraction(30, 36),
                per_second(3) / per_second(0),
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

    * Y. Leviathan et al. 2023, arXiv 2211.17192: tokens per call and the cost of a draft step.
    * Z. Sun et al. 2024, arXiv 2403.10444: block verification.
    * The marginal rule, tables with steps and the exact ladders are derived here. Times on this
      page are inputs, not measurements.
    """)
    return


if __name__ == "__main__":
    app.run()
