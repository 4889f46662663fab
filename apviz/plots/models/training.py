"""Trainings: the noise by step, and the cost of each step's solve."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from apviz.methods import ALTERNATING_PROJECTION, CONJUGATE_GRADIENT
from apviz.plots._axes import as_traces, finish, log_ticks, positive, require_all
from apviz.plots._curves import with_looks
from apviz.plots._labels import entry_saying, escaped
from apviz.plots._style import NOT_CONVERGED, ThemeName, theme_named
from apviz.tracing.trace import Trace, common_sign, condition_words, sign_of

#: Number of markers drawn on a curve; hovering works on all its points.
_MARKERS: Final = 12
#: Height in pixels with three panels.
_TALL: Final = 920

#: Number of epochs up to which every epoch has a tick.
FEW_EPOCHS: Final = 6

#: Panels from top to bottom: variable of a step, and title of its axis.
_PANELS: Final = {"noise": "σ² ({})", "epochs": "epochs or iterations", "kappa": "κ {} λmax/λmin of K"}

#: Variables in hover texts, in the order of `customdata`; variables that may be NaN.
_VARIABLES: Final = ("step", "noise", "epochs", "residual")
_OPTIONAL: Final = ("work", "seconds", "kappa", "kappa_prime")


def training(traces: Trace | Sequence[Trace], *, theme: ThemeName = "light") -> go.Figure:
    """Draw the noise σ² by step, above the epochs or iterations of the step's solve (paper, Figure 4 and appendix).

    Every step is drawn at the σ² used in its solve. A cross marks a step whose solve did not converge. Recorded
    condition numbers have a third panel, κ of K; hovering also gives κ′ of the blocks.

    Raises:
        ValueError: No trace; a trace of something other than a training; an unknown theme.

    Examples:
        >>> import apviz, torch
        >>> x = torch.linspace(0, 1, 100)[:, None]
        >>> settings = apviz.TrainingSettings(solver=apviz.AlternatingProjection(block_size=25), steps=2, probes=2)
        >>> training = apviz.Training(x, torch.sin(9 * x[:, 0]), settings, device="cpu")
        >>> _ = training.run()
        >>> figure = apviz.plots.training(training.trace)
        >>> figure.layout.yaxis.title.text, figure.layout.yaxis2.title.text
        ('σ² (target unit²)', 'epochs or iterations')
    """
    several, colors = trainings(traces, "training", ", or draw it with apviz.plots.residuals"), theme_named(theme)
    panels = [name for name in _PANELS if name != "kappa" or _has_kappa(several)]
    figure = make_subplots(rows=len(panels), cols=1, shared_xaxes=True, vertical_spacing=0.09)
    for trace, name, look in with_looks(several, theme):
        color, entry = look.color, entry_of(name, trace)
        belonging: dict[str, Any] = {"name": entry, "legendgroup": entry}
        marker = {"color": color, "symbol": look.symbol, "size": 7, "maxdisplayed": _MARKERS}
        for row, panel in enumerate(panels, start=1):
            _add(figure, trace, panel, row, mode="lines+markers", line=look.line(), marker=marker, showlegend=row == 1,
                 **belonging)  # fmt: skip
        failed = np.flatnonzero(trace["step"]["converged"].values == 0)
        if len(failed):
            cross = {"color": color, "symbol": NOT_CONVERGED, "size": 11}
            _add(figure, trace, "epochs", panels.index("epochs") + 1, failed, "solve not converged<br>",
                 mode="markers", marker=cross, showlegend=False, **belonging)  # fmt: skip
    for row, panel in enumerate(panels, start=1):
        _axis(figure, several, panel, row)
    figure.update_xaxes(showticklabels=True)
    figure.update_xaxes(title_text=step_title(several), row=len(panels), col=1)
    if len(panels) > 2:
        figure.update_layout(height=_TALL)
    return finish(figure, several, colors, "Noise σ² and epochs of each step", "training", notes_of(several))


def trainings(traces: Trace | Sequence[Trace], figure: str, otherwise: str = "") -> list[Trace]:
    """Return the traces as a list, and check that all are of trainings."""
    several = as_traces(traces)
    require_all(
        several, lambda trace: "step" in trace,
        f"{figure} draws traces of apviz.Training, which have steps; {{}} is of one solve. Leave it out{otherwise}",
    )  # fmt: skip
    return several


def _has_kappa(traces: Sequence[Trace]) -> bool:
    return any(np.isfinite(trace["step"]["kappa"].values).any() for trace in traces)


def _add(
    figure: go.Figure, trace: Trace, panel: str, row: int, at: Any = slice(None), head: str = "", **scatter: Any
) -> None:
    """Draw a variable against the steps `at`; hovering gives the method and all numbers of the step."""
    steps = trace["step"]
    optional = zip(*(steps[name].values[at] for name in _OPTIONAL), strict=True)
    hover = (
        f"<b>{escaped(trace.method_name)}</b><br>{head}step %{{customdata[0]:d}}: σ² = %{{customdata[1]:.6g}}<br>"
        f"%{{customdata[2]:d}} {_unit(trace)} to residual %{{customdata[3]:.4g}}%{{text}}<extra></extra>"
    )
    figure.add_scatter(
        x=steps["step"].values[at], y=positive(steps[panel].values[at]), hovertemplate=hover, row=row, col=1,
        customdata=np.column_stack([steps[name].values[at] for name in _VARIABLES]),
        text=[_known(trace, values) for values in optional], **scatter,
    )  # fmt: skip


def _axis(figure: go.Figure, traces: Sequence[Trace], panel: str, row: int) -> None:
    """Set the y axis of a panel: a log scale for σ² and κ, a linear one from zero for epochs."""
    units = traces[0]["step"][panel].attrs.get("units", "target unit²")
    if panel == "kappa":
        units = common_sign(sign_of(trace["step"], panel) for trace in traces if _has_kappa([trace]))
    figure.update_yaxes(title_text=_PANELS[panel].format(units), row=row, col=1)
    if panel == "epochs":
        # whole numbers, without repeated labels
        most = max((int(trace["step"][panel].max()) for trace in traces if trace["step"].sizes["step"]), default=0)
        ticks = {"dtick": 1} if most < FEW_EPOCHS else {"nticks": 6}
        figure.update_yaxes(rangemode="tozero", tickformat=",d", row=row, col=1, **ticks)
        return
    drawn = np.concatenate([trace["step"][panel].values for trace in traces])
    figure.update_yaxes(type="log", row=row, col=1, **log_ticks(drawn))


def step_title(traces: Sequence[Trace]) -> str:
    """Return the title of the axis of steps: an iteration of L-BFGS is not an Adam step."""
    settings = (json.loads(trace.attrs["training_settings"]) for trace in traces)
    return "step" if any(each.get("optimiser", "adam") != "adam" for each in settings) else "Adam step"


def entry_of(name: str, trace: Trace) -> str:
    """Return the name of a training with its progress, so that solves that did not converge are visible."""
    done, failed = trace["step"].sizes["step"], int((trace["step"]["converged"].values == 0).sum())
    wanted = json.loads(trace.attrs["training_settings"])["steps"]
    state = f"{done} steps" if trace.finished else f"{done} of {wanted} steps, unfinished"
    state += f", {failed} not converged" if failed else ""
    return entry_saying(name, state)


def _unit(trace: Trace) -> str:
    units = {ALTERNATING_PROJECTION: "epochs", CONJUGATE_GRADIENT: "iterations"}
    return units.get(trace.method.family, "epochs or iterations")


def _known(trace: Trace, values: Sequence[float]) -> str:
    """Return the optional numbers that were recorded for the hover text, two per line."""
    named = zip(_OPTIONAL, values, strict=True)
    words = [_hover_line(trace, name, value) for name, value in named if math.isfinite(value)]
    return "".join(f"<br>{' · '.join(words[i : i + 2])}" for i in range(0, len(words), 2))


def _hover_line(trace: Trace, name: str, value: float) -> str:
    if name in ("work", "seconds"):
        return f"work {value:.6g}" if name == "work" else f"{value:.4g} s"
    return condition_words(name, value, sign_of(trace["step"], name), form=".4g")


def notes_of(traces: Sequence[Trace]) -> list[str]:
    """Return step size, probes and lowest noise, as far as all trainings share them."""
    settings = [json.loads(trace.attrs["training_settings"]) for trace in traces]
    shown = {"step_size": "Adam steps of {:g}", "probes": "{} probes", "noise_floor": "σ² ≥ {:g}"}
    if step_title(traces) == "step":
        shown = {"noise_floor": shown["noise_floor"]}
    shared = [
        form.format(settings[0][key]) for key, form in shown.items() if len({each.get(key) for each in settings}) == 1
    ]
    return [" · ".join(shared)] if shared else []
