"""Test NLL by the rank of Lanczos variances, and with variances by solves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import plotly.graph_objects as go

from apviz.method import Method
from apviz.plots._axes import as_traces, finish, log_ticks, require_all
from apviz.plots._labels import escaped
from apviz.plots._style import ThemeName, method_color, method_symbols, theme_named
from apviz.tracing.trace import Trace

#: Method whose colour the curve has.
_LANCZOS: Final = Method(family="Lanczos")


def lanczos_ranks(traces: Trace | Sequence[Trace], *, theme: ThemeName = "light") -> go.Figure:
    """Draw the negative log-likelihood of test rows by the rank of the variances (paper, appendix), and by solves.

    Lanczos variances are too large. The higher the rank, the closer they come to the variances by solves.

    Raises:
        ValueError: No trace; a trace without the group `lanczos`; an unknown theme.

    Examples:
        The command `apviz experiment lanczos-rank` records such traces; here one is made by hand.

        >>> import apviz, torch, xarray
        >>> x = torch.linspace(0, 1, 100)[:, None]
        >>> system = apviz.KernelSystem(x, torch.sin(9 * x), apviz.Matern52(lengthscale=0.2), noise=0.05, device="cpu")
        >>> recorder = apviz.Recorder()
        >>> _ = apviz.solve(system, apviz.ConjugateGradient(), hooks=[recorder])
        >>> trace = recorder.trace
        >>> found = {"rank": ("rank", [10, 100]), "nll": ("rank", [0.9, 0.4]), "nll_by_solves": 0.3}
        >>> trace.tree["lanczos"] = xarray.DataTree(xarray.Dataset(found))
        >>> figure = apviz.plots.lanczos_ranks(trace)
        >>> [curve.name for curve in figure.data]
        ['by Lanczos', 'by solves']
    """
    several, colors = as_traces(traces), theme_named(theme)
    require_all(
        several, lambda trace: "lanczos" in trace,
        "lanczos_ranks draws traces of `apviz experiment lanczos-rank`, which have the group lanczos; {} has none. "
        "Leave it out",
    )  # fmt: skip
    figure, color = go.Figure(), method_color(_LANCZOS, theme)
    symbols = method_symbols([_LANCZOS] * len(several))
    for trace, name, symbol in zip(several, _names(several), symbols, strict=True):
        found = trace["lanczos"]
        ranks, limit = found["rank"].values, float(found["nll_by_solves"])
        figure.add_scatter(
            x=ranks, y=found["nll"].values, mode="lines+markers", name=f"by Lanczos{name}",
            line={"color": color, "width": 2.5}, marker={"color": color, "symbol": symbol, "size": 8},
            hovertemplate=f"<b>Lanczos{name}</b><br>rank %{{x:,d}}: NLL %{{y:.6g}}<extra></extra>",
        )  # fmt: skip
        figure.add_scatter(
            x=[ranks[0], ranks[-1]], y=[limit, limit], mode="lines", name=f"by solves{name}",
            line={"color": colors.muted, "width": 1.5},
            hovertemplate=f"<b>variances by solves{name}</b><br>NLL %{{y:.6g}}<extra></extra>",
        )  # fmt: skip
    ranks = np.concatenate([trace["lanczos"]["rank"].values for trace in several])
    figure.update_xaxes(title_text="rank of the variances", type="log", **log_ticks(ranks) | {"tickformat": ",d"})
    figure.update_yaxes(title_text="test NLL (nats a row)")
    return finish(figure, several, colors, "Test NLL by rank of the variances", "lanczos_ranks")


def _names(traces: Sequence[Trace]) -> list[str]:
    """Return the differences between traces: data set, and a number if two share one; empty for a single trace."""
    sets = [str(trace.attrs["dataset"]) for trace in traces]
    if len(traces) == 1:
        return [""]
    return [
        f", {escaped(name)}" + (f", run {1 + sets[:i].count(name)}" if sets.count(name) > 1 else "")
        for i, name in enumerate(sets)
    ]
