"""Near and far of a kernel: the spectrum that the Fourier operator cuts, and the neighbours that make up for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from apviz.plots._axes import finish, log_ticks, positive
from apviz.plots._style import CAPTION_SIZE, TEXT_SIZE, Theme, ThemeName, sequential_colors, theme_named

if TYPE_CHECKING:
    from apviz.operators.fourier.near_far import Split

#: number of points of a curve
CURVE: Final = 400
#: ends of the axes, as multiples of the cut-off and of the band; smallest share of the spectrum that is drawn
CUTOFFS, BANDS, SMALLEST = 2.5, 6.0, 1e-9
#: distance drawn where near is empty, in units of the shortest wave of far
WAVES: Final = 8.0


def near_and_far(split: Split, *, theme: ThemeName = "light") -> go.Figure:
    """Draw a kernel as near + far, as functions of a distance and as spectra.

    Far has no frequency beyond its band, the dashed line, so that it is a Fourier series of few terms. The kernel has:
    what the band cuts off is shaded. Near, a polynomial up to a cut-off, has nearly the same frequencies there, so that
    k − near has next to none.

    Args:
        split: one of `splits` of `apviz.operators.FourierOperator`. Its distances are those of the kernel's features:
            of Matérn-5/2, √5 times the distance in lengthscales.

    Raises:
        TypeError: Something other than a split.
        ValueError: An unknown theme.

    Examples:
        >>> import apviz, torch
        >>> x = torch.rand(2000, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        >>> from apviz.operators import FourierOperator
        >>> k = FourierOperator(x, apviz.Matern32(lengthscale=0.1), 0.1)
        >>> [trace.name for trace in apviz.plots.near_and_far(k.splits[0]).data if trace.showlegend is not False]
        ['kernel k', 'near', 'far = k − near']
    """
    colors = theme_named(theme)
    if not hasattr(split, "near_spectrum"):
        raise TypeError(f"split must be one of FourierOperator.splits, got {type(split).__name__}")
    figure = make_subplots(
        rows=2, cols=1, vertical_spacing=0.2, subplot_titles=("functions of the distance", "their spectra"),
    )  # fmt: skip
    figure.update_annotations(font_size=TEXT_SIZE)
    of_near, of_far = sequential_colors(2, theme)
    looks = {
        "kernel k": {"color": colors.muted, "width": 5}, "near": {"color": of_near, "width": 2.5},
        "far = k − near": {"color": of_far, "width": 2.5},
    }  # fmt: skip
    cutoff = split.near.cutoff if split.near is not None else 0.0
    r = np.linspace(0.0, CUTOFFS * cutoff or WAVES / split.band, CURVE)
    k, far = split.radial.values(r), split.remaining(r)
    _add(figure, 1, r, dict(zip(looks, (k, k - far, far), strict=True)), looks)
    w = np.geomspace(0.02, BANDS, CURVE) * split.band
    of_k, near = split.spectrum(w), split.near_spectrum(w)
    size = float(of_k.max())
    spectra = [positive(np.abs(each) / size) for each in (of_k, near, of_k - near)]
    spectra = [np.where(each > SMALLEST, each, np.nan) for each in spectra]
    _add(figure, 2, w, dict(zip(looks, spectra, strict=True)), looks)
    _cut(figure, split.band, float(w[-1]), colors)
    figure.update_xaxes(title_text="distance r (of features)", rangemode="tozero", row=1)
    figure.update_yaxes(title_text="value", row=1)
    figure.update_xaxes(
        type="log", title_text="frequency ω", range=np.log10(w[[0, -1]]).tolist(), row=2, **log_ticks(w)
    )
    drawn = np.concatenate(spectra)
    figure.update_yaxes(type="log", title_text="|spectrum| ÷ largest", row=2, **log_ticks(drawn))
    notes = [
        f"near: up to a distance of {cutoff:.3g}" if cutoff else "near is empty: the series needs no help",
        f"far: frequencies up to {split.band:.3g}",
        f"what is left beyond them errs by {split.error / split.radial.size:.1e} of k(0)",
    ]
    return finish(figure, [], colors, "A kernel as near + far", "near_and_far", notes)


def _add(figure: go.Figure, row: int, x: Any, curves: dict[str, Any], looks: dict[str, dict[str, Any]]) -> None:
    at = "distance %{x:.4g}" if row == 1 else "frequency %{x:.4g}"
    for name, y in curves.items():
        figure.add_scatter(
            x=x, y=y, mode="lines", name=name, legendgroup=name, line=looks[name], showlegend=row == 1, row=row, col=1,
            hovertemplate=f"{at}<br>%{{y:.4g}}<extra>{name}</extra>",
        )  # fmt: skip


def _cut(figure: go.Figure, band: float, end: float, colors: Theme) -> None:
    """Mark the band, and shade what it cuts off."""
    figure.add_vrect(x0=band, x1=end, fillcolor=colors.muted, opacity=0.15, line_width=0, layer="below", row=2, col=1)
    figure.add_vline(x=band, line={"color": colors.ink, "dash": "dash", "width": 1.5}, row=2, col=1)
    figure.add_annotation(
        x=np.log10(band), xref="x2", y=1, yref="y2 domain", text="cut from here", showarrow=False, xanchor="left",
        yanchor="top", xshift=6, font={"size": CAPTION_SIZE, "color": colors.ink},
    )  # fmt: skip
