"""Error that each of the four rules has left after as many updates."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import plotly.graph_objects as go

from apviz.plots._axes import finish
from apviz.plots._labels import system_label
from apviz.plots._style import ThemeName, rule_color, theme_named

if TYPE_CHECKING:
    from apviz.rkhs import RuleComparison

HEIGHT = 520


def rule_errors(comparison: RuleComparison, number: int, *, theme: ThemeName = "light") -> go.Figure:
    """Error ‖r‖_H of every rule against updates, on a log axis, with a mark where each is after `number` of them.

    Args:
        number: of updates done.

    Raises:
        ValueError: a number of updates that the comparison does not have; an unknown theme.

    Examples:
        >>> import apviz
        >>> from apviz import rkhs
        >>> from apviz.plots.rkhs import rule_errors
        >>> x, b = rkhs.toy_problem("crowded", 24)
        >>> span = rkhs.Span(x, apviz.Matern52(lengthscale=0.1), noise=0.1)
        >>> comparison = rkhs.compare_rules(span, b, block_size=4, steps=12)
        >>> figure = rule_errors(comparison, 5)
        >>> [curve.name for curve in figure.data if curve.showlegend]
        ['gauss-southwell', 'cyclic', 'random', 'shuffled']
    """
    colors = theme_named(theme)
    if not 0 <= number <= comparison.steps:
        raise ValueError(f"number must be from 0 to {comparison.steps}, the updates of this comparison, got {number}")
    figure = go.Figure()
    updates = np.arange(comparison.steps + 1)
    colors_of = {rule: rule_color(rule, theme) for rule in comparison.errors}
    for rule, errors in comparison.errors.items():
        figure.add_scatter(
            x=updates, y=errors, mode="lines", name=rule, showlegend=True,
            legendgroup=rule, line={"color": colors_of[rule], "width": 3},
            hovertemplate=f"{rule}, %{{x:d}} updates: %{{y:.4g}} of ‖r‖<sub>H</sub> left<extra></extra>",
        )  # fmt: skip
    for rule, errors in comparison.errors.items():
        figure.add_scatter(
            x=[number], y=[errors[number]], mode="markers", name=rule,
            showlegend=False, legendgroup=rule,
            marker={"color": colors_of[rule], "size": 12, "line": {"color": colors.paper, "width": 2}},
            hovertemplate=f"{rule}, %{{x:d}} updates: %{{y:.4g}} of ‖r‖<sub>H</sub> left<extra></extra>",
        )  # fmt: skip
    ticks = [step * 10.0**-power for power in range(17) for step in ((1, 5, 2) if power < 4 else (1,))]
    lowest = min(float(errors.min()) for errors in comparison.errors.values())
    figure.update_xaxes(title_text="updates", range=[-0.02 * comparison.steps, 1.02 * comparison.steps], tickformat="d")
    figure.update_yaxes(
        title_text="‖r‖<sub>H</sub> left", type="log", range=[1.05 * np.log10(lowest) - 0.05, 0.1], tickvals=ticks,
        ticktext=[f"{100 * tick:g}%" for tick in ticks],
    )  # fmt: skip
    line = {"color": colors.muted, "width": 1.5}
    mark = {"type": "line", "x0": number, "x1": number, "yref": "paper", "y0": 0, "y1": 1, "line": line}
    figure.update_layout(height=HEIGHT, shapes=[mark])
    system = f"b = {len(comparison.blocks[0])} · {system_label(comparison.trajectories['gauss-southwell'].span)}"
    notes = [system, *_said(comparison, number)]
    return finish(figure, [], colors, "Four rules, the same system", "rule_errors", notes)


def _said(comparison: RuleComparison, number: int) -> list[str]:
    """Lines under the title; always as many."""
    leads = (
        f"after {number} update{'' if number == 1 else 's'} {comparison.ranking(number)[0]} leads"
        if number
        else "before the first update all are level"
    )
    missed = len(comparison.suboptimal_updates())
    return [
        leads,
        f"after all {comparison.steps}: {comparison.ranking(comparison.steps)[0]} is first",
        f"gauss-southwell missed the best block {missed} of {comparison.steps} times",
    ]
