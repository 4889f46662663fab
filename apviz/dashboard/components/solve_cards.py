"""Charts of solves that several pages have: errors in the K-norm, and blocks update by update and epoch by epoch."""

from __future__ import annotations

import html
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from apviz import plots
from apviz.analysis import errors
from apviz.dashboard.components.chart_card import ChartCard, Draw, updates_table
from apviz.method import distinct_names
from apviz.plots._axes import X
from apviz.plots._labels import run_names
from apviz.plots._style import ThemeName
from apviz.tracing import Trace


def error_card(draw: Draw, curves: Mapping[str, Any]) -> ChartCard:
    """Return the card of errors in the K-norm.

    Args:
        draw: Function from traces and theme to the figure.
        curves: Other arguments of the `ChartCard`.
    """
    return ChartCard(
        "Error in the K-norm, and theory's bound",
        "The band is what the last residual leaves uncertain. Dotted: the bounds of Theorem 1 (κ′; Wu et al., AISTATS "
        "2024) and of CG (κ), in exact arithmetic. In float32, or where far blocks are approximated, the error is "
        "known only where all rows are checked.",
        draw, takes=has_error, table=errors_table, sentence=error_sentence, **curves,
    )  # fmt: skip


def rmse_figure(traces: Sequence[Trace], x: X, theme: ThemeName) -> go.Figure:
    """Return the figure of test errors, without the runs in its legend, which the chart of residuals names."""
    figure = plots.test_rmse(traces, x=x, theme=theme)
    figure.update_traces(showlegend=False, selector=lambda each: each.legendgroup)
    # data sets and files are scaled by the standard deviation of the target
    figure.layout.yaxis.title.text = "test RMSE (sd of the target)"
    return figure


def timeline_card(text: str, lecture: bool) -> ChartCard:
    """Return the card of the blocks of one solve, update by update."""
    return ChartCard(
        "Which block, when", text, lambda traces, theme: plots.block_timeline(traces, theme=theme),
        takes=_has_timeline, table=updates_table, x_unit=lambda: "update", lecture=lecture,
    )  # fmt: skip


def norms_card(text: str, lecture: bool) -> ChartCard:
    """Return the card of the residual norms of the blocks of one solve, epoch by epoch."""
    return ChartCard(
        "Residual on each block", text, lambda traces, theme: plots.block_norms(traces, theme=theme),
        takes=_has_blocks, table=block_norms_table, sentence=residual_sentence, x_unit=lambda: "epochs",
        lecture=lecture,
    )  # fmt: skip


def _has_blocks(trace: Trace) -> bool:
    return "block" in trace and "update" in trace and trace["epoch"].sizes["epoch"] > 1


def _has_timeline(trace: Trace) -> bool:
    return trace.parts is not None and "update" in trace and trace["epoch"].sizes["epoch"] > 1


def has_error(trace: Trace) -> bool:
    """Test whether the K-norm error is known; it is not if the numbers of a solve overflowed."""
    upper = errors.k_norm_error(trace)["upper"].values
    return bool((np.isfinite(upper) & (upper > 0)).any())


def relative_error(trace: Trace) -> pd.DataFrame:
    """Return `error_at_least`, `error_at_most` and `bound` as the figure draws them, with the error's attributes."""
    error = errors.k_norm_error(trace)
    upper = error["upper"].values
    start = upper[np.isfinite(upper) & (upper > 0)][0]
    parts = {"error_at_least": "lower", "error_at_most": "upper", "bound": "bound"}
    found = pd.DataFrame({column: error[part].values / start for column, part in parts.items()})
    found.attrs = dict(error.attrs)
    return found


def errors_table(traces: Sequence[Trace]) -> pd.DataFrame:
    """Return a table of the edges of the band of ‖W − W*‖²_K and its bound, relative to its upper edge at the start."""
    frames = []
    for name, trace in named(traces):
        epochs, error = trace["epoch"], relative_error(trace)
        columns = {column: epochs[column].values for column in ("epoch", "work", "seconds")}
        frames.append(pd.DataFrame({"run": name, **columns, **error, "bound_name": error.attrs["bound_name"]}))
    return pd.concat(frames, ignore_index=True)


def block_norms_table(traces: Sequence[Trace]) -> pd.DataFrame:
    """Return a table of ‖R_I‖_F over the rows that a block owns, by epoch and block."""
    frames = []
    for name, trace in named(traces):
        block = trace["block"]
        norms = block["residual_norm"].transpose("epoch", "block").to_series().rename("residual_norm").reset_index()
        norms["rows"] = block["owned_size"].sel(block=norms["block"].values).values
        frames.append(norms.assign(run=name)[["run", "epoch", "block", "rows", "residual_norm"]])
    return pd.concat(frames, ignore_index=True)


def error_sentence(trace: Trace) -> str:
    """Return a sentence on the final error in the K-norm, and on its theoretical bound."""
    error = relative_error(trace)
    known = np.flatnonzero(error["error_at_most"].notna())[-1]  # with skeletons, the error at the last pass
    low, high, bound = (float(error[name].iloc[known]) for name in ("error_at_least", "error_at_most", "bound"))
    name, epoch = error.attrs["bound_name"], int(trace["epoch"]["epoch"][known])
    called = f"{name}, an estimate," if error.attrs["bound_is_estimate"] else name
    theory = f"{called} allows {bound:.2g}" if math.isfinite(bound) else name
    return (
        f"{trace.method_name}: after {epoch:,} epochs the squared K-norm error is between {low:.2g} and {high:.2g} "
        f"of its start, {theory}, {trace.status(with_residual=False).lower()}"
    )


def residual_sentence(trace: Trace) -> str:
    """Return a sentence on the distribution of the final residual over the blocks."""
    last = trace["block"].isel(epoch=-1)
    norms = last["residual_norm"].values
    most, least = int(norms.argmax()), int(norms.argmin())
    return (
        f"{trace.method_name}: after epoch {int(last['epoch']):,} the norm of the residual is largest on block {most}, "
        f"{norms[most]:.2g}, and smallest on block {least}, {norms[least]:.2g}, "
        f"{trace.status(with_residual=False).lower()}"
    )


def named(traces: Sequence[Trace]) -> Iterator[tuple[str, Trace]]:
    """Yield runs with their names in figures, which distinguish runs of one method."""
    return zip((html.unescape(name) for name in run_names(traces)), traces, strict=True)


def names_over_seeds(groups: Sequence[Sequence[Trace]]) -> list[str]:
    """Return a distinct name for each group of runs that differ only in the seed."""
    firsts = [runs[0] for runs in groups]
    heads = distinct_names([trace.method for trace in firsts])
    return [html.unescape(name) for name in run_names(firsts, heads, leave_out=["seed"])]
