"""Curves that stand out: at most four have their colours, and names at their ends; the others are grey."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import plotly.graph_objects as go

from apviz.plots._axes import log_ticks
from apviz.plots._style import (
    CHECK,
    NOT_CONVERGED,
    TEXT_SIZE,
    Theme,
    ThemeName,
    readable,
    theme_named,
    translucent,
)

#: Most curves that stand out.
MOST = 4
#: Pixels of a character and of a line of a label, and between a curve and its label.
_CHARACTER, _LINE, _GAP = 7.2, 18, 12
#: Pixels of a plot without its margins, as assumed to keep labels apart; on a projector before the figure is enlarged.
SIZE, SIZE_LECTURE = (1100, 400), (900, 200)
#: Pixels of the smallest margin at the right.
_MARGIN = 48
#: Most characters of a line of a label; parts of a name that stay on one line, and the space inside them.
_LABEL, _SHORT, _FIXED = 27, re.compile(r"\(.{1,12}\)"), "\N{NO-BREAK SPACE}"
#: Pixels between two points of a curve that labels avoid.
_STEP = 4.0
#: Pixels by which a label is shifted at most.
_FARTHEST = 5 * _LINE
#: Opacity and width of a grey curve.
_GREY, _THIN = 0.4, 1.2
#: Sizes of a plot, relative to the assumed one, at which labels stay apart.
_STRETCHES = (0.7, 2.2)


class _Box(NamedTuple):
    """Box of a label in pixels: the end of its curve, its left edge and its middle from there, its size."""

    x: float
    y: float
    left: float
    up: float
    width: float
    height: float

    def is_apart(self, other: _Box) -> bool:
        """Test whether two labels have no point in common, whatever the size of the plot."""
        across = [stretch * (self.x - other.x) + self.left - other.left for stretch in _STRETCHES]
        upright = [stretch * (self.y - other.y) + self.up - other.up for stretch in _STRETCHES]
        high = (self.height + other.height) / 2
        return min(across) >= other.width or max(across) <= -self.width or min(upright) >= high or max(upright) <= -high


def highlight(
    figure: go.Figure, names: Mapping[str, str], theme: ThemeName, pixels: tuple[int, int] = SIZE
) -> go.Figure:
    """Return the figure with these curves in front, named at their ends, and the others thin and grey behind them.

    Grey curves have no residuals recomputed from B − KW, which would hide their ends.

    Args:
        names: Label of each curve that stands out, by its group in the legend.
        pixels: Assumed width and height of the plot without its margins.
    """
    colors = theme_named(theme)
    grey = translucent(colors.muted, _GREY)
    behind, front = list[Any](), list[Any]()
    for curve in figure.data:
        if not curve.legendgroup or curve.legendgroup in names:
            front.append(curve)
        elif curve.marker.symbol != CHECK:
            # without an outline, and not translucent, a cross is legible over other curves
            is_cross = curve.marker.symbol == NOT_CONVERGED
            curve.marker.update(color=colors.muted, size=9 if is_cross else 6, line={"width": 0})
            if "lines" in (curve.mode or ""):
                curve.line.update(color=grey, width=_THIN, dash="solid")
                curve.mode = "lines"
            behind.append(curve)
    figure.data = [*behind, *front]
    figure.layout.yaxis.autorangeoptions.update(_room_below(figure))
    labels, room = _labels(figure, names, colors, pixels)
    if labels:
        figure.layout.annotations = [*figure.layout.annotations, *labels]
        figure.layout.margin.r = max(_MARGIN, int(room))
    return figure


def log_x(figure: go.Figure) -> go.Figure:
    """Make the x axes logarithmic; the start of a run, at 0, is not on them."""
    drawn = [np.asarray(curve.x, dtype=float) for curve in figure.data if curve.x is not None]
    ticks = log_ticks(np.concatenate(drawn)) if drawn else {}
    figure.update_xaxes(type="log", rangemode="normal", **ticks)
    return figure


def _room_below(figure: go.Figure) -> dict[str, Any]:
    """Return the option of the y axis that leaves room for labels below the ends."""
    drawn = [np.asarray(curve.y, dtype=float) for curve in figure.data if curve.y is not None]
    known = np.concatenate(drawn) if drawn else np.empty(0)
    known = np.log10(np.minimum(known[np.isfinite(known) & (known > 0)], _most(figure.layout.yaxis)))
    return {"include": [10 ** float(known.min() - 0.2 * np.ptp(known))]} if len(known) else {}


def _labels(
    figure: go.Figure, names: Mapping[str, str], colors: Theme, pixels: tuple[int, int]
) -> tuple[list[dict[str, Any]], float]:
    """Return annotations at the ends of curves, where they cover neither each other nor, if possible, anything else.

    Returns:
        Annotations, and the pixels that they need to the right of the axes.
    """
    curves = {curve.legendgroup: (curve, points) for curve in figure.data if len(points := _drawn(curve, figure))}
    found = [(names[group], *curves[group]) for group in names if group in curves]
    if not found:
        return [], 0.0
    every = np.concatenate([points for _, points in curves.values()])
    low, span = every.min(0), np.maximum(np.ptp(every, axis=0), 1e-9)
    size = np.array(pixels)

    def placed(several: Iterable[np.ndarray]) -> np.ndarray:
        return np.concatenate([_dense((points - low) / span * size) for points in several])

    named, levels = placed(points for *_, points in found), _levels(figure)
    ends = np.concatenate([points[-1:] for _, points in curves.values()])
    lines = [np.array([[low[0], level], [low[0] + 2 * span[0], level]]) for level in levels]
    marks = np.concatenate([named, (ends - low) / span * size, *(placed([line]) for line in lines)])
    obstacles = [np.concatenate([marks, placed(points for _, points in curves.values())]), marks, named]
    # the text at the left end of each line
    taken = [_Box(0.0, (level - low[1]) / span[1] * size[1], 0.0, _LINE / 2, 110, _LINE) for level in levels]
    labels = []
    # from right to left, because a label lies to the right of its end
    for name, curve, points in sorted(found, key=lambda each: -each[2][-1, 0]):
        end, words = points[-1], textwrap.wrap(_SHORT.sub(lambda found: found[0].replace(" ", _FIXED), name), _LABEL)
        x, y = (end - low) / span * size
        width, height = _CHARACTER * max(map(len, words)), float(_LINE * len(words))
        box = _free_place(x, y, width, height, taken, obstacles)
        taken.append(box)
        is_right = box.left > 0
        labels.append({
            "name": "end", "x": float(end[0]), "y": float(end[1]), "xref": "x", "yref": "y", "text": "<br>".join(words),
            "xanchor": "left" if is_right else "right", "yanchor": "middle", "align": "left" if is_right else "right",
            "bgcolor": translucent(colors.paper, 0.7),
            "font": {"color": readable(curve.line.color, colors), "size": TEXT_SIZE - 1},
            **_shifted(_GAP if is_right else -_GAP, box.up, curve.line.color),
        })  # fmt: skip
    return labels, max(box.x + box.left + box.width for box in taken) - pixels[0]


def _shifted(across: float, up: float, color: str) -> dict[str, Any]:
    """Return the place of a label, in pixels from the end of its curve; a thin line leads to a label far from it."""
    if abs(up) <= _LINE:
        return {"showarrow": False, "xshift": across, "yshift": up}
    return {
        "showarrow": True, "ax": across, "ay": -up, "arrowhead": 0, "arrowwidth": 1, "arrowcolor": color,
        "standoff": _GAP / 2,
    }  # fmt: skip


def _most(axis: Any) -> float:
    """Return where an axis ends so that outliers do not stretch it; infinity for an axis without outliers."""
    most = axis.autorangeoptions.clipmax
    return np.inf if most is None else float(most)


def _drawn(curve: Any, figure: go.Figure) -> np.ndarray:
    """Return the points of a run's curve that the axes can show, (points, 2); none for other curves.

    They are as annotations take them: logarithms on a log axis. An outlier is moved to the end of the axis.
    """
    if not curve.legendgroup or "lines" not in (curve.mode or "") or curve.x is None:
        return np.empty((0, 2))
    axes, is_log = figure.layout, figure.layout.xaxis.type == "log"
    x = np.minimum(np.asarray(curve.x, dtype=float), _most(axes.xaxis))
    y = np.minimum(np.asarray(curve.y, dtype=float), _most(axes.yaxis))
    points: np.ndarray = np.column_stack([x, y])[np.isfinite(x) & np.isfinite(y) & (y > 0) & ((x > 0) | (not is_log))]
    points[:, 1] = np.log10(points[:, 1])
    if is_log:
        points[:, 0] = np.log10(points[:, 0])
    return points


def _dense(points: np.ndarray) -> np.ndarray:
    """Return points in pixels along a curve, dense enough that none of its lines passes a label unnoticed."""
    along = np.concatenate([[0.0], np.cumsum(np.abs(np.diff(points, axis=0)).max(axis=1))])
    steps = np.linspace(0, along[-1], 2 + int(along[-1] / _STEP))
    return np.column_stack([np.interp(steps, along, points[:, k]) for k in (0, 1)])


def _levels(figure: go.Figure) -> list[float]:
    """Return the heights of the horizontal lines of a figure, such as the tolerance, on its log axis."""
    return [math.log10(shape.y0) for shape in figure.layout.shapes if shape.y0 == shape.y1 and shape.y0 > 0]


def _free_place(
    x: float, y: float, width: float, height: float, taken: Sequence[_Box], obstacles: Sequence[np.ndarray]
) -> _Box:
    """Return the place of a label at the end x, y of its curve, at which it covers no other.

    It covers no obstacle either, if that is possible. The right of the end and small shifts are preferred.

    Args:
        obstacles: Points in pixels: all that should be free, then the more important ones among them.
    """

    def is_free(box: _Box, lines: np.ndarray) -> bool:
        across, up = lines[:, 0] - x - box.left, lines[:, 1] - y - box.up
        covers = (across > 0) & (across < width) & (np.abs(up) < height / 2)
        return not covers.any() and all(map(box.is_apart, taken))

    for lines in (*obstacles, obstacles[-1][:0]):
        for step in range(0, _FARTHEST, _LINE // 2):
            for left in (float(_GAP), -_GAP - width):
                for up in (float(step), -float(step)):
                    box = _Box(x, y, left, up, width, height)
                    if is_free(box, lines):
                        return box
    return _Box(x, y, float(_GAP), 0.0, width, height)
