"""Lengthscales of trainings: every input, by step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import plotly.graph_objects as go

from apviz.plots._axes import finish, log_ticks, positive, stacked
from apviz.plots._labels import escaped, run_names
from apviz.plots._style import ThemeName, sequential_colors, theme_named
from apviz.plots.models.training import entry_of, notes_of, step_title, trainings
from apviz.tracing.trace import Trace

#: Number of inputs with a colour and a legend entry: those with the shortest lengthscales at the end.
SHOWN: Final = 8
_ALL: Final = "all inputs"


def lengthscales(traces: Trace | Sequence[Trace], *, theme: ThemeName = "light") -> go.Figure:
    """Draw lengthscales by step, one line per input, one panel per training; for sums and products those of every part.

    Every step is drawn at the lengthscales used in its solve. A short lengthscale means that the target changes quickly
    along that input. A lengthscale that keeps growing means that the input is irrelevant. The eight inputs with the
    shortest lengthscales at the end have colours, in that order; the others are grey.

    Raises:
        ValueError: No trace; a trace of something other than a training; a kernel without lengthscales; an unknown
        theme.

    Examples:
        >>> import apviz, torch
        >>> x = torch.rand(100, 2, generator=torch.Generator().manual_seed(0))
        >>> settings = apviz.TrainingSettings(solver=apviz.AlternatingProjection(block_size=25), steps=2, probes=2)
        >>> training = apviz.Training(x, torch.sin(9 * x[:, 0]), settings, device="cpu")
        >>> _ = training.run()
        >>> figure = apviz.plots.lengthscales(training.trace)
        >>> sorted(line.name for line in figure.data)
        ['input 1', 'input 2']
    """
    several, colors = trainings(traces, "lengthscales"), theme_named(theme)
    if bare := [trace.attrs["kernel"] for trace in several if not has_lengthscales(trace)]:
        raise ValueError(f"the kernel {bare[0]} has no lengthscales; trace['step']['kernel_number'] has its numbers")
    entries = [entry_of(name, trace) for name, trace in zip(run_names(several), several, strict=True)]
    figure, curves = stacked(entries, titles=len(several) > 1), _curves(several[0])
    names = sorted(curves, key=lambda name: float(curves[name][-1]))[:SHOWN]
    palette = dict(zip(names, sequential_colors(len(names), theme), strict=True))
    in_legend: set[str] = set()
    for row, trace in enumerate(several, start=1):
        steps = trace["step"]
        # grey lines first, so that the others are drawn above them
        for name, values in sorted(_curves(trace).items(), key=lambda each: each[0] in palette):
            color = palette.get(name, colors.muted)
            figure.add_scatter(
                x=steps["step"].values, y=positive(values), mode="lines+markers", name=name, legendgroup=name,
                showlegend=name in palette and name not in in_legend, row=row, col=1,
                legendrank=1 + names.index(name) if name in names else 1000,
                line={"color": color, "width": 2.5 if name in palette else 1},
                marker={"color": color, "size": 6, "maxdisplayed": 12},
                hovertemplate=f"<b>{name}</b><br>step %{{x:d}}: lengthscale %{{y:.4g}}<br>{escaped(trace.method_name)}"
                "<extra></extra>",
            )  # fmt: skip
            in_legend.add(name)
        _axis(figure, trace, row)
    figure.update_xaxes(title_text=step_title(several), row=len(several), col=1)
    # the legend names the inputs, so a single training is named in the notes
    own = [] if len(several) > 1 else [entries[0].replace("<br>", " — ")]
    notes = [*notes_of(several), *own, *_grey(several, palette)]
    return finish(figure, several, colors, "Lengthscales by step", "lengthscales", notes)


def has_lengthscales(trace: Trace) -> bool:
    """Test whether there are lengthscales to draw; the kernels of a product may have none."""
    return bool(_curves(trace))


def _curves(trace: Trace) -> dict[str, np.ndarray]:
    """Return the values by step, by name of the input, counted from 1; for sums and products by name of the part."""
    if "lengthscale" not in trace["step"]:
        numbers = trace["step"]["kernel_number"]
        names = zip(numbers.attrs["names"], numbers.values.T, strict=True)
        return {name: values for name, values in names if name.partition("[")[0].endswith("lengthscale")}
    values = trace["step"]["lengthscale"].values
    if values.shape[1] == 1:
        return {_ALL: values[:, 0]}
    return {f"input {k + 1}": values[:, k] for k in range(values.shape[1])}


def _grey(traces: Sequence[Trace], palette: dict[str, str]) -> list[str]:
    others = {name for trace in traces for name in _curves(trace)} - set(palette)
    return [f"grey: {len(others)} other inputs; hover for their names"] if others else []


def _axis(figure: go.Figure, trace: Trace, row: int) -> None:
    variable = trace["step"].get("lengthscale")
    units = "input unit" if variable is None else variable.attrs.get("units", "input unit")
    drawn = np.concatenate(list(_curves(trace).values()))
    figure.update_yaxes(type="log", title_text=f"lengthscale ({units})", row=row, col=1, **log_ticks(drawn))
