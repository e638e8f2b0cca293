import marimo

__generated_with = "0.25.2"
app = marimo.App(app_title="Block verification keeps the most of all rules without memory")

with app.setup(hide_code=True):
    from fractions import Fraction

    import marimo as mo

    from theory import MarkovModel, RowTree, analyse, bounds
    from theory.accepted_length import expected_accepted
    from theory.fields import to_fraction
    from theory.generation import autoregressive, distance
    from theory.laws import residual
    from theory.notebooks import _charts as charts
    from theory.notebooks import _page as page
    from theory.transport import check_certificate
    from theory.verifiers.block import clipped_ratios, pass_probability
    from theory.verifiers.common import Round


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    # 2. Block verification

    Token verification decides too early: it refuses a token before it has seen how well the
    *next* ones fit. Block verification decides about whole prefixes. Along the draft it carries
    the clipped running ratio

    $$W_0 = 1, \qquad W_i = \min\bigl(1,\; W_{i-1}\, p_i(x_i) / q_i(x_i)\bigr),$$

    and tests prefixes **from the longest down**; the first success wins. The whole block passes
    with probability $h_\gamma = W_\gamma$; a shorter prefix with

    $$h_i = \frac{z_i}{z_i + 1 - W_i}, \qquad z_i = \sum_x (W_i\, p_{i+1}(x) - q_{i+1}(x))_+ .$$

    After a kept prefix of length $\tau < \gamma$ it emits a token from
    $\mathrm{norm}\,(W_\tau p - q)_+$; after the whole block, one from $p$.

    **Theorem.** The rule is lossless. With $P(v), Q(v)$ the probabilities that target and draft
    give a string $v$, it keeps a prefix through $v$ with mass $m(v)$, where

    $$m(vx) = \min\bigl(Q(vx),\; m(v)\,p(x)\bigr), \qquad m(\text{root}) = 1, \qquad
      E[\tau] = \sum_{1 \le |v| \le \gamma} m(v),$$

    and no lossless rule that leaves later targets alone keeps more.

    **Proof.** *Given $x_1 \dots x_i$, a prefix of length $\ge i$ is kept with probability $W_i$*:
    true at $i = \gamma$. Further up, something longer is kept with probability
    $\sum_x q(x) W_{i+1} = \sum_x \min(q, W_i p) = W_i - z_i$; failing that, length $i$ passes
    with $h_i$, and $(W_i - z_i) + (1 - W_i + z_i)\, h_i = W_i$. So $m(v) = Q(v) W(v)$, which is
    the recursion. *Lossless*: the rule stops exactly at $v$ with mass $Q(v) z_i$ and then emits
    $y$ with mass $Q(v)(W_i p(y) - q(y))_+$; kept drafts contribute
    $m(vy) = Q(v)\min(q(y), W_i p(y))$. Together $Q(v) W_i\, p(y) = m(v)\, p(y)$: after $v$, the
    next token follows $p$. *Optimal*: let any such rule keep a prefix through $v$ with mass
    $f(v)$. Then $f(vx) \le Q(vx)$, for what is kept was drafted, and $f(vx) \le f(v)\,p(x)$, for
    after $v$ the text must follow $p$; so $f \le m$ by induction. $\square$

    On a path of length $i$ this is $m(v) = P(v) \min_{j \le i} \min(1, Q(x^j)/P(x^j))$: one bad
    token can be made up for by a good one, *before* or after it.
    """)
    return


@app.cell(hide_code=True)
def _():
    p0 = mo.ui.slider(0, 12, value=4, label="$p(0)$ in twelfths", show_value=True)
    q0 = mo.ui.slider(1, 11, value=8, label="$q(0)$ in twelfths", show_value=True)
    return p0, q0


@app.cell(hide_code=True)
def _(p0, q0):
    mo.vstack([mo.md("## What is kept, string by string"), p0, q0])
    return


@app.cell
def _(p0, q0):
    longest = 6
    p, q = page.coin(p0.value), page.coin(q0.value)
    p_tree, q_tree = RowTree.of(MarkovModel(p), longest), RowTree.of(MarkovModel(q), longest)
    walked = analyse(p, q, "block", gamma=2)

    # The recursion m(vx) = min(Q(vx), m(v) p(x)), by hand:
    rows, both_kept = [], Fraction(0)
    for v in [(0, 0), (0, 1), (1, 0), (1, 1)]:
        token, drafted, kept, wanted = (Fraction(1) for _ in range(4))
        for x in v:
            token *= min(p[x], q[x])
            drafted *= q[x]
            wanted *= p[x]
            kept = min(drafted, kept * p[x])
        both_kept += kept
        limit = min(wanted, drafted)
        for rule, mass in (("token", token), ("block", kept), ("limit min(P, Q)", limit)):
            rows.append({"string": f"{v[0]} {v[1]}", "rule": rule, "mass": float(mass)})

    assert walked.distance == 0
    assert walked.expected_accepted == walked.closed_form
    assert walked.accepted_law.get(2, 0) == both_kept
    charts.bars(
        rows,
        x=("string", "drafted string (both tokens kept)"),
        y=("mass", "probability"),
        by=("rule", "mass kept by"),
    ).properties(title="Mass with which a whole block of two tokens is kept", height=260)
    return p, p_tree, q, q_tree, walked


@app.cell(hide_code=True)
def _(p_tree, q_tree, walked):
    mo.md(rf"""
    With $\gamma = 2$ block verification keeps $E[\tau] = {page.exact(walked.expected_accepted)}$
    tokens, token verification ${page.exact(expected_accepted("token", p_tree, q_tree, 2))}$; the
    text is at total variation **{walked.distance}** from the target's.
    """)
    return


@app.cell
def _(p_tree, q_tree):
    lengths = [
        {
            "gamma": g,
            "rule": label,
            "tau": page.number(expected_accepted(rule, p_tree, q_tree, g)),
        }
        for rule, label in (
            ("token", "token"),
            ("block", "block"),
            ("greedy_block", "Σ min(P, Q), the limit with memory"),
        )
        for g in range(1, p_tree.depth + 1)
    ]
    charts.curves(
        lengths,
        x=("gamma", "draft length γ (tokens)"),
        y=("tau", "E[τ] (drafted tokens kept per call)"),
        by=("rule", "rule"),
        zero=True,
    ).properties(title="The longer the block, the more there is to make up for")
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Facts

    On Sun's rows $p = (\tfrac13, \tfrac23)$, $q = (\tfrac23, \tfrac13)$ with $\gamma = 2$ the rule
    keeps $11/9$ tokens, against $10/9$. That nothing without memory keeps more is also proved by a
    certificate: dual weights of a linear program, checked in fractions.
    """)
    return


@app.cell
def _():
    sun = analyse("1/3,2/3", "2/3,1/3", "block", gamma=2, horizon=5)
    most = bounds("1/3,2/3", "2/3,1/3", gamma=2, num_drafts=1)
    low, high = check_certificate(most.certificates["stateless_optimum"])
    assert sun.lossless  # five tokens, several rounds
    assert sun.expected_accepted == Fraction(11, 9)
    assert low == high == sun.expected_accepted
    mo.md(
        rf"$E[\tau] = {page.exact(sun.expected_accepted)}$, and the certificate proves that no "
        rf"rule without memory keeps more than ${page.exact(high)}$."
    )
    return (sun,)


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## A bug worth knowing

    It is tempting to walk forwards and stop at the first failed test, as token verification does.
    That is a different rule, and it is wrong. Here it is, next to the target:
    """)
    return


@app.cell
def _():
    def first_failure(fx, target, draft, drafts, carry=()):
        (path,) = drafts
        ratios, kept = clipped_ratios(target, draft, path, fx.field.one), 0
        for i in range(1, len(path) + 1):
            rows = target(path[:i]), draft(path[:i])
            h = ratios[i] if i == len(path) else pass_probability(ratios[i], *rows)
            if not fx.flip(h, i - 1):
                break
            kept = i
        law = residual(target(path[:kept]), draft(path[:kept]), ratios[kept])
        law = target(path) if kept == len(path) else law
        return Round(kept, (*path[:kept], fx.choose(law, len(path))))

    buggy = page.text_law(first_failure, "1/3,2/3", "2/3,1/3", gamma=2)
    truth = autoregressive(MarkovModel(["1/3", "2/3"]), 3)
    off = to_fraction(distance(buggy, truth))
    first_is_0 = sum(mass for text, mass in buggy.items() if text[0] == 0)
    assert off == Fraction(1, 3)
    mo.md(
        rf"Walking forwards, the law of three tokens is at total variation ${page.exact(off)}$ "
        r"from the target's. Nothing crashes; only the text is wrong."
    )
    return (first_is_0,)


@app.cell(hide_code=True)
def _(first_is_0, sun):
    def by_hand(p, q):
        """m(v) over strings of one and two tokens."""
        first = [min(b, a) for a, b in zip(p, q, strict=True)]
        both = [min(q[x] * q[y], first[x] * p[y]) for x in range(2) for y in range(2)]
        return sum(first) + sum(both)

    tasks = page.check(
        [
            page.Exercise(
                r"Fill in $m$ for Sun's rows by hand. What is $E[\tau]$ at $\gamma = 2$?",
                r"$m(0) = m(1) = \tfrac13$. Then $m(00) = \min(\tfrac49, \tfrac19) = \tfrac19$, "
                r"$m(01) = \min(\tfrac29, \tfrac29) = \tfrac29$, "
                r"$m(10) = \min(\tfrac29, \tfrac19) = \tfrac19$, "
                r"$m(11) = \min(\tfrac19, \tfrac29) = \tfrac19$. Sum: $\tfrac23 + \tfrac59$.",
                Fraction(2, 3) + Fraction(5, 9),
                sun.expected_accepted,
            ),
            page.Exercise(
                r"In the buggy rule above, what is the probability that the first token is 0? "
                r"(The target says $\tfrac13$.)",
                r"After a drafted 0, $W_1 = \tfrac12$ and "
                r"$z_1 = (\tfrac16 - \tfrac23)_+ + (\tfrac13 - \tfrac13)_+ = 0$, so $h_1 = 0$: "
                r"every draft that starts with 0 is refused at once and corrected to 1. The right "
                r"rule tests the whole block first.",
                Fraction(0),
                first_is_0,
            ),
            page.Exercise(
                r"$p = (\tfrac12, \tfrac12)$, $q = (\tfrac34, \tfrac14)$, $\gamma = 2$: what is "
                r"$E[\tau]$ of block verification? (Token verification keeps $\tfrac{21}{16}$.)",
                r"$m(0) = \tfrac12$, $m(1) = \tfrac14$; then $\tfrac14, \tfrac{3}{16}, \tfrac18, "
                r"\tfrac{1}{16}$. Sum: $\tfrac34 + \tfrac58$.",
                by_hand([Fraction(1, 2)] * 2, [Fraction(3, 4), Fraction(1, 4)]),
                analyse("1/2,1/2", "3/4,1/4", "block", gamma=2).expected_accepted,
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

    * Z. Sun et al., *Block verification accelerates speculative decoding*, 2024, arXiv 2403.10444:
      the rule, its losslessness and its optimality.
    * The recursion for $m$, the short optimality proof and the certificates are derived here.
    """)
    return


if __name__ == "__main__":
    app.run()
