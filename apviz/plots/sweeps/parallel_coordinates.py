"""Runs as lines through the settings in which they differ, to their results."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from apviz.analysis.ensembles import varied
from apviz.plots._axes import Floats, as_traces, finish
from apviz.plots._labels import escaped, legend_entry, run_names
from apviz.plots._style import CAPTION_SIZE, NOT_CONVERGED, Theme, ThemeName, method_color, theme_named

if TYPE_CHECKING:
    from apviz.method import Method
    from apviz.tracing.trace import Trace

#: Titles of axes; other axes have the name of their setting.
_TITLES: Final = {
    "dataset": "data", "lengthscale": "ℓ", "outputscale": "scale", "noise": "σ²", "tol": "tolerance",
    "block_size": "b", "coarse_rank": "coarse", "skeleton_rank": "skeleton", "preconditioner": "precond.",
    "seconds": "time (s)", "test_rmse": "RMSE",
}  # fmt: skip
#: Settings that the legend leaves to the axes.
_SWEPT: Final = ("block_size", "overlap", "history", "coarse_rank", "skeleton_rank", "rank")
#: Ratio from which an axis is logarithmic; top of the axis of results, below the runs that did not converge.
_LOG_RATIO, _SOLVED = 4.0, 0.86
_FAILED: Final = "not conv."
#: Number of labels at an axis, and number of values up to which each value is labelled.
_NUMBERS, _NAMED = 4, 8
_HEIGHT: Final = 560


def parallel_coordinates(traces: Trace | Sequence[Trace], *, theme: ThemeName = "light") -> go.Figure:
    """Draw a line per run: through all settings in which runs differ, to work, time and test error at the right.

    Axes are the settings of system and method that differ, except the seed: σ², b, overlap, lengthscale, … Axes that
    span a factor of four or more are logarithmic, text is in alphabetical order, and a dash marks a method without the
    setting. Work and time are to the tolerance; a run that did not converge ends in a cross at the top of both. The
    colour is the method. The first number of a point's `customdata` is the index of its run in `traces`.

    Raises:
        ValueError: No trace; an unknown theme.

    Examples:
        >>> import apviz, torch
        >>> x, recorder = torch.linspace(0, 1, 100)[:, None], apviz.Recorder()
        >>> system = apviz.KernelSystem(x, torch.sin(9 * x), apviz.Matern52(lengthscale=0.2), noise=0.05, device="cpu")
        >>> for b in (20, 50):
        ...     _ = apviz.solve(system, apviz.AlternatingProjection(block_size=b), hooks=[recorder])
        >>> figure = apviz.plots.parallel_coordinates(recorder.traces)
        >>> [each.text for each in figure.layout.annotations if each.yref == "paper"]
        ['b', 'work', 'time (s)']
    """
    several, colors = as_traces(traces), theme_named(theme)
    table, figure = varied(several), go.Figure()
    scales = {name: _scale(table[name], name in ("work", "seconds")) for name in table}
    heights = np.column_stack([scale.heights for scale in scales.values()])
    texts = [[f"{_title(name)} {scale.text(table[name].iloc[place])}" for name, scale in scales.items()]
             for place in range(len(several))]  # fmt: skip
    entries: dict[str, str] = {}
    for place, (trace, name) in enumerate(zip(several, run_names(several), strict=True)):
        color, entry = method_color(trace.method, theme), legend_entry(name, trace)
        entries.setdefault(_called(trace.method), color)
        is_result = np.array([column in ("work", "seconds") for column in table])
        symbols = np.where(is_result & (not trace.converged), NOT_CONVERGED, "circle")
        figure.add_scatter(
            x=np.arange(len(scales)), y=heights[place], mode="lines+markers", name=entry, legendgroup=entry,
            line={"color": color, "width": 2 if trace.converged else 1.2}, showlegend=False, cliponaxis=False,
            marker={"color": color, "symbol": symbols.tolist(), "size": np.where(symbols == "circle", 6, 11).tolist()},
            customdata=np.full((len(scales), 1), place), text=["<br>".join(texts[place])] * len(scales),
            hovertemplate=f"<b>{escaped(trace.method_name)}</b><br>%{{text}}<extra></extra>",
        )  # fmt: skip
    for called, color in entries.items():
        figure.add_scatter(x=[None], y=[None], mode="lines", name=called, hoverinfo="skip", showlegend=True,
                           line={"color": color, "width": 2.5})  # fmt: skip
    for place, (column, scale) in enumerate(scales.items()):
        _axis(figure, place, _title(column), scale, colors)
    figure.update_xaxes(visible=False, showticklabels=False, range=[-0.15, len(scales) - 0.45], fixedrange=True)
    figure.update_yaxes(visible=False, range=[-0.06, 1.06], showticklabels=False, fixedrange=True)
    figure.update_layout(height=_HEIGHT)
    notes = ["at the top: not converged"] if not all(trace.converged for trace in several) else []
    return finish(figure, several, colors, "Settings and their cost", "parallel_coordinates", notes)


@dataclass(frozen=True)
class _Scale:
    """Axis: positions of the values of all runs on it, from 0 to 1, and its labels with their positions."""

    heights: Floats
    labels: list[tuple[float, str]]

    def text(self, value: Any) -> str:
        """Format a value for the hover text."""
        if value is None or (isinstance(value, float) and math.isnan(value)):
            return "–"
        return f"{value:.4g}" if isinstance(value, int | float) else str(value)


def _scale(column: pd.Series[Any], is_result: bool) -> _Scale:
    numbers = pd.to_numeric(column, errors="coerce").to_numpy(dtype=float)
    missing = column.isna().to_numpy(dtype=bool)
    if not np.isfinite(numbers[~missing]).all():
        return _names(column, missing)
    top = _SOLVED if is_result and missing.any() else 1.0
    # a setting that a method lacks is below the scale, a result that was not reached above it
    bottom = 0.12 if missing.any() and not is_result else 0.0
    labels = [(1.0, _FAILED)] if top < 1 else [(0.0, "–")] if bottom else []
    if missing.all():
        return _Scale(np.ones(len(column)), labels)
    low, high = np.nanmin(numbers), np.nanmax(numbers)
    is_log = low > 0 and high / low >= _LOG_RATIO
    form = np.log if is_log else np.asarray
    start, span = float(form(low)), float(form(high)) - float(form(low))

    def place(values: Any) -> Floats:
        share = (form(np.asarray(values, dtype=float)) - start) / span if span else np.full(np.shape(values), 0.5)
        return np.asarray(bottom + (top - bottom) * share)

    values = np.unique(numbers[~missing])
    if len(values) > _NAMED or is_result:
        values = (
            np.exp(np.linspace(np.log(low), np.log(high), _NUMBERS)) if is_log else np.linspace(low, high, _NUMBERS)
        )
        values = values if span else values[:1]
    labels += [(float(place(value)), f"{value:.3g}") for value in values]
    return _Scale(np.where(missing, 1.0 if top < 1 else 0.0, place(numbers)), labels)


def _names(column: pd.Series[Any], missing: Any) -> _Scale:
    """Return a scale of text, which may include numbers, such as block sizes with `auto` among them."""
    texts = ["–" if is_missing else str(value) for value, is_missing in zip(column, missing, strict=True)]
    known = sorted(set(texts))
    heights = {text: place / max(len(known) - 1, 1) for place, text in enumerate(known)}
    return _Scale(np.array([heights[text] for text in texts]), [(heights[text], text[:14]) for text in known])


def _axis(figure: go.Figure, place: int, title: str, scale: _Scale, theme: Theme) -> None:
    heading = {"text": title, "x": place, "y": 1.0, "yref": "paper", "xanchor": "center", "yanchor": "bottom"}
    figure.add_annotation(showarrow=False, **heading)
    figure.add_shape(
        type="line", x0=place, x1=place, y0=0, y1=1, line={"color": theme.muted, "width": 1}, layer="below"
    )
    last = math.inf
    for height, text in sorted(scale.labels, reverse=True):
        # of two labels that would overlap, one is dropped
        if last - height < 0.035:
            continue
        last = height
        figure.add_annotation(
            x=place, y=height, text=escaped(text), showarrow=False, xanchor="left", xshift=6, bgcolor=theme.paper,
            opacity=0.85, borderpad=1, font={"size": CAPTION_SIZE, "color": theme.ink},
        )  # fmt: skip


def _title(name: object) -> str:
    return _TITLES.get(str(name), str(name))


def _called(method: Method) -> str:
    """Return the name of a method without the settings that are axes."""
    # overlapping blocks have a name of their own
    return escaped(replace(method.without(*_SWEPT), overlap="auto" if method.overlap else None).name)
