"""Share of systems that each method solves, by its cost relative to the best method."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from apviz.analysis.ensembles import performance_profile, solver_names
from apviz.plots._axes import as_traces, log_ticks
from apviz.plots._curves import Curves, Grid
from apviz.plots._labels import entry_saying, escaped
from apviz.plots._style import Look, ThemeName, looks, theme_named
from apviz.tracing.trace import Trace

_PANELS: Final[tuple[Literal["work", "seconds"], ...]] = ("work", "seconds")


def performance_profiles(traces: Trace | Sequence[Trace], *, theme: ThemeName = "light") -> go.Figure:
    """Draw the share of systems that each method solved, against work (left) and time (right) relative to the best.

    The start of a curve, at 1, is the share of systems on which the method is the best. Its final height is the share
    that it solves at all. A run that did not converge never counts (Dolan & Moré 2002, doi:10.1007/s101070100263). The
    caption gives the number of systems: those on which all methods have a run, each with its tolerance.

    Raises:
        ValueError: No trace; none that has ended; no system on which all methods have a run; an unknown theme.

    Examples:
        >>> import apviz, torch
        >>> x, recorder = torch.linspace(0, 1, 100)[:, None], apviz.Recorder()
        >>> for noise in (0.1, 0.01):
        ...     kernel = apviz.Matern52(lengthscale=0.2)
        ...     system = apviz.KernelSystem(x, torch.sin(9 * x), kernel, noise=noise, device="cpu")
        ...     for solver in (apviz.AlternatingProjection(block_size=25), apviz.ConjugateGradient(max_epochs=2)):
        ...         _ = apviz.solve(system, solver, hooks=[recorder])
        >>> figure = apviz.plots.performance_profiles(recorder.traces)
        >>> [curve.name for curve in figure.data if curve.showlegend]
        ['Alternating projection (greedy, b = 25)<br>solved 2 of 2', 'CG — solved 0 of 2']
    """
    several, colors = as_traces(traces), theme_named(theme)
    profiles = {measure: performance_profile(several, measure) for measure in _PANELS}
    counted = [several[place] for place in profiles["work"].attrs["runs"]]
    firsts = dict(zip(solver_names(several), several, strict=True))
    names = list(dict.fromkeys(profiles["work"]["method"]))
    own = dict(zip(names, looks([firsts[name].method for name in names], theme), strict=True))
    curves = Curves(Grid(1, 2, shared_yaxes=True, horizontal_spacing=0.05), colors, "work")
    for column, (measure, profile) in enumerate(profiles.items(), start=1):
        # every curve continues at its last value
        most = max(float(profile["ratio"].max()) * 1.15, 2.0)
        for name in names:
            _draw(curves, profile, name, own[name], most, column, measure)
        title = "work ÷ the least" if measure == "work" else "time ÷ the least"
        ticks = log_ticks([1.0, most], most=4)
        curves.grid.axis("x", 1, column).update(type="log", title={"text": title}, **ticks)
        curves.grid.axis("y", 1, column).update(range=[-0.03, 1.05])
    curves.grid.axis("y", 1, 1).update(title={"text": "share of systems solved"}, tickformat=".0%")
    title = "Systems solved, by relative cost"
    return curves.finish(counted, title, "performance_profiles", _notes(profiles["work"], counted))


def _draw(curves: Curves, profile: pd.DataFrame, name: str, look: Look, most: float, column: int, measure: str) -> None:
    rows, systems = profile[profile["method"] == name], profile.attrs["systems"]
    ratios, shares = rows["ratio"].to_numpy(), rows["share"].to_numpy()
    entry = entry_saying(escaped(name), f"solved {round(shares[-1] * systems)} of {systems}")
    curves.draw(
        np.append(shares, shares[-1]), column=column, x=np.append(ratios, most), mode="lines+markers", name=entry,
        legendgroup=entry, showlegend=column == 1, line={**look.line(), "shape": "hv"}, cliponaxis=False,
        marker={"color": look.color, "symbol": look.symbol, "size": 8, "maxdisplayed": 12},
        hovertemplate=f"<b>{escaped(name)}</b><br>%{{y:.0%}} of {systems} systems with at most<br>%{{x:.3g}} times the "
        f"least {measure}<extra></extra>",
    )  # fmt: skip


def _notes(profile: pd.DataFrame, counted: Sequence[Trace]) -> list[str]:
    systems, left_out, unsolved = (profile.attrs[name] for name in ("systems", "left_out", "unsolved"))
    tolerances = sorted({trace.attrs["tol"] for trace in counted if "tol" in trace.attrs})
    seeds = len({trace.attrs.get("seed") for trace in counted})
    to = f", to tolerance {', '.join(f'{tol:g}' for tol in tolerances)}" if tolerances else ""
    notes = [f"{systems} system{'s' * (systems != 1)}{f' of {seeds} seeds' * (seeds > 1)}{to}"]
    if unsolved:
        notes.append(f"{unsolved} solved by no method")
    if left_out:
        notes.append(f"{left_out} left out: not run by all methods")
    return [*notes, "a run that did not converge never counts"]
