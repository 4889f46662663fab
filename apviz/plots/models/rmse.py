"""Test error of runs, above their residual."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from apviz.analysis import errors
from apviz.analysis.errors import RMSE_SHARE
from apviz.plots._axes import X, as_traces, has_values, recorded
from apviz.plots._curves import Curves, Grid, with_looks
from apviz.plots._labels import legend_entry
from apviz.plots._style import CAPTION_SIZE, SUFFICIENT, ThemeName, theme_named
from apviz.tracing.schema import EPOCH
from apviz.tracing.trace import Trace

#: Meaning of a star.
STAR_LABEL = f"from here on the test RMSE stays within {RMSE_SHARE:.0%} of its last value"


def test_rmse(traces: Trace | Sequence[Trace], *, x: X = "work", theme: ThemeName = "light") -> go.Figure:
    """Draw test RMSE above and residual below, on one x axis: how small a residual predictions need.

    For converged runs, a star marks the epoch from which the test RMSE stays within 1% of its last value. The last
    value of other runs is not final, so they have no star. Traces without a test RMSE are left out. Buttons switch x;
    work excludes the work of predicting.

    Args:
        x: Unit of the x axis at first: `work`, `epochs` or `seconds`.

    Raises:
        ValueError: No trace, or none with a test RMSE; an unknown x or theme.

    Examples:
        >>> import apviz, torch
        >>> x = torch.linspace(0, 1, 100)[:, None]
        >>> b = torch.sin(9 * x[:, 0])
        >>> system = apviz.KernelSystem(x, b, apviz.Matern52(lengthscale=0.2), noise=0.05, device="cpu")
        >>> test_x = torch.linspace(0, 1, 7)[:, None]
        >>> prediction, recorder = apviz.PredictionHook(test_x, torch.sin(9 * test_x[:, 0])), apviz.Recorder()
        >>> _ = apviz.solve(system, apviz.AlternatingProjection(block_size=25), hooks=[prediction, recorder])
        >>> figure = apviz.plots.test_rmse(recorder.trace)
        >>> figure.layout.yaxis.title.text, figure.layout.yaxis2.title.text
        ('test RMSE (target as solved)', 'residual')
    """
    given, colors = as_traces(traces), theme_named(theme)
    several, notes = recorded(
        given, lambda trace: has_values(trace, "test_rmse"), "recorded no test RMSE",
        "no trace has a test RMSE; record it by solving with hooks=[apviz.PredictionHook(test_x, test_y), recorder]",
    )  # fmt: skip
    curves = Curves(Grid(2, shared_xaxes=True, vertical_spacing=0.06), colors, x, len(several))
    for trace, name, look in with_looks(several, theme):
        entry = legend_entry(name, trace)
        rmse = trace["epoch"]["test_rmse"].values
        # an epoch without a prediction is not a gap in the error
        at = np.flatnonzero(np.isfinite(rmse))
        curves.add_line(trace, rmse, "test RMSE", look, entry, rows=at, log=False, showlegend=False)
        curves.add_run(trace, trace["epoch"]["residual"].values, "residual", look, entry, row=2)
        _mark_sufficient(curves, trace, look.color, entry)
    # not in the unit of the data set, because targets are standardised before the solve
    curves.grid.axis("y", 1, 1)["title"] = {
        "text": f"test RMSE ({EPOCH['test_rmse'].units})", "font": {"size": CAPTION_SIZE},  # as high as its panel
    }  # fmt: skip
    curves.log_axis("residual", tolerances_of=several, row=2)
    curves.buttons()
    if any(trace.converged and errors.sufficient_epoch(trace) is not None for trace in several):
        notes.append(f"star: {STAR_LABEL}")
    if rows := {count for trace in several if (count := _test_rows(trace))}:
        notes.append(f"test RMSE over {' or '.join(f'{count:,}' for count in sorted(rows))} rows")
    title = "Test error above, residual below"
    return curves.finish(several, title, f"test_rmse/{x}", notes)


def _mark_sufficient(curves: Curves, trace: Trace, color: str, entry: str) -> None:
    """Mark the epoch after which the test error barely changes with a star, in both panels."""
    first = errors.sufficient_epoch(trace)
    if first is None or not trace.converged:
        return
    marker = {"color": color, "symbol": SUFFICIENT, "size": 15, "line": {"color": curves.theme.ink, "width": 1.5}}
    for row, name in ((1, "test_rmse"), (2, "residual")):
        curves.add(
            trace, trace["epoch"][name].values[[first]], f"{STAR_LABEL}<br>{name.replace('_', ' ')}", [first], row=row,
            mode="markers", marker=marker, name=entry, legendgroup=entry, showlegend=False,
        )  # fmt: skip


def _test_rows(trace: Trace) -> int:
    """Return the number of rows predicted each time; 0 if their work was not recorded."""
    epochs = trace["epoch"]
    if "prediction_work" not in epochs:
        return 0
    work = epochs["prediction_work"].values
    first = work[np.isfinite(work) & (work > 0)][:1]
    return round(float(first[0]) * int(trace.attrs["n"])) if len(first) else 0
