"""K-norm error of runs: its known range, and its theoretical bound."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go
import xarray as xr
from numpy.typing import ArrayLike

from apviz.analysis import errors as _analysis
from apviz.plots._axes import Floats, X, as_traces, positive
from apviz.plots._curves import Curves, Grid, with_looks
from apviz.plots._labels import escaped, legend_entry, run_names
from apviz.plots._style import BOUND_DASH, Look, ThemeName, theme_named, translucent
from apviz.tracing.trace import Trace

_NOTES = ("the error is inside the band; dotted: bounds in exact arithmetic",)
_AT_PASSES = "bars: error where all rows were checked; thin line: estimate in between"


def k_norm_error(
    traces: Trace | Sequence[Trace],
    *,
    errors: ArrayLike | None = None,
    x: X = "epochs",
    theme: ThemeName = "light",
) -> go.Figure:
    """Draw the band that contains ‖W − W*‖²_K, relative to its upper edge at the start, and its bound.

    W* is unknown. The recorded energies determine the error up to its value at the end. So the figure shows a band, and
    not a curve that falls to zero. If the error is known only at passes, as in float32, each pass is a bar. A thin line
    then sums the recursion's energies, as an estimate. Bounds are dotted and hold in exact arithmetic: Theorem 1 of the
    paper for alternating projection, Hestenes & Stiefel's rate for CG. They end where rounding exceeds them. Bounds
    from estimated eigenvalues are labelled as estimates. Buttons switch x.

    Args:
        errors: (epochs + 1,) ‖W − W*‖²_K of a single trace, before the first epoch and after each, if W* is known;
            drawn as a line.
        x: Unit of the x axis at first: `work`, `epochs` or `seconds`.

    Raises:
        ValueError: No trace, or no error band for any; errors with several traces, or not one for every epoch; an
            unknown x or theme.

    Examples:
        >>> import apviz, torch
        >>> x = torch.linspace(0, 1, 100)[:, None]
        >>> system = apviz.KernelSystem(x, torch.sin(9 * x), apviz.Matern52(lengthscale=0.2), noise=0.05, device="cpu")
        >>> recorder = apviz.Recorder()
        >>> _ = apviz.solve(system, apviz.AlternatingProjection(block_size=25), hooks=[recorder])
        >>> figure = apviz.plots.k_norm_error(recorder.trace)
        >>> [curve.name for curve in figure.data if curve.line.dash == "dot"]
        ['Alternating projection (greedy, b = 25): Theorem 1']
    """
    several, colors = as_traces(traces), theme_named(theme)
    true = None if errors is None else _of_every_epoch(errors, several)
    curves = Curves(Grid(), colors, x)
    bands = [_analysis.k_norm_error(run) for run in several]
    looks = with_looks(several, theme)
    drawn = [_draw(curves, *each, band, true) for each, band in zip(looks, bands, strict=True)]
    if not any(drawn):
        raise ValueError(
            "no trace has a K-norm error band: the energy of every epoch and a bound on the eigenvalues are "
            "needed; record the solve with apviz.Recorder and let it run for at least one epoch"
        )
    notes = list(_NOTES)
    if not all(drawn):
        without = [name for name, was in zip(run_names(several), drawn, strict=True) if not was]
        notes.append(f"no error band for {', '.join(without)}")
    if any(was and band.attrs["at_passes"] for was, band in zip(drawn, bands, strict=True)):
        notes.append(_AT_PASSES)
    curves.log_axis("‖W − W*‖²<sub>K</sub> ÷ start")
    curves.buttons()
    title = "Squared K-norm error and its bound"
    return curves.finish(several, title, f"k_norm_error/{x}", notes)


def _of_every_epoch(errors: ArrayLike, traces: Sequence[Trace]) -> Floats:
    """Check the errors of the single trace, and return them as an array."""
    true, places = (
        np.asarray(errors.detach() if hasattr(errors, "detach") else errors, dtype=float),
        traces[0]["epoch"].sizes["epoch"],
    )
    if len(traces) > 1 or true.shape != (places,):
        raise ValueError(
            f"errors must be those of one trace, {places} numbers: before its first epoch and after each; got shape "
            f"{true.shape} for {len(traces)} traces. Draw one trace at a time"
        )
    return true


def _draw(curves: Curves, trace: Trace, name: str, look: Look, error: xr.Dataset, true: Floats | None) -> bool:
    """Draw band and bound of one run, and its error if known; return whether there is a band."""
    upper, lower = (positive(error[part].values) for part in ("upper", "lower"))
    known = np.flatnonzero(np.isfinite(upper))
    if not len(known):
        return False
    run = _Run(curves, trace, name, legend_entry(name, trace), look, float(upper[known[0]]))
    known = curves.thin(upper, known)
    low = curves.thin(lower, np.flatnonzero(np.isfinite(lower)))[::-1]
    if error.attrs["at_passes"]:  # between passes an area would claim too much
        about = positive(error["estimate"].values)
        rows = curves.thin(about, np.flatnonzero(np.isfinite(about)))
        run.add(about, rows, "error estimated between checks", mode="lines", line=look.line(1), showlegend=False)
        reach = (upper - np.nan_to_num(lower))[known] / run.start
        bars = {"array": 0 * reach, "arrayminus": reach, "symmetric": False, "width": 0}
        dots: dict[str, Any] = {"mode": "markers", "marker": {"color": look.color, "size": 8}}
        run.add(upper, known, "error at most", **dots, error_y=bars)
        run.add(lower, low[::-1], "error at least", **dots, showlegend=False)
    else:
        run.add_area(upper, known, lower, low)
        run.add(upper, known, "error at most", mode="lines", line=look.line(2))
        run.add(lower, low[::-1], "error at least", mode="lines", line=look.line(2), showlegend=False)
    if true is not None:
        rows = curves.thin(true, np.arange(len(true)))
        curves.add(
            trace, positive(true)[rows] / run.start, "error", rows, mode="lines",
            line={"color": curves.theme.ink, "width": 2}, name="exact error, from W*",
        )  # fmt: skip
    run.add_bound(error)
    return True


@dataclass(frozen=True)
class _Run:
    """Known values of the error of one run, drawn relative to `start`."""

    curves: Curves
    trace: Trace
    name: str
    entry: str
    look: Look
    start: float

    def add(self, values: Floats, rows: Any, word: str, **how: Any) -> None:
        """Add a curve that belongs to the run's legend entry."""
        self.curves.add(
            self.trace, values[rows] / self.start, word, rows, name=self.entry, legendgroup=self.entry,
            **{"showlegend": True, **how},
        )  # fmt: skip

    def add_area(self, upper: Floats, known: Any, lower: Floats, low: Any) -> None:
        """Add an area as one closed outline, forward along the upper edge and back along the lower.

        Where the lower edge is zero it is left out, and the band ends. A fill between two curves would fall to the
        bottom of the axis.
        """
        outline = np.concatenate([upper[known], lower[low]]) / self.start
        self.curves.add(
            self.trace, outline, "", np.concatenate([known, low]), mode="lines", fill="toself",
            fillcolor=translucent(self.look.color, 0.28), line={"width": 0}, name=self.entry, legendgroup=self.entry,
            showlegend=False, hoverinfo="skip", hovertemplate=None,
        )  # fmt: skip

    def add_bound(self, error: xr.Dataset) -> None:
        """Add the theoretical bound, where it is known."""
        bound = positive(error["bound"].values)
        at = self.curves.thin(bound, np.flatnonzero(np.isfinite(bound)))
        if not len(at):
            return
        called = escaped(str(error.attrs.get("bound_name") or "bound"))
        if error.attrs.get("bound_is_estimate"):
            called += " (estimate)"
        self.curves.add(
            self.trace, bound[at] / self.start, f"{called}, {escaped(str(error.attrs.get('how', '')))}<br>", at,
            mode="lines", line={"color": self.look.color, "width": 2, "dash": BOUND_DASH},
            name=f"{self.name}: {called}",
            # the bound has its own legend entry, but belongs to the run
            meta=self.entry,
        )  # fmt: skip
