"""Pictures to a file (PNG or SVG by suffix), for readers who would rather look."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito's colours, told apart by colour-blind readers too."""
MARKS = ("o", "s", "^", "D", "v", "P", "X")


def curves(
    path: Path,
    lines: Mapping[str, Sequence[tuple[float, float]]],
    x_label: str,
    y_label: str,
    title: str,
) -> None:
    """Draw one line with markers per name; the first is a broad band behind the others.

    Raises:
        ValueError: matplotlib is missing, or cannot write the file's format.
    """
    figure, axes = _figure(path)
    for index, (name, points) in enumerate(lines.items()):
        xs, ys = zip(*points, strict=True)
        style = {
            "color": COLOURS[index % len(COLOURS)],
            "marker": MARKS[index % len(MARKS)],
            "markersize": 4,
            "linewidth": 1.2 if index else 5,
            "alpha": 1.0 if index else 0.4,
        }
        axes.plot(xs, ys, label=name, **style)
    axes.legend(frameon=False)
    _finish(figure, axes, path, x_label, y_label, title)


def bars(path: Path, values: Mapping[str, float], x_label: str, title: str) -> None:
    """Draw one horizontal bar per name, first name at the top, with its value beside it.

    Raises:
        ValueError: matplotlib is missing, or cannot write the file's format.
    """
    figure, axes = _figure(path)
    names = list(values)[::-1]
    drawn = axes.barh(names, [values[name] for name in names], color=COLOURS[0], height=0.6)
    axes.bar_label(drawn, fmt="%.3f", padding=3)
    axes.margins(x=0.12)
    _finish(figure, axes, path, x_label, "", title)


def check_picture(path: Path) -> None:
    """Whether a picture can be written there, before anything is computed for it.

    Raises:
        ValueError: another format, a folder that does not exist, or no matplotlib.
    """
    if path.suffix not in (".png", ".svg"):
        raise ValueError(f"cannot draw {path.name!r}; name the picture .png or .svg")
    if not path.parent.is_dir():
        raise ValueError(f"cannot draw {path}: {path.parent} is not a folder; make it first")
    if importlib.util.find_spec("matplotlib") is None:
        raise ValueError("a picture needs matplotlib; pip install matplotlib")


def _figure(path: Path) -> tuple[Any, Any]:
    check_picture(path)
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.5), layout="constrained")
    return figure, figure.subplots()


def _finish(figure: Any, axes: Any, path: Path, x_label: str, y_label: str, title: str) -> None:
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    axes.set_title(title)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)
    axes.set_axisbelow(True)
    figure.savefig(path, dpi=150)
