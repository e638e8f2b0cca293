"""Charts in one style.

They use Okabe and Ito's colours, which colour-blind readers tell apart, and repeat every colour as
a shape or a dash. Axes take ``(field, title)``; titles carry the unit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from theory.fields import Number
from theory.notebooks._page import number

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "stroke")
DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [12, 4], [4, 4], [1, 4])

Row = dict[str, Any]
Axis = tuple[str, str]


@alt.theme.register("specproof", enable=True)
def _theme() -> alt.theme.ThemeConfig:
    return alt.theme.ThemeConfig(
        config={
            "view": {"continuousWidth": 520, "continuousHeight": 300, "stroke": None},
            "axis": {"labelFontSize": 12, "titleFontSize": 13, "titleFontWeight": "normal"},
            "legend": {
                "labelFontSize": 12,
                "titleFontSize": 12,
                "labelLimit": 320,
                "orient": "top",
            },
            "range": {"category": list(COLOURS)},
        }
    )


def curves(
    rows: Sequence[Row],
    x: Axis,
    y: Axis,
    by: Axis,
    points: bool = True,
    zero: bool = False,
    log: bool = False,
) -> Any:
    """One line for each value of ``by``, in order of appearance; ``log`` is about the x axis."""
    names = _names(rows, by)
    encoding: Row = {
        "x": _across(rows, x, zero=False, log=log),
        "y": _quantity(y, zero),
        "color": _by(alt.Color, by, names, COLOURS),
        "tooltip": [*_amounts(x, y), *_labels(by)],
    }
    if points:
        encoding["shape"] = _by(alt.Shape, by, names, SHAPES)
    else:
        encoding["strokeDash"] = _by(alt.StrokeDash, by, names, DASHES)
    dots = {"size": 55, "filled": True} if points else False
    return _chart(rows).mark_line(strokeWidth=2.5, point=dots).encode(**encoding)


def dots(rows: Sequence[Row], x: Axis, y: Axis, by: Axis, zero: bool = False) -> Any:
    """Points, coloured and shaped by ``by``."""
    names = _names(rows, by)
    return (
        _chart(rows)
        .mark_point(size=80, filled=True, opacity=0.9)
        .encode(
            x=_across(rows, x, zero),
            y=_quantity(y, zero),
            color=_by(alt.Color, by, names, COLOURS),
            shape=_by(alt.Shape, by, names, SHAPES),
            tooltip=[*_amounts(x, y), *_labels(by)],
        )
    )


def bars(rows: Sequence[Row], x: Axis, y: Axis, by: Axis, stacked: bool = False) -> Any:
    """Vertical bars in order of appearance, side by side or stacked."""
    names = _names(rows, by)
    encoding: Row = {
        "x": alt.X(x[0], type="nominal", title=x[1], sort=None, axis=alt.Axis(labelAngle=0)),
        "y": alt.Y(y[0], type="quantitative", title=y[1], stack="zero" if stacked else None),
        "color": _by(alt.Color, by, names, COLOURS),
        "tooltip": [*_labels(x, by), *_amounts(y)],
    }
    if stacked:
        encoding["order"] = alt.Order("rank", type="quantitative")
    else:
        encoding["xOffset"] = alt.XOffset(by[0], type="nominal", sort=names)
    ranked = [{**row, "rank": names.index(row[by[0]])} for row in rows]
    width = alt.Step(90 if stacked else 30)
    return _chart(ranked).mark_bar(cornerRadiusEnd=2).encode(**encoding).properties(width=width)


def ranking(rows: Sequence[Row], x: Axis, y: str, by: Axis) -> Any:
    """Horizontal bars in order of appearance, each with its value at its end."""
    names = _names(rows, by)
    room = alt.Scale(domain=[0, 1.15 * max(row[x[0]] for row in rows)], nice=False)
    base = _chart(rows).encode(
        x=alt.X(x[0], type="quantitative", title=x[1], scale=room, axis=alt.Axis(tickCount=8)),
        y=alt.Y(y, type="nominal", title=None, sort=None, axis=alt.Axis(labelLimit=0)),
        tooltip=[*_labels((y, "name"), by), *_amounts(x)],
    )
    drawn = base.mark_bar(height=20, cornerRadiusEnd=2).encode(
        color=_by(alt.Color, by, names, COLOURS)
    )
    values = base.mark_text(align="left", dx=4, fontSize=12).encode(
        text=alt.Text(x[0], type="quantitative", format=".4f")
    )
    return (drawn + values).properties(height=alt.Step(30))


def region(corners: Sequence[Row], x: str, y: str) -> Any:
    """A filled polygon; each corner has its place in "order" and its name in "what"."""
    encoding = {
        "x": alt.X(x, type="quantitative"),
        "y": alt.Y(y, type="quantitative"),
        "order": alt.Order("order", type="quantitative"),
        "tooltip": _labels(("what", "region")),
    }
    look = {"filled": True, "fill": COLOURS[5], "fillOpacity": 0.35, "stroke": COLOURS[5]}
    return _chart(corners).mark_line(**look).encode(**encoding)


def band(rows: Sequence[Row], x: str, y: str) -> Any:
    """A broad pale line, to lie behind curves that may run along it."""
    encoding = {"x": alt.X(x, type="quantitative"), "y": alt.Y(y, type="quantitative")}
    look = {"strokeWidth": 11, "opacity": 0.3, "color": COLOURS[5], "strokeCap": "round"}
    return _chart(rows).mark_line(**look).encode(**encoding)


def level(value: Number, text: str, colour: str = COLOURS[6]) -> Any:
    """A dashed horizontal line with its name above it at the left."""
    base = _chart([{"level": number(value), "text": text}]).encode(
        y=alt.Y("level", type="quantitative")
    )
    line = base.mark_rule(strokeDash=[5, 4], color=colour)
    place = {"align": "left", "baseline": "bottom", "dx": 4, "dy": -3}
    words = base.mark_text(**place, fontSize=12, color=colour).encode(
        x=alt.value(0), text=alt.Text("text", type="nominal")
    )
    return line + words


def notes(rows: Sequence[Row], x: str, y: str) -> Any:
    """Black diamonds, each with its "text" beside it."""
    base = _chart(rows).encode(x=alt.X(x, type="quantitative"), y=alt.Y(y, type="quantitative"))
    marks = base.mark_point(shape="diamond", size=110, filled=True, color=COLOURS[6], opacity=1)
    words = base.mark_text(align="left", dx=9, dy=-9, fontSize=12, color=COLOURS[6])
    return marks + words.encode(text=alt.Text("text", type="nominal"))


def _chart(rows: Sequence[Row]) -> Any:
    return alt.Chart(alt.Data(values=list(rows)))


def _across(rows: Sequence[Row], x: Axis, zero: bool, log: bool = False) -> alt.X:
    """A horizontal axis; whole numbers are not divided further."""
    whole = all(isinstance(row[x[0]], int) for row in rows)
    ticks = alt.Axis(tickMinStep=1, format="d") if whole else alt.Axis()
    scale = alt.Scale(zero=zero, nice=not whole)
    if log:
        scale = alt.Scale(type="log")
        ticks = alt.Axis(values=[10**k for k in range(-9, 10)], format="~s")
    return alt.X(x[0], type="quantitative", title=x[1], scale=scale, axis=ticks)


def _names(rows: Sequence[Row], by: Axis) -> list[Any]:
    names = list(dict.fromkeys(row[by[0]] for row in rows))
    if len(names) > len(COLOURS):
        raise ValueError(f"{len(names)} names for {len(COLOURS)} colours; show fewer at a time")
    return names


def _by(channel: Any, by: Axis, names: list[Any], looks: Sequence[Any]) -> Any:
    scale = alt.Scale(domain=names, range=list(looks[: len(names)]))
    return channel(by[0], type="nominal", title=by[1], scale=scale)


def _quantity(y: Axis, zero: bool) -> alt.Y:
    return alt.Y(y[0], type="quantitative", title=y[1], scale=alt.Scale(zero=zero))


def _amounts(*axes: Axis) -> list[alt.Tooltip]:
    return [alt.Tooltip(n, type="quantitative", title=title, format=".5~g") for n, title in axes]


def _labels(*axes: Axis) -> list[alt.Tooltip]:
    return [alt.Tooltip(name, type="nominal", title=title) for name, title in axes]
