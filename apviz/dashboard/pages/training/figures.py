"""The charts of the page Training."""

from __future__ import annotations

from typing import Any

from apviz import plots
from apviz.dashboard.charts.chart_card import ChartCard, steps_table
from apviz.plots.parts.x_switch import without_buttons

#: charts of the whole training; the other is of one step
OF_ALL_STEPS = ("steps", "lengthscales")


def training_cards(*, lecture: bool) -> dict[str, ChartCard]:
    """By name."""
    training: dict[str, Any] = {
        "takes": lambda trace: "step" in trace, "table": steps_table, "x_unit": lambda: "step", "axes": 420,
        "lecture": lecture,
    }  # fmt: skip
    return {
        "steps": ChartCard(
            "Noise and solves, step by step",
            "The smaller σ², the harder the solve. A cross marks a step whose solve did not converge; click a "
            "step to look at its solve.",
            lambda traces, theme: plots.training(traces, theme=theme), **training,
        ),
        "lengthscales": ChartCard(
            "Lengthscales, step by step",
            "A short one: the target changes quickly along that input. One that keeps growing: the input does not "
            "matter.",
            lambda traces, theme: plots.lengthscales(traces, theme=theme), **training,
        ),
        "solve": ChartCard(
            "Residual of the solve of a step",
            "Down is better. The thin line is the tolerance; a cross ends a solve that did not converge.",
            lambda traces, theme: without_buttons(plots.residuals(traces, x="epochs", theme=theme)),
            lecture=lecture,
        ),
    }  # fmt: skip
