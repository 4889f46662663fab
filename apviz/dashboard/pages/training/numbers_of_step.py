"""What was recorded about one step of a training."""

from __future__ import annotations

import math

import pandas as pd
from panel.viewable import Viewable

from apviz.dashboard.charts.plain_table import plain_table
from apviz.tracing import TrainingTrace
from apviz.tracing.trace import condition_words, is_estimate

#: lengthscales that are written out
SHOWN_LENGTHSCALES = 6


def numbers_of_step(trace: TrainingTrace, step: int) -> Viewable:
    """A table of two columns."""
    row, h = trace["step"].sel(step=trace["step"]["step"] == step).isel(step=0), trace.hyperparameters_at(step)
    lengths = ", ".join(f"{value:.3g}" for value in h.lengthscale[:SHOWN_LENGTHSCALES])
    if len(h.lengthscale) > SHOWN_LENGTHSCALES:
        lengths += f", … ({len(h.lengthscale)} in all, {min(h.lengthscale):.3g} to {max(h.lengthscale):.3g})"
    converged = "converged" if int(row["converged"]) else "NOT CONVERGED"
    values = {
        "the solve": f"{converged}, residual {float(row['residual']):.3g}",
        "epochs, or iterations": f"{int(row['epochs']):,}",
        "work of the step": f"{float(row['work']):.4g} n² kernel entries",
        "time of the step": f"{float(row['seconds']):.3g} s",
        "σ²": f"{h.noise:.5g}",
        "outputscale": f"{h.outputscale:.5g}",
        "mean": f"{h.mean:.4g}",
        "lengthscales": lengths,
        "gradient norm": f"{float(row['gradient_norm']):.3g}",
    }
    for name in ("kappa", "kappa_prime"):
        if math.isfinite(float(row[name])):
            words = condition_words(name, float(row[name]), estimated=is_estimate(trace["step"][name]))
            symbol, number = words.split(" ", 1)
            values[symbol] = number.removeprefix("= ")
    frame = pd.DataFrame({"": list(values), " ": list(values.values())})
    return plain_table(frame, index=False, header=False, text_align="start")
