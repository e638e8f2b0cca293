import marimo

__generated_with = "0.25.2"
app = marimo.App(app_title="Many drafts as optimal transport: K-SEQ, alpha*, the polymatroid")

with app.setup(hide_code=True):
    from fractions import Fraction
    from itertools import product

    import marimo as mo

    from theory import MarkovModel, RowTree, analyse
    from theory.accepted_length import expected_accepted
    from theory.fields import EXACT, to_fraction
    from theory.notebooks import _charts as charts
    from theory.notebooks import _page as page
    from theory.transport import alpha_star, alpha_star_lp, alpha_star_subsets
    from theory.transport.one_position import hit_probability
    from theory.verifiers.kseq import accepted_once, gain, smallest_rho


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    # 4. Many drafts at one position

    Draw $K$ tokens independently from $q$. A rule looks at all of them and emits one token with
    law $p$; it *accepts* when the emitted token is one of the drafted ones. How often can that
    be? Write $\varphi(a) = 1 - (1-a)^K$, the probability that some draft falls into a set of
    draft mass $a$, and let $f(x)$ be the mass with which $x$ is accepted.

    **Theorem.** A vector $f \ge 0$ is the accepted mass of some lossless rule **iff**

    $$f \le p \qquad\text{and}\qquad f(A) \le \varphi(q(A)) \quad\text{for every set } A
      \text{ of tokens},$$

    and hence the largest acceptance probability is

    $$\alpha^* \;=\; \min_{C}\; \bigl[\, p(\text{not } C) + \varphi(q(C)) \,\bigr],$$

    where only sets $C = \{x : p(x)/q(x) \ge t\}$ have to be tried: one sort.

    **Proof.** *Necessary*: the law is $p$; and accepting a token of $A$ needs a draft in $A$.
    *Sufficient*: draw the multiset of drafts, then choose one of its members or none; by the
    max-flow min-cut theorem the masses $f$ can be routed iff no set $A$ asks for more than the
    multisets that meet it hold, which is $\varphi(q(A))$. Let the unaccepted rest emit from
    $\mathrm{norm}\,(p - f)$. *Value*: $A \mapsto \varphi(q(A))$ is submodular ($\varphi$ is
    concave), so the feasible $f$ form a **polymatroid** cut by the box $f \le p$, and its largest
    total is the minimum over cuts $C$: tokens outside $C$ are limited by $p$, tokens inside
    together by $\varphi(q(C))$. *Threshold sets suffice*: for fixed $q(C)$ the set that leaves
    the least $p(\text{not } C)$ has the largest ratios, and concavity of $\varphi$ rules out
    splitting in between. $\square$
    """)
    return


@app.cell(hide_code=True)
def _():
    p0 = mo.ui.slider(1, 11, value=7, label="$p(0)$ in twelfths", show_value=True)
    waste = mo.ui.slider(0, 9, value=4, label="$q(2)$ in twelfths", show_value=True)
    drafts = mo.ui.slider(1, 3, value=2, label="drafts $K$", show_value=True)
    return drafts, p0, waste


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## The polygon

    Three tokens: the target wants tokens 0 and 1 only, $p = (p(0), 1 - p(0), 0)$; the draft
    wastes $q(2)$ on token 2 and splits the rest in equal parts. So $f(2) = 0$, and all that a
    rule can do is a point $(f(0), f(1))$ under three limits: one for each token, one for the two
    together.
    """)
    return


@app.cell(hide_code=True)
def _(drafts, p0, waste):
    mo.vstack([p0, waste, drafts])
    return


@app.cell
def _(drafts, p0, waste):
    third = Fraction(waste.value, 12)
    p, q, K = [*page.coin(p0.value), 0], [(1 - third) / 2, (1 - third) / 2, third], drafts.value
    best = alpha_star(p, q, K)

    def accepted(rule):
        """The mass with which a rule accepts token 0 and token 1, over all its paths."""
        law = analyse(p, q, rule, gamma=1, num_drafts=K).decoder.round_law((), (), 1)
        mass = [sum(m for r, m in law.items() if r.accepted and r.tokens[0] == x) for x in (0, 1)]
        return [page.number(m) for m in mass]

    rules = {
        "recursive rejection": accepted("recursive_rejection"),
        "K-SEQ": accepted("kseq"),
        "optimal transport": accepted("optimal_transport"),
    }
    reach = [min(p[x], hit_probability(q[x], K)) for x in (0, 1)]
    together = min(sum(reach), hit_probability(q[0] + q[1], K))
    assert together == best  # the theorem, for this polygon
    for x, y in rules.values():
        assert x <= reach[0] + 1e-12
        assert y <= reach[1] + 1e-12
        assert x + y <= best + 1e-12
    assert abs(sum(rules["optimal transport"]) - best) < 1e-12
    return K, best, p, q, reach, rules


@app.cell
def _(best, reach, rules):
    corners = [(0, 0), (reach[0], 0), (reach[0], best - reach[0]), (best - reach[1], reach[1])]
    corners += [(0, reach[1]), (0, 0)]
    outline = [
        {"f0": page.number(x), "f1": page.number(y), "order": n, "what": "what a rule may accept"}
        for n, (x, y) in enumerate(corners)
    ]
    region = charts.region(outline, x="f0", y="f1")
    points = charts.dots(
        [{"f0": x, "f1": y, "rule": name} for name, (x, y) in rules.items()],
        x=("f0", "f(0): accepted mass of token 0 (probability)"),
        y=("f1", "f(1): accepted mass of token 1 (probability)"),
        by=("rule", "rule"),
        zero=True,
    )
    (region + points).properties(
        title="Acceptance is f(0) + f(1): the slanted edge is the optimum", height=330
    )
    return


@app.cell(hide_code=True)
def _(K, best, rules):
    mo.md(rf"""
    With $K = {K}$ the optimum is $\alpha^* = {page.exact(best)}$. The rules accept
    {", ".join(f"{name} {sum(mass):.4f}" for name, mass in rules.items())}. Recursive rejection
    and K-SEQ test drafts one after another without looking at the others, and may stop inside
    the polygon.

    ## K-SEQ

    K-SEQ (SpecTr) accepts each draft $x$ with probability $\min(1, p(x)/(\rho\,q(x)))$, the first
    success wins. One draft passes with probability $\beta(\rho) = \sum \min(q, p/\rho)$, so $x$
    is accepted with mass $G \min(q(x), p(x)/\rho)$, $G = \varphi(\beta)/\beta$. That must not
    exceed $p$, which holds iff $G \le \rho$: **the smallest such $\rho$ accepts the most**, and
    any smaller one makes the residual negative. It always reaches $1 - (1 - 1/K)^K$ of
    $\alpha^*$, at least $1 - 1/e$.
    """)
    return


@app.cell
def _(p, q):
    # gamma = 1: a tree of one row; closed forms for any number of drafts.
    one = RowTree.of(MarkovModel(p), 1), RowTree.of(MarkovModel(q), 1)
    rows = []
    for k in range(1, 9):
        top = alpha_star(p, q, k)
        kseq = to_fraction(expected_accepted("kseq", *one, 1, k))
        promised = (1 - (1 - Fraction(1, k)) ** k) * top
        assert promised - Fraction(1, 10**9) <= kseq <= top
        values = {
            "α*, the optimum": top,
            "K-SEQ": kseq,
            "recursive rejection": expected_accepted("recursive_rejection", *one, 1, k),
            "promise for K-SEQ": promised,
        }
        rows += [{"K": k, "rule": name, "alpha": page.number(v)} for name, v in values.items()]
    charts.curves(
        rows,
        x=("K", "drafts K"),
        y=("alpha", "acceptance probability of one position"),
        by=("rule", "rule"),
    ).properties(title="What more drafts buy")
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Facts

    Three independent ways to the same $\alpha^*$: the sorted form, the minimum over all $2^V$
    sets, and the linear program of the transport itself (floats). And a pair on which K-SEQ is
    already optimal.
    """)
    return


@app.cell
def _():
    p_three, q_three = EXACT.array([0, "1/2", "1/2"]), EXACT.array(["1/2", "1/6", "1/3"])
    sets = []
    for chosen in product((0, 1), repeat=3):
        inside = [x for x in range(3) if chosen[x]]
        outside = sum((p_three[x] for x in range(3) if not chosen[x]), start=EXACT.zero)
        drafted = sum((q_three[x] for x in inside), start=EXACT.zero)
        sets.append((outside + hit_probability(drafted, 2), inside))
    value, tight = min(sets, key=lambda pair: pair[0])

    sorted_form = alpha_star(p_three, q_three, 2)
    assert sorted_form == Fraction(3, 4)
    assert value == alpha_star_subsets(p_three, q_three, 2)
    assert page.number(value) == page.number(sorted_form)
    assert abs(alpha_star_lp(p_three, q_three, 2) - page.number(sorted_form)) < 1e-9

    rho = smallest_rho(p_three, q_three, 2)
    beta = accepted_once(p_three, q_three, rho)
    assert gain(beta, 2) == rho  # rho is tight, hence K-SEQ is exact here
    assert page.number(beta * gain(beta, 2)) == 0.75
    mo.md(
        rf"$p = (0, \tfrac12, \tfrac12)$, $q = (\tfrac12, \tfrac16, \tfrac13)$, $K = 2$: "
        rf"$\alpha^* = {page.exact(sorted_form)}$, with the cut $C = \{{"
        rf"{', '.join(map(str, tight))}\}}$. K-SEQ has $\rho = {page.exact(rho)}$, "
        rf"$\beta = {page.exact(beta)}$ and accepts $\varphi(\beta) = {page.exact(sorted_form)}$."
    )
    return


@app.cell(hide_code=True)
def _():
    def least_drafts(target, draft):
        """The smallest K with alpha* = 1."""
        k = 1
        while alpha_star(target, draft, k) < 1:
            k += 1
        return k

    quarter = Fraction(1, 4)
    tasks = page.check(
        [
            page.Exercise(
                r"$p = (\tfrac34, \tfrac14)$, $q = (\tfrac14, \tfrac34)$, $K = 2$: evaluate the "
                r"cut $C = \{0\}$. Is it $\alpha^*$?",
                r"$p(1) + \varphi(q(0)) = \tfrac14 + (1 - (\tfrac34)^2)$. The other cuts give "
                r"$1$ ($C$ empty or everything) and $\tfrac34 + \tfrac{15}{16}$.",
                quarter + 1 - Fraction(3, 4) ** 2,
                alpha_star("3/4,1/4", "1/4,3/4", 2),
            ),
            page.Exercise(
                r"The same rows: how many drafts are needed before *every* position can be "
                r"accepted?",
                r"$\alpha^* = 1$ iff $p(A) \ge q(A)^K$ for all $A$. With $A = \{1\}$: "
                r"$\tfrac14 \ge (\tfrac34)^K$, so $K \ge \ln 4 / \ln \tfrac43 = 4.8$.",
                5,
                least_drafts("3/4,1/4", "1/4,3/4"),
            ),
            page.Exercise(
                r"$p = (\tfrac12, \tfrac12, 0)$, $q$ uniform on three tokens, $K = 2$. Looking at "
                r"tokens one by one, $\min(p(x), \varphi(q(x)))$ sums to 1. What is $\alpha^*$?",
                r"$C = \{0, 1\}$: $0 + \varphi(\tfrac23) = 1 - \tfrac19$. Both tokens want the "
                r"same drafts; only a *set* shows it.",
                1 - Fraction(1, 9),
                alpha_star("1/2,1/2,0", "1/3,1/3,1/3", 2),
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

    * Z. Sun et al., *SpecTr: fast speculative decoding via optimal transport*, 2023, arXiv
      2310.15141: the transport problem, K-SEQ and its factor $1 - (1 - 1/K)^K$.
    * A. Khisti et al., *Multi-draft speculative sampling*, 2024, arXiv 2410.18234, and
      Z. Hu et al., *Towards optimal multi-draft speculative decoding*, 2025, arXiv 2502.18779:
      the value $\alpha^*$ and the sorted form.
    * X. Miao et al., *SpecInfer*, 2023, arXiv 2305.09781: recursive rejection.
    * J. Edmonds, *Submodular functions, matroids, and certain polyhedra*, 1970: polymatroids.
    """)
    return


if __name__ == "__main__":
    app.run()
