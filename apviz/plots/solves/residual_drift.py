"""Drift of the recursive residual from the true one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import plotly.graph_objects as go

from apviz.plots._axes import X, as_traces
from apviz.plots._curves import Curves, Grid, with_looks
from apviz.plots._labels import entry_saying
from apviz.plots._style import ThemeName, theme_named

if TYPE_CHECKING:
    from apviz.tracing.trace import Trace


def residual_drift(traces: Trace | Sequence[Trace], *, x: X = "work", theme: ThemeName = "light") -> go.Figure:
    """Draw the drift ‖R − (B − KW)‖_F / ‖B‖_F at each check, with R the residual of the recursion, and the tolerance.

    If the drift is close to the tolerance, the recursive residual is no evidence of convergence. Buttons switch x.

    Args:
        x: Unit of the x axis at first: `work`, `epochs` or `seconds`.

    Raises:
        ValueError: No trace, or none with a check; an unknown x or theme.

    Examples:
        >>> import apviz, torch
        >>> x = torch.linspace(0, 1, 100)[:, None]
        >>> system = apviz.KernelSystem(x, torch.sin(9 * x), apviz.Matern52(lengthscale=0.2), noise=0.05, device="cpu")
        >>> recorder = apviz.Recorder()
        >>> _ = apviz.solve(system, apviz.AlternatingProjection(block_size=25, check_every=1), hooks=[recorder])
        >>> figure = apviz.plots.residual_drift(recorder.trace)
        >>> figure.data[0].name
        'Alternating projection (greedy, b = 25)<br>4 checks'
    """
    several, colors = as_traces(traces), theme_named(theme)
    curves = Curves(Grid(), colors, x)
    any_check = False
    for trace, name, look in with_looks(several, theme):
        drift = trace["epoch"]["drift"].values
        at = np.flatnonzero(np.isfinite(drift))
        any_check |= bool(len(at))
        entry = entry_saying(name, f"{len(at)} {'check' if len(at) == 1 else 'checks'}")
        curves.add_line(trace, drift, "drift", look, entry, rows=at)
    if not any_check:
        raise ValueError(
            "no trace has a residual check, so no drift is known; a run checks when it ends and every "
            "`check_every` epochs (AlternatingProjection) or iterations (ConjugateGradient): lower "
            "that setting"
        )
    curves.log_axis("drift ‖R − (B − KW)‖/‖B‖", tolerances_of=several)
    curves.buttons()
    title = "Drift of the recursive residual at checks"
    return curves.finish(several, title, f"residual_drift/{x}")
