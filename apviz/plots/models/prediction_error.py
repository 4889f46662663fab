"""Error of predictions in posterior standard deviations, above the residual of runs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from apviz.plots._axes import X, as_traces, has_values, recorded
from apviz.plots._curves import Curves, Grid, with_looks
from apviz.plots._labels import legend_entry
from apviz.plots._style import ThemeName, theme_named
from apviz.settings import require_number
from apviz.tracing.trace import Trace


def prediction_error(
    traces: Trace | Sequence[Trace], *, accuracy: float = 0.05, x: X = "work", theme: ThemeName = "light"
) -> go.Figure:
    """Draw the error of predictions above and the residual below: where more solving no longer matters.

    The error of means, in posterior standard deviations, is the one that 95% of the test points do not exceed,
    recorded by an `apviz.PredictionErrorHook`. Traces without it are left out. Buttons switch x.

    Args:
        accuracy: Error that is small enough, drawn as a line; 0.05 is the default of everything that predicts.
        x: Unit of the x axis at first: `work`, `epochs` or `seconds`.

    Raises:
        ValueError: No trace, or none with an error of predictions; an unknown x or theme.

    Examples:
        >>> import torch, apviz
        >>> x = torch.linspace(0, 1, 200, dtype=torch.float64)
        >>> h = apviz.Hyperparameters("matern52", lengthscale=(0.2,), outputscale=1.0, noise=1e-2)
        >>> posterior = apviz.Posterior(x, torch.sin(6 * x), h, device="cpu")
        >>> recorder, hook = apviz.Recorder(), apviz.PredictionErrorHook(posterior, torch.rand(50))
        >>> _ = apviz.solve(posterior.system, apviz.ConjugateGradient(tol=1e-3), hooks=[hook, recorder])
        >>> apviz.plots.prediction_error(recorder.trace).layout.yaxis.title.text
        'error of means, in posterior sd'
    """
    require_number("accuracy", accuracy, 0.0, "a positive number of posterior standard deviations", strictly=True)
    given, colors = as_traces(traces), theme_named(theme)
    several, notes = recorded(
        given, lambda trace: has_values(trace, "prediction_error"), "recorded no error of predictions",
        "no trace has an error of predictions; record it by solving with "
        "hooks=[apviz.PredictionErrorHook(posterior, x_star), recorder]",
    )  # fmt: skip
    curves = Curves(Grid(2, shared_xaxes=True, vertical_spacing=0.06), colors, x, len(several))
    for trace, name, look in with_looks(several, theme):
        entry = legend_entry(name, trace)
        error = trace["epoch"]["prediction_error"].values
        at = np.flatnonzero(np.isfinite(error))
        curves.add_line(trace, error, "error of means", look, entry, rows=at, showlegend=False)
        curves.add_run(trace, trace["epoch"]["residual"].values, "residual", look, entry, row=2)
    curves.log_axis("error of means, in posterior sd")
    curves.level(accuracy, f"{accuracy:g} posterior sd")
    curves.log_axis("residual", tolerances_of=several, row=2)
    curves.buttons()
    notes.append("the errors of 95% of the test points are at most the upper curve")
    return curves.finish(several, "Error of predictions above, residual below", f"prediction_error/{x}", notes)
