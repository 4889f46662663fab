"""The numbers behind three charts of the page Compare: K-norm errors, residuals on blocks, times of updates."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from apviz.plots.parts.captions import run_names
from apviz.plots.update_times import time_quantiles
from apviz.tracing import Trace


def has_error(trace: Trace) -> bool:
    """Whether anything is known of the K-norm error: nothing is where the numbers of a solve ran out of range."""
    upper = trace.k_norm_error()["upper"].values
    return bool((np.isfinite(upper) & (upper > 0)).any())


def errors_table(traces: Sequence[Trace]) -> pd.DataFrame:
    """The edges of the band of ‖W − W*‖²_K and its bound, relative to the upper edge at the start, by epoch."""
    frames = []
    for name, trace in _named(traces):
        epochs, error = trace["epoch"], relative_error(trace)
        columns = {column: epochs[column].values for column in ("epoch", "work", "seconds")}
        frames.append(pd.DataFrame({"run": name, **columns, **error, "bound_name": error.attrs["bound_name"]}))
    return pd.concat(frames, ignore_index=True)


def relative_error(trace: Trace) -> pd.DataFrame:
    """`error_at_least`, `error_at_most` and `bound` as the figure draws them; its attributes are those of the error."""
    error = trace.k_norm_error()
    upper = error["upper"].values
    start = upper[np.isfinite(upper) & (upper > 0)][0]
    parts = {"error_at_least": "lower", "error_at_most": "upper", "bound": "bound"}
    found = pd.DataFrame({column: error[part].values / start for column, part in parts.items()})
    found.attrs = dict(error.attrs)
    return found


def block_norms_table(traces: Sequence[Trace]) -> pd.DataFrame:
    """‖R_I‖_F over the rows that a block owns, by epoch and block."""
    frames = []
    for name, trace in _named(traces):
        block = trace["block"]
        norms = block["residual_norm"].transpose("epoch", "block").to_series().rename("residual_norm").reset_index()
        norms["rows"] = block["owned_size"].sel(block=norms["block"].values).values
        frames.append(norms.assign(run=name)[["run", "epoch", "block", "rows", "residual_norm"]])
    return pd.concat(frames, ignore_index=True)


def times_table(traces: Sequence[Trace]) -> pd.DataFrame:
    """Seconds of an update, or of an iteration: extremes, quartiles and median."""
    columns = ["shortest", "lower_quartile", "median", "upper_quartile", "longest"]
    rows = [
        {"run": name, "updates": trace["update"].sizes["update"]}
        | dict(zip(columns, time_quantiles(trace).tolist(), strict=True))
        for name, trace in _named(traces)
    ]
    return pd.DataFrame(rows)


def _named(traces: Sequence[Trace]) -> Iterator[tuple[str, Trace]]:
    """Runs by the names that figures give them, which tell runs of one method apart."""
    return zip((html.unescape(name) for name in run_names(traces)), traces, strict=True)
