"""What three charts of the page Compare show of a run, in a sentence."""

from __future__ import annotations

import math

from apviz.dashboard.pages.compare.tables import relative_error
from apviz.plots.parts.captions import outcome
from apviz.plots.update_times import time_quantiles
from apviz.tracing import Trace


def error_sentence(trace: Trace) -> str:
    """The error in the K-norm at the end, and what theory says of it."""
    error = relative_error(trace)
    low, high, bound = (float(error[name].iloc[-1]) for name in ("error_at_least", "error_at_most", "bound"))
    name, epoch = error.attrs["bound_name"], int(trace["epoch"]["epoch"][-1])
    called = f"{name}, an estimate," if error.attrs["bound_is_estimate"] else name
    theory = f"{called} allows {bound:.2g}" if math.isfinite(bound) else name
    return (
        f"{trace.label}: after {epoch:,} epochs the squared K-norm error is between {low:.2g} and {high:.2g} of its "
        f"start, {theory}, {outcome(trace)}"
    )


def residual_sentence(trace: Trace) -> str:
    """On which blocks the residual is at the end."""
    last = trace["block"].isel(epoch=-1)
    norms = last["residual_norm"].values
    most, least = int(norms.argmax()), int(norms.argmin())
    return (
        f"{trace.label}: after epoch {int(last['epoch']):,} the norm of the residual is largest on block {most}, "
        f"{norms[most]:.2g}, and smallest on block {least}, {norms[least]:.2g}, {outcome(trace)}"
    )


def time_sentence(trace: Trace) -> str:
    """How long an update takes."""
    shortest, lower, median, upper, longest = time_quantiles(trace).tolist()
    return (
        f"{trace.label}: an update takes {median:.2g} s in the median, half of them take {lower:.2g} to {upper:.2g} s, "
        f"all of them {shortest:.2g} to {longest:.2g} s"
    )
