"""The charts of the page Look inside, the runs that each can show, and the numbers behind them."""

from __future__ import annotations

import numpy as np
import pandas as pd

from apviz import plots
from apviz.dashboard.charts.chart_card import ChartCard, updates_table
from apviz.dashboard.charts.film_card import FilmCard
from apviz.plots.fitted_function import FittedFunction
from apviz.plots.residual_map import ResidualMap
from apviz.tracing import Trace


def map_card(*, lecture: bool) -> FilmCard:
    """The residual over the rows."""
    return FilmCard(
        "Where the residual is",
        "Red and blue: the residual r, white: none. The block of the update is marked, and around it the margin "
        "that it solves on as well.",
        lambda trace, theme: ResidualMap(trace, theme=theme),
        takes=lambda trace: "rows" in trace and "snapshot" in trace, table=rows_table, axes=460, lecture=lecture,
    )  # fmt: skip


def function_card(*, lecture: bool) -> FilmCard:
    """For one input, the function."""
    return FilmCard(
        "The function so far",
        "Every update adds a combination of kernels at the rows of its block. Thin: the function before it.",
        lambda trace, theme: FittedFunction(trace, theme=theme), takes=has_function, table=function_table,
        axes=400, lecture=lecture,
    )  # fmt: skip


def timeline_card(*, lecture: bool) -> ChartCard:
    """The blocks, update by update."""
    return ChartCard(
        "Which block, when",
        "One mark an update, the colour is the energy it removed; click one to look at it. The line is the update "
        "that is shown.",
        lambda traces, theme: plots.block_timeline(traces, theme=theme), takes=has_blocks, table=updates_table,
        x_unit=lambda: "update", lecture=lecture,
    )  # fmt: skip


def has_blocks(trace: Trace) -> bool:
    """Whether there is a timeline of blocks."""
    return "block" in trace and "update" in trace


def has_function(trace: Trace) -> bool:
    """Whether the function of a run can be drawn."""
    return trace.attrs["d"] == 1 and "snapshot" in trace and "weights" in trace["snapshot"]


def rows_table(trace: Trace, update: int) -> pd.DataFrame:
    """Every row with its block and its residual after an update."""
    rows, snapshot = trace["rows"], trace["snapshot"]
    columns = {f"input {k}": values for k, values in enumerate(rows["coordinates"].values.T, start=1)}
    if "owner" in rows:
        columns["block"] = rows["owner"].values
    place = int(np.flatnonzero(snapshot["update"].values == update)[0])
    columns |= {"target": rows["target"].values} if "target" in rows else {}
    columns[f"residual after update {update}"] = snapshot["residual"].values[place]
    return pd.DataFrame(columns).rename_axis("row").reset_index()


def function_table(trace: Trace, update: int) -> pd.DataFrame:
    """The function after an update, on its grid."""
    found = trace.functions()
    place = int(np.flatnonzero(found["update"].values == update)[0])
    return pd.DataFrame({"x": found["x"].values, f"s after update {update}": found["value"].values[place]})
