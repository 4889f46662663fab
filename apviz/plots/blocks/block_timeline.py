"""Timeline of blocks: which block was projected onto when, and the energy this removed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import plotly.graph_objects as go
import xarray as xr

from apviz.plots._axes import Floats, finish
from apviz.plots._style import NOT_CONVERGED, Theme, ThemeName, theme_named
from apviz.plots.blocks._block_panels import add_color_bar, block_axis, block_runs, logarithm, panels
from apviz.plots.blocks._snapshots import marker_size
from apviz.tracing.trace import Trace

#: Number of markers that a browser draws in a third of a second.
DRAWN_UPDATES: Final = 6_000

_GUARANTEED: Final = "<br>guaranteed %{customdata[2]:.6g}"
_HOVER: Final = (
    "update %{x:,d}, epoch %{customdata[0]:d}<br>%{meta} %{y:d}<br>energy removed %{customdata[1]:.6g}"
    + _GUARANTEED
    + "<br>work %{customdata[3]:.6g} · %{customdata[4]:.4g} s<extra></extra>"
)


def block_timeline(trace: Trace | Sequence[Trace], *, theme: ThemeName = "light") -> go.Figure:
    """Draw updates as marks, each at its number and its block, coloured by the energy h(W) it removed (log).

    Several traces are stacked in panels that share the colours. Beyond `DRAWN_UPDATES` updates, the run is split into
    `DRAWN_UPDATES` equal stretches and one update is drawn from each; the figure says so. Updates that removed no
    energy are grey crosses. With skeletons, energies are approximate, and the figure says so. Of coloured projections,
    the colours of far-apart blocks are drawn, with estimates of their energies.

    Raises:
        ValueError: No trace; a trace without blocks; an unknown theme.

    Examples:
        >>> import apviz, torch
        >>> x = torch.linspace(0, 1, 100)[:, None]
        >>> system = apviz.KernelSystem(x, torch.sin(9 * x), apviz.Matern52(lengthscale=0.2), noise=0.05, device="cpu")
        >>> recorder = apviz.Recorder()
        >>> _ = apviz.solve(system, apviz.AlternatingProjection(block_size=25, rule="cyclic"), hooks=[recorder])
        >>> figure = apviz.plots.block_timeline(recorder.trace)
        >>> figure.data[0].y[:5].tolist()
        [0, 1, 2, 3, 0]
    """
    several, colors = block_runs(trace, "block_timeline", colours=True), theme_named(theme)
    figure = panels(several)
    scales: list[Any] = []
    notes: list[str] = []
    for row, run in enumerate(several, start=1):
        part = run.parts or "block"
        figure.update_yaxes(block_axis(run, part), row=row)
        if "update" not in run:
            notes.append(f"{run.method_name}: no update is recorded yet")
            continue
        updates = run["update"]
        of_one = updates["block"].values >= 0
        if not of_one.all():
            notes += [f"{run.method_name}: {note}" for note in _left_out(run, of_one)]
            updates = updates.isel(update=of_one)
        total = updates.sizes["update"]
        drawn = _drawn(total, DRAWN_UPDATES // len(several))
        if run.method.skeleton_rank:
            notes.append(f"{run.method_name}: energies by its skeletons, approximate; passes correct their sum")
        if len(drawn) < total:
            notes.append(f"{run.method_name}: {len(drawn):,} of {total:,} updates drawn, evenly over the run")
        scales.append(_add_updates(figure, updates, drawn, row, part, colors))
    blocks = {run["block"].sizes["block"] for run in several if "block" in run}
    is_same = len(blocks) == 1 and all("block" in run for run in several)
    epoch = f" ({blocks.pop()} updates = 1 epoch)" if is_same else ""
    figure.update_xaxes(title_text=f"update{epoch}", row=len(several))
    add_color_bar(figure, scales, "error energy removed by the update", theme)
    part = "block" if any("block" in run for run in several) else "colour"
    title = f"Which {part} is projected onto, and when"
    return finish(figure, several, colors, title, "block_timeline", notes)


def _add_updates(figure: go.Figure, updates: xr.Dataset, drawn: Any, row: int, part: str, theme: Theme) -> Floats:
    """Draw some updates, those that removed no energy as crosses; return the logarithms of the energies."""
    scale = logarithm(updates["energy_decrease"].values[drawn])
    removed, size = np.isfinite(scale), marker_size(len(drawn))
    marker = {"symbol": "square", "size": size, "color": scale[removed], "coloraxis": "coloraxis"}
    _add(figure, updates, drawn[removed], row, meta=part, marker=marker, showlegend=False)
    if not removed.all():
        # one legend entry for all panels
        first = not any(each.showlegend for each in figure.data)
        entry = {"name": "removed no energy", "legendgroup": "none", "showlegend": first}
        marker = {"symbol": NOT_CONVERGED, "size": size, "color": theme.muted}
        _add(figure, updates, drawn[~removed], row, meta=part, marker=marker, **entry)
    return scale


def _left_out(trace: Trace, of_one: Any) -> list[str]:
    """Return notes on the updates that are not drawn, given those of one block or colour."""
    if "colour" not in trace:
        return [f"CG took over after update {int(of_one.sum()):,}"]
    notes = ["energies of colours are estimates; the step that ends a sweep has the rest, and is not drawn"]
    step = max(np.flatnonzero(of_one), default=len(of_one)) + 1  # of the last sweep
    if step < len(of_one) - 1:
        notes.append(f"overlapping projections took over after update {step + 1:,}")
    return notes


def _drawn(total: int, most: int) -> Any:
    """Return the indices of the updates to draw: all, or one from each of `most` equal stretches.

    The place within a stretch is random (with a fixed seed): with a cyclic rule, every k-th update would show only some
    of the blocks.
    """
    if total <= most:
        return np.arange(total)
    edges = np.linspace(0, total, most + 1)
    places = edges[:-1] + np.random.default_rng(0).random(most) * np.diff(edges)
    return np.unique(np.minimum(places.astype(int), total - 1))


def _add(figure: go.Figure, updates: xr.Dataset, rows: Any, row: int, **scatter: Any) -> None:
    shown = ("epoch_of_update", "energy_decrease", "guaranteed_decrease", "work", "seconds")
    figure.add_scatter(
        x=updates["update"].values[rows], y=updates["block"].values[rows], mode="markers", row=row, col=1,
        customdata=np.column_stack([updates[name].values[rows] for name in shown]),
        hovertemplate=_HOVER if updates["guaranteed_decrease"].notnull().any() else _HOVER.replace(_GUARANTEED, ""),
        **scatter,
    )  # fmt: skip
