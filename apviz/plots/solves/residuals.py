"""Residuals of runs against work, epochs or seconds."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from apviz.analysis.ensembles import coinciding
from apviz.method import distinct_names
from apviz.plots._axes import X, as_traces
from apviz.plots._curves import MANY_RUNS, RESIDUAL, Curves, Grid, with_looks
from apviz.plots._labels import escaped, legend_entry
from apviz.plots._style import CHECK, Look, ThemeName, theme_named
from apviz.tracing.trace import Trace


def residuals(traces: Trace | Sequence[Trace], *, x: X = "work", theme: ThemeName = "light") -> go.Figure:
    """Draw the mean relative residual of each run, and its tolerance (paper, Figure 1).

    A curve has one point per epoch, or per iteration of a Krylov method. Open diamonds are residuals recomputed from B
    − KW. A converged run ends in a large filled marker, one that did not converge in a cross, an unfinished one in an
    open circle. Colour is the method, the dash of a line its block size; the legend lists the differences of runs. With
    more than 24 runs, the legend lists the methods, and no checks are drawn. Equal curves cover each other and are
    named. Buttons switch x.

    Args:
        x: Unit of the x axis at first: `work`, `epochs` or `seconds`.

    Raises:
        ValueError: No trace; an unknown x or theme.

    Examples:
        >>> import apviz, torch
        >>> x = torch.linspace(0, 1, 100)[:, None]
        >>> system = apviz.KernelSystem(x, torch.sin(9 * x), apviz.Matern52(lengthscale=0.2), noise=0.05, device="cpu")
        >>> recorder = apviz.Recorder()
        >>> _ = apviz.solve(system, apviz.AlternatingProjection(block_size=25), hooks=[recorder])
        >>> figure = apviz.plots.residuals(recorder.trace)
        >>> figure.layout.xaxis.title.text
        'work (kernel entries ÷ n²)'
    """
    several, colors = as_traces(traces), theme_named(theme)
    many = len(several) > MANY_RUNS
    curves = Curves(Grid(), colors, x, len(several))
    drawn = [(trace, name, legend_entry(name, trace), look) for trace, name, look in with_looks(several, theme)]
    checked = False
    for trace, _, entry, look in drawn if not many else ():
        checked |= curves.add_checks(trace, look.color, entry)
    for trace, _, entry, look in drawn:
        # not for a run that still grows: its complete curve would be sent again at every pass
        by_recursion = "stop_message" in trace.attrs and not trace.residual_is_measured
        what = "residual by the recursion" if by_recursion else "residual"
        curves.add_run(trace, trace["epoch"]["residual"].values, what, look, entry, showlegend=not many)
    if many:
        _add_methods(curves, several, [look for *_, look in drawn])
    if checked:
        curves.add_key(
            "checked on all rows",
            mode="markers",
            marker={"symbol": CHECK, "color": colors.muted, "size": 12},
        )
    curves.log_axis(RESIDUAL, tolerances_of=several)
    curves.buttons()
    title = "Residual of each run, and tolerance"
    return curves.finish(several, title, f"residuals/{x}", _equal([name for _, name, *_ in drawn], several))


def _add_methods(curves: Curves, traces: Sequence[Trace], looks: Sequence[Look]) -> None:
    """Add a legend entry for every method, instead of one for every run."""
    looks_of = {trace.method: look for trace, look in zip(traces, looks, strict=True)}
    for name, (method, look) in zip(distinct_names([*looks_of]), looks_of.items(), strict=True):
        runs = [trace for trace in traces if trace.method == method]
        converged = sum(trace.converged for trace in runs)
        count = f"{len(runs)} run{'s' * (len(runs) > 1)}, {converged} converged"
        curves.add_key(f"{escaped(name)} — {count}", mode="lines", line=look.line())


#: Number of sets of equal curves that are named, and of names in each.
_NAMED = 3


def _equal(names: Sequence[str], traces: Sequence[Trace]) -> list[str]:
    """Return a note on equal curves, of which only one is visible."""
    groups = coinciding(traces)
    if not groups:
        return []
    said = [
        " = ".join([*(names[place] for place in group[:_NAMED]), *["…"] * (len(group) > _NAMED)]) for group in groups
    ]
    more = f"; {len(groups) - _NAMED} more" if len(groups) > _NAMED else ""
    return [f"curves equal within 1%: {'; '.join(said[:_NAMED])}{more}"]
