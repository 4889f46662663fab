"""K-norm error of runs: what is known of it, and what the theory promises."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike

from apviz.analysis import errors as _analysis
from apviz.plots._axes import Floats, X, as_traces, positive
from apviz.plots._curves import Curves, Grid, with_looks
from apviz.plots._labels import escaped, legend_entry, run_names
from apviz.plots._style import BOUND_DASH, Look, ThemeName, theme_named, translucent

if TYPE_CHECKING:
    import xarray as xr

    from apviz.tracing.trace import Trace

_NOTES = ("The error lies inside the band; dots are bounds in exact arithmetic",)
_AT_PASSES = "a bar is what a pass found; the thin line between bars is the recursion's estimate"


def k_norm_error(
    traces: Trace | Sequence[Trace],
    *,
    errors: ArrayLike | None = None,
    x: X = "epochs",
    theme: ThemeName = "light",
) -> go.Figure:
    """Band in which ‖W − W*‖²_K lies, relative to its upper edge at the start, and its bound.

    W* is unknown; the recorded energies leave the error undetermined by what remained at the end, so a band is drawn
    and never a curve that plunges to zero. Where the error is known at passes alone, as in float32, each is a bar, and
    a thin line is what the recursion's energies add up to, an estimate. Bounds are dotted, and of exact arithmetic:
    Theorem 1 of the paper for alternating projection, Hestenes & Stiefel's rate for CG; they end where rounding has
    overtaken them, and those drawn from estimated eigenvalues are called estimates. Buttons switch x.

    Args:
        errors: (epochs + 1,) ‖W − W*‖²_K of the one trace, before the first epoch and after each, where W* is known;
            drawn as a line.
        x: the unit of the x axis at first: `work`, `epochs` or `seconds`.

    Raises:
        ValueError: no trace, or no error band for any; errors of several traces, or not one for every epoch; an
            unknown x or theme.

    Examples:
        >>> import apviz, torch
        >>> x = torch.linspace(0, 1, 100)[:, None]
        >>> system = apviz.KernelSystem(x, torch.sin(9 * x), apviz.Matern52(lengthscale=0.2), noise=0.05, device="cpu")
        >>> recorder = apviz.Recorder()
        >>> _ = apviz.solve(system, apviz.AlternatingProjection(block_size=25), hooks=[recorder])
        >>> figure = apviz.plots.k_norm_error(recorder.trace)
        >>> [curve.name for curve in figure.data if curve.line.dash == "dot"]
        ['AP gauss-southwell b=25: Theorem 1']
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
        notes.append(f"no band is known for {', '.join(without)}")
    if any(was and band.attrs["at_passes"] for was, band in zip(drawn, bands, strict=True)):
        notes.append(_AT_PASSES)
    curves.log_axis("‖W − W*‖²<sub>K</sub> ÷ start")
    curves.buttons()
    title = "Squared K-norm error, and its bound"
    return curves.finish(several, title, f"k_norm_error/{x}", notes)


def _of_every_epoch(errors: ArrayLike, traces: Sequence[Trace]) -> Floats:
    """The errors of the one trace that is drawn."""
    true, places = (
        np.asarray(errors.detach() if hasattr(errors, "detach") else errors, dtype=float),
        traces[0]["epoch"].sizes["epoch"],
    )
    if len(traces) > 1 or true.shape != (places,):
        raise ValueError(
            f"errors are those of one trace, before its first epoch and after each; got {true.shape} numbers for "
            f"{len(traces)} traces, of which the first has {places} of them. Draw one trace at a time"
        )
    return true


def _draw(curves: Curves, trace: Trace, name: str, look: Look, error: xr.Dataset, true: Floats | None) -> bool:
    """Band and bound of one run, and its error where that is known; whether there is a band."""
    upper, lower, bound = (positive(error[part].values) for part in ("upper", "lower", "bound"))
    known = np.flatnonzero(np.isfinite(upper))
    if not len(known):
        return False
    start = upper[known[0]]
    color, entry = look.color, legend_entry(name, trace)
    # one closed outline, there along the upper edge and back along the lower: where the lower edge is zero it
    # is left out and the band just ends, while a fill between two curves would fall to the bottom of the axis
    low = curves.thin(lower, np.flatnonzero(np.isfinite(lower)))[::-1]
    known = curves.thin(upper, known)
    at_passes = error.attrs["at_passes"]
    if not at_passes:  # between passes an area would claim what is not known
        curves.add(
            trace,
            np.concatenate([upper[known], lower[low]]) / start,
            "",
            np.concatenate([known, low]),
            mode="lines",
            fill="toself",
            fillcolor=translucent(color, 0.28),
            line={"width": 0},
            name=entry,
            legendgroup=entry,
            showlegend=False,
            hoverinfo="skip",
            hovertemplate=None,
        )
    else:
        about = positive(error["estimate"].values)
        rows = curves.thin(about, np.flatnonzero(np.isfinite(about)))
        curves.add(
            trace,
            about[rows] / start,
            "error, an estimate by the recursion",
            rows,
            mode="lines",
            line=look.line(1),
            name=entry,
            legendgroup=entry,
            showlegend=False,
        )

    def dots(edge: Floats) -> dict[str, Any]:
        scatter: dict[str, Any] = {"mode": "markers", "marker": {"color": color, "size": 8}}
        if edge is upper:
            reach = (upper - np.nan_to_num(lower))[known] / start
            scatter["error_y"] = {"array": 0 * reach, "arrayminus": reach, "symmetric": False, "width": 0}
        return scatter

    edges: tuple[tuple[str, Any, Any], ...] = (("at most", upper, known), ("at least", lower, low[::-1]))
    for word, edge, rows in edges:
        curves.add(
            trace,
            edge[rows] / start,
            f"error {word}",
            rows,
            **(dots(edge) if at_passes else {"mode": "lines", "line": look.line(2)}),
            name=entry,
            legendgroup=entry,
            showlegend=edge is upper,
        )
    if true is not None:
        rows = curves.thin(true, np.arange(len(true)))
        curves.add(
            trace,
            positive(true)[rows] / start,
            "error",
            rows,
            mode="lines",
            line={"color": curves.theme.ink, "width": 2},
            name="the error itself, from W*",
        )
    at = curves.thin(bound, np.flatnonzero(np.isfinite(bound)))
    if len(at):
        called = escaped(str(error.attrs.get("bound_name") or "bound"))
        if error.attrs.get("bound_is_estimate"):
            called += " (estimate)"
        curves.add(
            trace,
            bound[at] / start,
            f"{called}, {escaped(str(error.attrs.get('how', '')))}<br>",
            at,
            mode="lines",
            line={"color": color, "width": 2, "dash": BOUND_DASH},
            name=f"{name}: {called}",
            # it has a legend entry of its own, and still belongs to the run
            meta=entry,
        )
    return True
