"""Costs of a small noise: epochs or iterations, and work, against κ."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from apviz.analysis.sweeps import conjugate_gradient_bounds, sweep_table
from apviz.method import PLAIN_CG
from apviz.plots._axes import as_traces, finish, log_ticks
from apviz.plots._style import BOUND_DASH, Theme, ThemeName, method_color, theme_named
from apviz.plots.sweeps._curves import add_curves
from apviz.tracing.trace import Trace, common_sign, sign_of

#: Columns of `sweep_table` from top to bottom, and the titles of their axes.
PANELS: Final = {"epochs": "epochs (CG: iterations)", "work": "work"}


def noise_sweep(traces: Trace | Sequence[Trace], *, theme: ThemeName = "light") -> go.Figure:
    """Draw epochs or iterations and work to the tolerance of each method, against the κ of K at each noise.

    A cross marks the end of a run that did not converge, an open circle the end of one that still runs or was
    interrupted. Neither is a point of the curve. If there is a run of plain CG, the dotted line bounds its iterations
    in exact arithmetic.

    Raises:
        ValueError: No trace; an unknown theme.

    Examples:
        >>> import apviz, torch
        >>> x, recorder = torch.linspace(0, 1, 100)[:, None], apviz.Recorder()
        >>> for noise in (0.1, 0.01):
        ...     kernel = apviz.Matern52(lengthscale=0.2)
        ...     system = apviz.KernelSystem(x, torch.sin(9 * x), kernel, noise=noise, device="cpu")
        ...     _ = apviz.solve(system, apviz.ConjugateGradient(), hooks=[recorder])
        >>> figure = apviz.plots.noise_sweep(recorder.traces)
        >>> [curve.name for curve in figure.data if curve.line.dash == "dot"]
        ['CG: bound ½√κ·log(2√κ/0.01)']
    """
    several, colors = as_traces(traces), theme_named(theme)
    figure = make_subplots(rows=len(PANELS), cols=1, shared_xaxes=True, vertical_spacing=0.1)
    add_curves(figure, several, "noise", "kappa", PANELS, colors)
    _add_bounds(figure, several, colors)
    kappa = sweep_table(several)["kappa"]
    # full numbers side by side would overlap
    figure.update_xaxes(type="log", showticklabels=True, **log_ticks(kappa) | {"tickformat": "~s"})
    sign = common_sign(sign_of(trace["spectrum"], "kappa") for trace in several)
    figure.update_xaxes(title_text=f"κ {sign} λmax/λmin of K, by σ²", row=len(PANELS), col=1)
    notes = {"≈": ["κ is an estimate"], "≤": ["κ is a bound"]}.get(sign, [])
    return finish(figure, several, colors, "Cost of a smaller noise σ²", "noise_sweep", notes)


def _add_bounds(figure: go.Figure, traces: Sequence[Trace], theme: Theme) -> None:
    """Draw the bound of plain CG over the range of its κ, for every tolerance."""
    sign = common_sign(sign_of(trace["spectrum"], "kappa") for trace in traces if trace.method.is_plain_cg)
    # at a bound on κ the curve is still a bound
    called = " (estimate)" if sign == "≈" else ""
    for tol, bound in conjugate_gradient_bounds(traces).groupby("tol"):
        figure.add_scatter(
            x=bound["kappa"], y=bound["iterations"], mode="lines", row=1, col=1,
            line={"color": method_color(PLAIN_CG, theme.name), "width": 2, "dash": BOUND_DASH},
            name=f"CG: bound ½√κ·log(2√κ/{tol:g}){called}",
            hovertemplate="at most %{y:.4g} iterations of CG<br>"
            f"at κ {sign} %{{x:.4g}}, in exact arithmetic<extra></extra>",
        )  # fmt: skip
