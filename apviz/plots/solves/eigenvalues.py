"""Eigenvalues of K, and of K with preconditioners."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import plotly.graph_objects as go
import xarray as xr

from apviz.plots._axes import add_level, as_traces, finish, log_ticks, positive, recorded
from apviz.plots._labels import entry_saying, run_names
from apviz.plots._style import ThemeName, looks, theme_named
from apviz.tracing.trace import Trace

#: Number of markers drawn on a curve, evenly spaced on the log axis.
_MARKERS: Final = 7


def eigenvalues(traces: Trace | Sequence[Trace], *, theme: ThemeName = "light") -> go.Figure:
    """Draw eigenvalues of K, and of P⁻¹K for each preconditioned run, against their index, largest first.

    Conjugate gradients depend on these values: they need about one iteration per cluster of eigenvalues. A perfect
    preconditioner puts all at 1, the thin line. The legend gives condition numbers κ. Runs on one system share
    the curve of K; traces without eigenvalues are left out.

    Raises:
        ValueError: No trace, or none with eigenvalues; an unknown theme.

    Examples:
        >>> import apviz, torch
        >>> x = torch.linspace(0, 1, 100)[:, None]
        >>> system = apviz.KernelSystem(x, torch.sin(9 * x), apviz.Matern52(lengthscale=0.2), noise=0.05, device="cpu")
        >>> recorder = apviz.Recorder(eigenvalues=True)
        >>> _ = apviz.solve(system, apviz.ConjugateGradient(), hooks=[recorder])
        >>> figure = apviz.plots.eigenvalues(recorder.trace)
        >>> len(figure.data[0].y), bool(figure.data[0].y[0] > figure.data[0].y[-1])
        (100, True)
    """
    given, colors = as_traces(traces), theme_named(theme)
    several, notes = recorded(
        given, lambda trace: "eigenvalues" in trace, "recorded no eigenvalues",
        "no trace has the group eigenvalues; record them by solving a system of at most 4,000 rows with "
        "hooks=[apviz.Recorder(eigenvalues=True)]",
    )  # fmt: skip
    figure = go.Figure()
    names, own = run_names(several), looks([trace.method for trace in several], theme)
    systems = _systems(several)
    for first in systems:
        name = "K" if len(systems) == 1 else f"K of {names[first]}"
        curve = several[first]["eigenvalues"]["eigenvalue"]
        _add(figure, curve, name, "κ(K)", line={"color": colors.muted, "width": 3})
    for trace, name, look in zip(several, names, own, strict=True):
        if "preconditioned" in trace["eigenvalues"]:
            marker = {"color": look.color, "symbol": look.symbol, "size": 8}
            curve = trace["eigenvalues"]["preconditioned"]
            _add(figure, curve, name, "κ(P⁻¹K)", line=look.line(), marker=marker)
    preconditioned = any("preconditioned" in trace["eigenvalues"] for trace in several)
    if preconditioned:
        add_level(figure, 1.0, "1: where P = K", colors, below=True)
    drawn = np.concatenate([curve.values for trace in several for curve in trace["eigenvalues"].values()])
    figure.update_xaxes(type="log", title_text="index, largest eigenvalue first", dtick=1, tickformat=",d")
    figure.update_yaxes(type="log", title_text="eigenvalue", **log_ticks(drawn, most=8))
    title = "Eigenvalues of K and of P⁻¹K" if preconditioned else "Eigenvalues of K"
    return finish(figure, several, colors, title, "eigenvalues", notes)


def _systems(traces: Sequence[Trace]) -> list[int]:
    """Return the indices of the first trace of each system, so that each curve of K is drawn once."""
    first: list[int] = []
    values = [trace["eigenvalues"]["eigenvalue"].values for trace in traces]
    for i, own in enumerate(values):
        if not any(own.shape == values[j].shape and np.allclose(own, values[j], rtol=1e-3) for j in first):
            first.append(i)
    return first


def _add(
    figure: go.Figure, curve: xr.DataArray, name: str, kappa: str, line: dict[str, Any],
    marker: dict[str, Any] | None = None,
) -> None:  # fmt: skip
    """Draw one curve, its condition number in the legend, and its markers if it has any."""
    number = f"{kappa} = {curve.attrs['kappa']:,.3g}" if "kappa" in curve.attrs else f"{kappa} unknown: λmin ≤ 0"
    index, values, entry = np.arange(1, curve.size + 1), positive(curve.values), entry_saying(name, number)
    shared = {"name": entry, "legendgroup": entry, "line": line}
    hover = f"<b>{name}</b><br>eigenvalue %{{x:,d}} of {curve.size:,}: %{{y:.6g}}<br>{number}<extra></extra>"
    figure.add_scatter(x=index, y=values, mode="lines", hovertemplate=hover, showlegend=marker is None, **shared)
    if marker:
        # plotly spaces markers evenly along the index, which crowds them at the right end of a log axis; gaps between
        # them keep the line of the legend out of the chart
        at = np.unique(np.geomspace(1, curve.size, _MARKERS).astype(int)) - 1
        gaps = np.full(len(at), np.nan)
        x, y = (np.column_stack([each[at], gaps]).ravel() for each in (index, values))
        figure.add_scatter(x=x, y=y, mode="lines+markers", marker=marker, hoverinfo="skip", showlegend=True, **shared)
