"""Figures of curves as HTML and SVG, which a browser draws at once, without a script, as wide as their container."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import plotly.graph_objects as go

from apviz.plots._style import CAPTION_SIZE, FONT, TEXT_SIZE, TITLE_SIZE, ThemeName, theme_named

#: Side of the square in which curves are drawn, before it is stretched.
_SIDE: Final = 1000.0
#: Most points of a curve; a longer curve is drawn with the minimum and maximum of every stretch.
_POINTS: Final = 800
#: Share of an axis that stays free beyond the data, for markers.
_ROOM: Final = 0.06
#: Approximate maximum number of labels along an axis.
_TICKS: Final = 6
_DASHES: Final = {"solid": "none", "dot": "3,3", "dash": "9,9", "longdash": "15,15", "dashdot": "9,3,3,3"}
#: Symbols of single points, as characters.
_LETTERS: Final = {
    "circle": "●", "circle-open": "○", "square": "■", "diamond": "◆", "diamond-open": "◇", "x": "✖", "star": "★",
    "triangle-up": "▲", "triangle-down": "▼", "triangle-left": "◀", "triangle-right": "▶", "pentagon": "⬟",
    "hexagram": "✶", "star-diamond": "✦",
}  # fmt: skip
_TAG = re.compile(r"<[^>]*>")
_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)


@dataclass(frozen=True)
class _Axis:
    """Axis of a figure from `low` to `high`, in powers of ten if it is logarithmic."""

    is_log: bool
    low: float
    high: float

    def share(self, values: np.ndarray) -> np.ndarray:
        """Convert values to shares of the axis, NaN for values that it cannot show."""
        return (_counted(values, self.is_log) - self.low) / (self.high - self.low)

    def ticks(self) -> Iterator[tuple[float, str]]:
        """Yield the share of the axis and the HTML label of every tick."""
        span = self.high - self.low
        step = max(1.0, math.ceil(span / _TICKS)) if self.is_log else _round_step(span / _TICKS)
        first = math.ceil(self.low / step - 1e-9)
        for place in range(first, math.floor(self.high / step + 1e-9) + 1):
            value = place * step
            yield (value - self.low) / span, _power(round(value)) if self.is_log else f"{value:,.10g}"


def still(figure: go.Figure, theme: ThemeName = "light") -> str:
    """Return a figure as HTML with its title, axes, curves and markers, without legend, hovering and buttons.

    The HTML fills its container, also in height. All text of the figure is escaped.

    Args:
        figure: Figure of curves and markers (`scatter`) over one pair of axes.

    Raises:
        ValueError: Other traces, or more than one pair of axes.
    """
    kinds = {each.type for each in figure.data}
    axes = {(each.xaxis or "x", each.yaxis or "y") for each in figure.data}
    if kinds != {"scatter"} or len(axes) != 1:
        raise ValueError(f"only curves over one pair of axes can be drawn, got {sorted(kinds)} over {sorted(axes)}")
    colors, x, y = theme_named(theme), _axis(figure, "x"), _axis(figure, "y")
    marks = "".join([*_grid(x, y, colors.grid), *_lines(figure, y), *_curves(figure, x, y)])
    picture = (
        f'<svg viewBox="0 0 {_SIDE:g} {_SIDE:g}" preserveAspectRatio="none" aria-hidden="true" fill="none" '
        f'style="position:absolute;width:100%;height:100%;overflow:visible">{marks}</svg>'
    )
    numbers = "".join([*_labels(x, "left", "top:calc(100% + 8px);transform:translateX(-50%)"),
                       *_labels(y, "bottom", "right:calc(100% + 8px);transform:translateY(50%)")])  # fmt: skip
    words = "".join([*_letters(figure, x, y), *_notes(figure, x, y)])
    edge = f"1px solid {colors.muted}"
    return (
        f'<figure style="margin:0;height:100%;display:flex;flex-direction:column;font:{TEXT_SIZE}px {FONT};'
        f'color:{colors.ink};line-height:1.3">{_title(figure, colors.muted)}'
        '<div style="flex:1;display:flex;min-height:0">'
        '<div style="writing-mode:vertical-rl;text-orientation:sideways;transform:rotate(180deg);'
        f'text-align:center;font-size:{TITLE_SIZE}px">'
        f"{_plain(figure.layout.yaxis.title.text)}</div>"
        '<div style="flex:1;position:relative;margin:8px 16px 36px 56px;'
        f'border-left:{edge};border-bottom:{edge}">{picture}{numbers}{words}</div></div>'
        f'<div style="text-align:center;padding-left:56px;font-size:{TITLE_SIZE}px">'
        f"{_plain(figure.layout.xaxis.title.text)}</div></figure>"
    )


# --- axes -------------------------------------------------------------------------------------------------------------


def _axis(figure: go.Figure, letter: str) -> _Axis:
    layout = figure.layout[f"{letter}axis"]
    is_log = layout.type == "log"
    if layout.range is not None and None not in layout.range:
        return _Axis(is_log, *sorted(map(float, layout.range)))
    values = [_counted(_numbers(each[letter]), is_log) for each in figure.data]
    finite = np.concatenate(values)[np.isfinite(np.concatenate(values))]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    if layout.rangemode == "tozero" and not is_log:
        low, high = min(low, 0.0), max(high, 0.0)
    room = _ROOM * (high - low) or 0.5
    return _Axis(is_log, low if low == 0 and layout.rangemode == "tozero" else low - room, high + room)


def _numbers(values: Any) -> np.ndarray:
    return np.asarray([] if values is None else values, dtype=float)


def _counted(values: np.ndarray, is_log: bool) -> np.ndarray:
    if not is_log:
        return values
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(values > 0, np.log10(values), np.nan)


def _round_step(least: float) -> float:
    """Return the smallest of 1, 2 and 5 times a power of ten that is at least `least`."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= least * (1 - 1e-9))


def _power(exponent: int) -> str:
    return "1" if exponent == 0 else "10" if exponent == 1 else f"10<sup>{exponent}</sup>".replace("-", "−")


def _labels(axis: _Axis, side: str, style: str) -> Iterator[str]:
    for share, label in axis.ticks():
        yield f'<span style="position:absolute;{side}:{100 * share:.2f}%;{style};white-space:nowrap">{label}</span>'


# --- data -------------------------------------------------------------------------------------------------------------


def _grid(x: _Axis, y: _Axis, color: str) -> Iterator[str]:
    for share, _ in x.ticks():
        yield _path(f"M{_SIDE * share:.1f} 0V{_SIDE:g}", color, 1.0)
    for share, _ in y.ticks():
        yield _path(f"M0 {_SIDE * (1 - share):.1f}H{_SIDE:g}", color, 1.0)


def _lines(figure: go.Figure, y: _Axis) -> Iterator[str]:
    """Yield the shapes that are lines across the axes, such as a tolerance."""
    for shape in figure.layout.shapes:
        if shape.type == "line" and shape.xref == "x domain" and shape.yref == "y" and shape.y0 == shape.y1:
            share = float(y.share(_numbers([shape.y0]))[0])
            if 0 <= share <= 1:
                yield _path(f"M0 {_SIDE * (1 - share):.1f}H{_SIDE:g}", shape.line.color, shape.line.width or 1.0)


def _curves(figure: go.Figure, x: _Axis, y: _Axis) -> Iterator[str]:
    for curve in figure.data:
        points, mode = _points(curve, x, y) * _SIDE, curve.mode or "lines"
        if not len(points) or "lines" not in mode:
            continue
        dash = curve.line.dash or "solid"
        steps = "L".join(f"{across:.1f} {down:.1f}" for across, down in _thinned(points))
        yield _path(f"M{steps}", curve.line.color, curve.line.width or 2.0, _DASHES.get(dash, dash.replace("px", "")))
        if "markers" in mode:
            shown = points[:: math.ceil(len(points) / (curve.marker.maxdisplayed or len(points)))]
            # a line of zero length with round ends is a dot, even if the square is stretched
            dots = "".join(f"M{across:.1f} {down:.1f}h0" for across, down in _thinned(shown))
            yield _path(dots, curve.marker.color, curve.marker.size or 6.0, cap="round")


def _letters(figure: go.Figure, x: _Axis, y: _Axis) -> Iterator[str]:
    """Yield single points, such as the marker at the end of a curve."""
    for each in figure.data:
        if each.mode != "markers" or each.hoverinfo == "skip":
            continue
        letter = _LETTERS.get(each.marker.symbol or "circle", "●")
        for across, down in _points(each, x, y)[:_POINTS]:
            yield (
                f'<span aria-hidden="true" style="position:absolute;left:{100 * across:.2f}%;top:{100 * down:.2f}%;'
                f"transform:translate(-50%,-50%);line-height:1;font-size:{1.3 * (each.marker.size or 10):.0f}px;"
                f'color:{html.escape(str(each.marker.color))}">{letter}</span>'
            )


def _points(curve: Any, x: _Axis, y: _Axis) -> np.ndarray:
    """Return the points of a curve as shares of the width and, from above, of the height."""
    points = np.column_stack([x.share(_numbers(curve.x)), 1 - y.share(_numbers(curve.y))])
    return np.asarray(points[np.isfinite(points).all(axis=1)])


def _thinned(points: np.ndarray) -> np.ndarray:
    """Return at most `_POINTS` points in their order: the highest and the lowest of every stretch."""
    if len(points) <= _POINTS:
        return points
    edges = np.linspace(0, len(points), _POINTS // 2 + 1).astype(int)
    kept = {0, len(points) - 1}
    for begin, end in zip(edges[:-1], edges[1:], strict=True):
        stretch = points[begin:end, 1]
        kept |= {begin + int(stretch.argmin()), begin + int(stretch.argmax())}
    return np.asarray(points[sorted(kept)])


def _path(way: str, color: Any, width: float, dash: str = "none", cap: str = "butt") -> str:
    return (
        f'<path d="{way}" stroke="{html.escape(str(color))}" stroke-width="{width:g}" stroke-linecap="{cap}" '
        f'stroke-dasharray="{html.escape(dash)}" vector-effect="non-scaling-stroke"/>'
    )


# --- words ------------------------------------------------------------------------------------------------------------


def _plain(text: str | None) -> str:
    """Return plotly's text without its markup, escaped for HTML."""
    return html.escape(html.unescape(_TAG.sub("", text or "")))


def _title(figure: go.Figure, muted: str) -> str:
    heading, *captions = _BREAK.split(figure.layout.title.text or "")
    small = "".join(f'<div style="font-size:{CAPTION_SIZE}px;color:{muted}">{_plain(each)}</div>' for each in captions)
    return f'<figcaption><div style="font-size:{TITLE_SIZE}px">{_plain(heading)}</div>{small}</figcaption>'


def _notes(figure: go.Figure, x: _Axis, y: _Axis) -> Iterator[str]:
    """Yield texts at a height of the axes, such as the label of a line."""
    for note in figure.layout.annotations:
        if note.xref == "x domain" and note.yref == "y" and isinstance(note.y, int | float):
            share = (note.y - y.low) / (y.high - y.low)
            yield (
                f'<span style="position:absolute;left:{100 * note.x:.1f}%;bottom:{100 * share:.2f}%;'
                f'font-size:{note.font.size or CAPTION_SIZE}px;color:{html.escape(note.font.color or "inherit")}">'
                f"{_plain(note.text)}</span>"
            )
