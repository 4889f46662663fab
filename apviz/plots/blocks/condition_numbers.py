"""Condition number κ of K, and κ′, its counterpart for blocks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import plotly.graph_objects as go

from apviz.plots._axes import as_traces, finish, log_ticks, name_rows, recorded
from apviz.plots._labels import legend_entry, run_names
from apviz.plots._style import BOUND_DASH, Theme, ThemeName, method_color, theme_named
from apviz.tracing.trace import Trace

#: Distance of the numbers of a run below its name, where names are 1 apart.
_BELOW: Final = {"kappa": 0.4, "kappa_prime": 0.65}
_SYMBOLS: Final = {"kappa": "diamond", "kappa_prime": "circle"}
_NAMES: Final = {"kappa": "κ of K, for CG", "kappa_prime": "κ′ of the blocks, for Theorem 1"}
#: Mark at a bound, the end of its dotted line.
_AT_BOUND: Final[dict[str, Any]] = {"symbol": ["circle", "line-ns-open"], "size": [0, 11], "opacity": 1}
#: Relative distance below which two numbers are drawn as one point.
_SEEN: Final = 1e-6
#: Bounds on λmax and λ′max, which need the bound on λmin too.
_BOUNDS: Final = {"kappa": "lambda_max_bound", "kappa_prime": "lambda_max_block_bound"}


def condition_numbers(traces: Trace | Sequence[Trace], *, theme: ThemeName = "light") -> go.Figure:
    """Draw κ = λmax(K)/λmin(K) and κ′ = max λmax(K[I,I])/λmin(K) of each run on one axis, with their certainty.

    A dotted line leads from an estimate to its certain bound. κ′ is defined for alternating projection only. Runs
    without a known condition number are left out, and the figure says so.

    Raises:
        ValueError: No trace, or none with a known condition number; an unknown theme.

    Examples:
        >>> import apviz, torch
        >>> x = torch.linspace(0, 1, 100)[:, None]
        >>> system = apviz.KernelSystem(x, torch.sin(9 * x), apviz.Matern52(lengthscale=0.2), noise=0.05, device="cpu")
        >>> recorder = apviz.Recorder()
        >>> _ = apviz.solve(system, apviz.AlternatingProjection(block_size=25), hooks=[recorder])
        >>> figure = apviz.plots.condition_numbers(recorder.trace)
        >>> kappa, kappa_prime = (curve.x[0] for curve in figure.data if curve.mode == "markers" and curve.x[0])
        >>> kappa > kappa_prime
        True
    """
    given, colors = as_traces(traces), theme_named(theme)
    several, notes = recorded(
        given, lambda trace: "spectrum" in trace and math.isfinite(trace["spectrum"]["kappa"]),
        "have no condition number", "no trace has a condition number: κ is recorded for solves with kernels of apviz",
    )  # fmt: skip
    figure, names = go.Figure(), run_names(several)
    known = [[which for which in _NAMES if math.isfinite(trace["spectrum"][which])] for trace in several]
    drawn = [
        number
        for place, (trace, name) in enumerate(zip(several, names, strict=True))
        for which in known[place]
        for number in _add(figure, trace, name, which, place + _BELOW[which], colors)
    ]
    for which in [which for which in _NAMES if any(which in each for each in known)]:
        marker = {"color": colors.muted, "symbol": _SYMBOLS[which], "size": 11}
        figure.add_scatter(x=[None], y=[None], mode="markers", name=_NAMES[which], hoverinfo="skip", marker=marker)
    words = [", ".join(map(trace.condition, each)) for trace, each in zip(several, known, strict=True)]
    labels = [f"{name}: {numbers}" for name, numbers in zip(names, words, strict=True)]
    name_rows(figure, labels, colors, [*_BELOW.values()])
    figure.add_scatter(
        x=[None], y=[None], mode="lines", name="up to the certain bound", hoverinfo="skip",
        line={"color": colors.muted, "width": 2, "dash": BOUND_DASH},
    )  # fmt: skip
    figure.update_xaxes(title_text="condition number", type="log", **log_ticks(drawn))
    return finish(figure, several, colors, "κ of K and κ′ of its blocks", "condition_numbers", notes)


def _add(figure: go.Figure, trace: Trace, name: str, which: str, y: float, theme: Theme) -> list[float]:
    """Draw a condition number at a height, and its bound if it has one; return the numbers drawn."""
    value, bound = float(trace["spectrum"][which]), _bound(trace, which)
    color = theme.muted if which == "kappa" else method_color(trace.method, theme.name)
    shared: dict[str, Any] = {"legendgroup": legend_entry(name, trace), "showlegend": False}
    words = f"<b>{name}</b><br>{trace.condition(which)}<br>{trace['spectrum'][which].attrs['how']}"
    if bound is not None:
        words += f"<br>at most {bound:.3g}"
        line = {"color": color, "width": 2, "dash": BOUND_DASH}
        at_bound = _AT_BOUND | {"color": color, "line": {"color": color, "width": 2}}
        figure.add_scatter(
            x=[value, bound], y=[y, y], mode="lines+markers", line=line, marker=at_bound, name=f"{name}: bound",
            hoverinfo="skip", **shared,
        )  # fmt: skip
    figure.add_scatter(
        x=[value], y=[y], mode="markers", marker={"color": color, "symbol": _SYMBOLS[which], "size": 11}, name=name,
        hovertemplate=f"{words}<extra></extra>", **shared,
    )  # fmt: skip
    return [value] if bound is None else [value, bound]


def _bound(trace: Trace, which: str) -> float | None:
    """Return the upper bound on a condition number; None if there is none, or none above the number itself."""
    attrs = trace["spectrum"].attrs
    largest, smallest = attrs.get(_BOUNDS[which]), attrs.get("lambda_min_bound")
    if largest is None or not smallest:
        return None
    bound, value = float(largest / smallest), float(trace["spectrum"][which])
    # exact numbers have a bound too, for rounding, too close to be visible as a line
    return bound if math.isfinite(bound) and bound > value * (1 + _SEEN) else None
