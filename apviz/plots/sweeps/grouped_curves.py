"""Median and band of runs that differ only in the seed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal, get_args

import pandas as pd
import plotly.graph_objects as go

from apviz.analysis.ensembles import Band, but_for_the_seed, median_and_band
from apviz.plots._axes import X_TITLES, X, as_traces, has_values, recorded
from apviz.plots._curves import RESIDUAL, Curves, Grid, thinned
from apviz.plots._labels import entry_saying, run_names
from apviz.plots._style import CONVERGED_SIZE, NOT_CONVERGED, Look, ThemeName, looks, theme_named, translucent
from apviz.tracing.schema import EPOCH
from apviz.tracing.trace import Trace

Variable = Literal["residual", "test_rmse"]

_Y_TITLES: Final = {"residual": RESIDUAL, "test_rmse": f"test RMSE ({EPOCH['test_rmse'].units})"}
_TITLES: Final = {"residual": "Residual over seeds, and tolerance", "test_rmse": "Test error over seeds"}
_BANDS: Final = {"quartiles": "quartiles", "range": "minimum to maximum"}


def grouped_curves(
    traces: Trace | Sequence[Trace],
    *,
    y: Variable = "residual",
    x: X = "work",
    band: Band = "quartiles",
    theme: ThemeName = "light",
) -> go.Figure:
    """Draw the median of runs that differ only in the seed, with a band: one curve per group of any number of runs.

    At any x, a run counts with its value after its last completed epoch. So curves are steps, without interpolation or
    a grid; see `apviz.analysis.median_and_band`. A converged run keeps its last value. A curve ends at the median of
    the ends of its runs; or in a cross where the first of them ends without convergence.

    Args:
        y: `residual`, or `test_rmse`, which leaves out runs without one.
        x: Unit of the x axis: `work`, `epochs` or `seconds`.
        band: Range between the `quartiles`, or the `range` from minimum to maximum.

    Raises:
        ValueError: No trace, or none with a test RMSE; an unknown y, x, band or theme.

    Examples:
        >>> import apviz, torch
        >>> x, recorder = torch.linspace(0, 1, 100)[:, None], apviz.Recorder()
        >>> for seed in range(3):
        ...     b = torch.sin(9 * x) + 0.1 * torch.randn(100, 1, generator=torch.Generator().manual_seed(int(seed)))
        ...     kernel = apviz.Matern52(lengthscale=0.2)
        ...     system = apviz.KernelSystem(x, b, kernel, noise=0.05, seed=seed, dataset="sine", device="cpu")
        ...     _ = apviz.solve(system, apviz.ConjugateGradient(), hooks=[recorder])
        >>> figure = apviz.plots.grouped_curves(recorder.traces)
        >>> [curve.name for curve in figure.data if curve.showlegend]
        ['CG — 3 runs, 3 converged']
    """
    for name, value, known in (("y", y, get_args(Variable)), ("band", band, get_args(Band))):
        if value not in known:
            raise ValueError(f"{name} must be one of {', '.join(known)}, got {value!r}")
    given, colors = as_traces(traces), theme_named(theme)
    curves = Curves(Grid(), colors, x)
    several, left_out = recorded(
        given, lambda trace: has_values(trace, y), "recorded none",
        f"no trace has a {y.replace('_', ' ')}; record it with hooks=[apviz.PredictionHook(…), recorder]",
    )  # fmt: skip
    groups = but_for_the_seed(several)
    firsts = [runs[0] for runs in groups]
    names = run_names(firsts, leave_out=["seed"])
    for runs, name, look in zip(groups, names, looks([trace.method for trace in firsts], theme), strict=True):
        _draw(curves, runs, name, look, median_and_band(runs, y, x=x, band=band), band)
    if y == "residual":
        curves.log_axis(RESIDUAL, tolerances_of=several)
    curves.grid.axis("y", 1, 1)["title"] = {"text": _Y_TITLES[y]}
    curves.grid.axis("x", 1, 1).update(rangemode="tozero", title={"text": X_TITLES[x]})
    notes = [f"median over seeds; band: {_BANDS[band]}"]
    if not all(trace.converged for trace in several):
        notes.append("cross: end of the first run that did not converge")
    return curves.finish(several, _TITLES[y], f"grouped_curves/{y}/{x}", notes + left_out)


def _draw(curves: Curves, runs: Sequence[Trace], name: str, look: Look, table: pd.DataFrame, band: Band) -> None:
    converged = sum(trace.converged for trace in runs)
    entry = entry_saying(name, f"{len(runs)} run{'s' * (len(runs) > 1)}, {converged} converged")
    belonging: dict[str, Any] = {"name": entry, "legendgroup": entry}
    shown = table.iloc[thinned(table["median"])]
    edges: tuple[tuple[str, dict[str, Any]], ...] = (
        ("low", {}), ("high", {"fill": "tonexty", "fillcolor": translucent(look.color, 0.2)}),
    )  # fmt: skip
    for edge, fill in edges if len(runs) > 1 else ():
        curves.draw(shown[edge].to_numpy(), x=shown["x"].to_numpy(), mode="lines", hoverinfo="skip", showlegend=False,
                    line={"width": 0, "shape": "hv"}, called=f"band of {name}", **fill, **belonging)  # fmt: skip
    hover = (
        f"<b>%{{fullData.name}}</b><br>median %{{y:.6g}}<br>{_BANDS[band]}: %{{customdata[0]:.6g}} to "
        "%{customdata[1]:.6g}<br>at %{x:.6g}<extra></extra>"
    )
    curves.draw(
        shown["median"].to_numpy(), x=shown["x"].to_numpy(), customdata=shown[["low", "high"]].to_numpy(),
        mode="lines+markers", line={**look.line(), "shape": "hv"}, showlegend=True, hovertemplate=hover,
        marker={"color": look.color, "symbol": look.symbol, "size": 8, "maxdisplayed": 3}, **belonging,
    )  # fmt: skip
    is_done, ink = converged == len(runs), {"color": curves.theme.ink, "width": 1.5}
    end, symbol = table.iloc[-1:], look.symbol if is_done else NOT_CONVERGED
    curves.draw(
        end["median"].to_numpy(), x=end["x"].to_numpy(), mode="markers", showlegend=False, hovertemplate=hover,
        customdata=end[["low", "high"]].to_numpy(),
        marker={"color": look.color, "symbol": symbol, "size": CONVERGED_SIZE + 2 * (not is_done), "line": ink},
        **belonging,
    )  # fmt: skip
