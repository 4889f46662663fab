"""The charts of the page Compare."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import plotly.graph_objects as go

from apviz import plots
from apviz.dashboard.charts.chart_card import ChartCard, updates_table
from apviz.dashboard.pages.compare.sentences import error_sentence, residual_sentence, time_sentence
from apviz.dashboard.pages.compare.tables import block_norms_table, errors_table, has_error, times_table
from apviz.plots.parts.x_switch import X, without_buttons
from apviz.tracing import Trace

#: charts of the run that is looked at; the others are of all runs
OF_ONE_RUN = ("timeline", "blocks")
#: charts of all runs that grow with the one that goes on
GROWING = ("residuals", "rmse", "theory")


def compare_cards(x: Callable[[], X], *, lecture: bool) -> dict[str, ChartCard]:
    """By name, in the order of the page.

    Args:
        x: the unit of the curves' x axis, as it is when they are drawn.
    """
    curves: dict[str, Any] = {"x_unit": x, "lecture": lecture}
    return {
        "residuals": ChartCard(
            "Residual", "Down is better. The thin line is the tolerance; a cross ends a run that did not converge.",
            lambda traces, theme: without_buttons(plots.residuals(traces, x=x(), theme=theme)), **curves,
        ),
        "rmse": ChartCard(
            "Test error beside the residual",
            "Where the upper curve is flat, solving on no longer changes the predictions; a star says since when, of "
            "runs that converged. In standard deviations of the target, to which data sets and files are scaled.",
            lambda traces, theme: _bare(plots.test_rmse(traces, x=x(), theme=theme)),
            takes=lambda trace: bool(trace["epoch"]["test_rmse"].notnull().any()), axes=420, **curves,
        ),
        "theory": ChartCard(
            "Error in the K-norm, and theory's bound",
            "The band is what the last residual leaves open. Dashed: Theorem 1 (κ′) and the bound of CG (κ).",
            lambda traces, theme: _bare(plots.k_norm_error(traces, x=x(), theme=theme)),
            takes=has_error, table=errors_table, sentence=error_sentence, **curves,
        ),
        "timeline": ChartCard(
            "Which block, when", "One mark an update of the run looked at; the colour is the energy it removed.",
            lambda traces, theme: plots.block_timeline(traces, theme=theme), takes=_has_blocks,
            table=updates_table, x_unit=lambda: "update", lecture=lecture,
        ),
        "blocks": ChartCard(
            "Where the residual is", "Residual norm of every block after every epoch, of the run looked at.",
            lambda traces, theme: plots.block_norms(traces, theme=theme), takes=_has_blocks,
            table=block_norms_table, sentence=residual_sentence, x_unit=lambda: "epochs", lecture=lecture,
        ),
        "time": ChartCard(
            "Time per update", "Median, quartiles and extremes of one update, or of one iteration of CG.",
            lambda traces, theme: plots.update_times(traces, theme=theme),
            takes=lambda trace: "update" in trace and trace["update"].sizes["update"] > 1,
            table=times_table, sentence=time_sentence, lecture=lecture,
        ),
    }  # fmt: skip


def _bare(figure: go.Figure) -> go.Figure:
    """Without the runs in its legend: the chart of the residuals names them."""
    figure.update_traces(showlegend=False, selector=lambda each: each.legendgroup)
    return without_buttons(figure)


def _has_blocks(trace: Trace) -> bool:
    return "block" in trace and "update" in trace and trace["epoch"].sizes["epoch"] > 1
