"""Residual norms block by block and epoch by epoch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import plotly.graph_objects as go

from apviz.plots._axes import finish
from apviz.plots._style import ThemeName, theme_named
from apviz.plots.blocks._block_panels import add_color_bar, block_axis, block_runs, logarithm, panels
from apviz.tracing.trace import Trace

#: Number of cells that a browser handles without delay.
DRAWN_CELLS: Final = 60_000


def block_norms(trace: Trace | Sequence[Trace], *, theme: ThemeName = "light") -> go.Figure:
    """Draw a heat map of ‖R_I‖_F over the rows a block owns, after each epoch, coloured logarithmically.

    Several traces are stacked in panels that share the colours. Blank cells are exactly zero or not finite. Beyond
    `DRAWN_CELLS` cells, every k-th epoch and the last are drawn, and the figure says so.

    Raises:
        ValueError: No trace; a trace without blocks, or without norms; an unknown theme.

    Examples:
        >>> import apviz, torch
        >>> x = torch.linspace(0, 1, 100)[:, None]
        >>> system = apviz.KernelSystem(x, torch.sin(9 * x), apviz.Matern52(lengthscale=0.2), noise=0.05, device="cpu")
        >>> recorder = apviz.Recorder()
        >>> solution = apviz.solve(system, apviz.AlternatingProjection(block_size=25), hooks=[recorder])
        >>> figure = apviz.plots.block_norms(recorder.trace)
        >>> figure.data[0].z.shape == (4, 1 + solution.epochs)
        True
    """
    several, colors = block_runs(trace, "block_norms"), theme_named(theme)
    figure = panels(several)
    scales, notes = [], []
    for row, run in enumerate(several, start=1):
        blocks = run["block"]
        if "residual_norm" not in blocks:
            raise ValueError(f"the trace of {run.method_name} has no norms of blocks yet; it needs one epoch")
        norms = blocks["residual_norm"].transpose("block", "epoch").values
        drawn, step = _drawn(norms.shape, DRAWN_CELLS // len(several))
        if step > 1:
            notes.append(f"{run.method_name}: one epoch in {step} drawn, and the last")
        scale = logarithm(norms[:, drawn])
        scales.append(scale)
        owned = np.broadcast_to(blocks["owned_size"].values[:, None], scale.shape)
        figure.add_heatmap(
            x=blocks["epoch"].values[drawn], y=blocks["block"].values, z=scale, coloraxis="coloraxis",
            customdata=np.stack([norms[:, drawn], owned], axis=-1), hoverongaps=False, row=row, col=1,
            hovertemplate="block %{y}, %{customdata[1]:,d} rows<br>epoch %{x}<br>‖R<sub>I</sub>‖ "
            "%{customdata[0]:.6g}<extra></extra>",
        )  # fmt: skip
        figure.update_yaxes(block_axis(run), showgrid=False, row=row)
    few = max(run["block"].sizes["epoch"] for run in several) <= 8
    figure.update_xaxes(showgrid=False, tickformat=",d", dtick=1 if few else None)
    figure.update_xaxes(title_text="epoch", row=len(several))
    # a block just projected onto holds rounding noise, which would take most of the colours
    largest = [np.max(scale, axis=0, initial=-np.inf, where=np.isfinite(scale)) for scale in scales]
    title = "norm ‖R<sub>I</sub>‖ of the residual on the block"
    add_color_bar(figure, scales, title, theme, floor=np.concatenate(largest).min() - 1)
    return finish(figure, several, colors, "Residual on each block, after each epoch", "block_norms", notes)


def _drawn(shape: tuple[int, ...], most: int) -> tuple[Any, int]:
    """Return the indices of the epochs to draw, and the step k if every k-th is drawn."""
    blocks, epochs = shape
    step = max(1, -(-blocks * epochs // most))
    return np.unique(np.append(np.arange(0, epochs, step), epochs - 1)) if epochs else np.arange(0), step
