"""One state of a comparison: the residual, what every block would remove, and which block each rule takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from apviz.plots._axes import finish
from apviz.plots._labels import system_label
from apviz.plots._style import BOUND_DASH, Theme, ThemeName, rule_color, theme_named, translucent

if TYPE_CHECKING:
    from apviz.rkhs import Choices, RuleComparison
    from apviz.rkhs.rules import Rule

HEIGHT = 680
#: blocks with a number under them that fit a phone
LABELS = 12


def next_block(comparison: RuleComparison, rule: Rule, number: int, *, theme: ThemeName = "light") -> go.Figure:
    """Where the trajectory of `rule` is after some updates, and what could come next.

    Above the residual at the points; below, in the columns of the blocks, what each would remove of ½‖r‖²_H, with
    what is guaranteed to gauss-southwell, and the block each rule takes here. Every state has the same traces, so that
    a player changes numbers only.

    Args:
        rule: whose trajectory, and whose next block is lit.
        number: of updates done.

    Raises:
        ValueError: a rule or a number that the comparison does not have; an unknown theme.

    Examples:
        >>> import apviz
        >>> from apviz import rkhs
        >>> from apviz.plots.rkhs import next_block
        >>> x, b = rkhs.toy_problem("crowded", 24)
        >>> span = rkhs.Span(x, apviz.Matern52(lengthscale=0.1), noise=0.1)
        >>> comparison = rkhs.compare_rules(span, b, block_size=4, steps=12)
        >>> figure = next_block(comparison, "cyclic", 5)
        >>> len(figure.data[2].y) == len(comparison.blocks)  # a bar a block
        True
    """
    colors = theme_named(theme)
    found = comparison.choices(rule, number)
    blocks, n = comparison.blocks, len(found.residual)
    # blocks are of neighbours in the order of the points
    ends = np.cumsum([0, *(len(rows) for rows in blocks)]) + 0.5
    centres, widths = (ends[:-1] + ends[1:]) / 2, np.diff(ends)
    lit = np.zeros(n, dtype=bool)
    lit[list(blocks[found.taken[rule]])] = True
    ours = rule_color(rule, theme)
    figure = make_subplots(rows=3, cols=1, shared_xaxes=True, vertical_spacing=0.05, row_heights=[0.32, 0.38, 0.3])
    place = np.arange(1, n + 1)
    gaps = np.full(n, np.nan)
    figure.add_scatter(
        x=np.column_stack([place, place, gaps]).ravel(),
        y=np.column_stack([np.zeros(n), found.residual, gaps]).ravel(),
        mode="lines", showlegend=False, hoverinfo="skip", line={"color": colors.muted, "width": 1.5}, row=1, col=1,
    )  # fmt: skip
    figure.add_scatter(
        x=place, y=found.residual, mode="markers", showlegend=False, name="residual", customdata=_points(comparison),
        marker={"color": np.where(lit, ours, colors.ink).tolist(), "size": np.where(lit, 11, 7).tolist(), "opacity": 1},
        hovertemplate="x = %{customdata:.3g}: residual %{y:.4g}<extra></extra>", row=1, col=1,
    )  # fmt: skip
    shares = 100 * found.decrease_per_block / found.left
    fill = [ours if block == found.taken[rule] else translucent(colors.muted, 0.55) for block in range(len(blocks))]
    figure.add_bar(
        x=centres, y=shares, width=0.8 * widths,
        showlegend=False, name="would remove", marker={"color": fill, "line": {"width": 0}},
        customdata=np.column_stack([np.arange(len(blocks)), found.norms, found.decrease_per_block]),
        hovertemplate="block %{customdata[0]:d}: would remove %{customdata[2]:.4g}, %{y:.3g} % of ½‖r‖²<sub>H</sub><br>"
        "‖r_I‖ = %{customdata[1]:.4g}<extra></extra>",
        row=2, col=1,
    )  # fmt: skip
    floor = 100 * found.guaranteed / found.left
    figure.add_scatter(
        x=[0.5, n + 0.5], y=[floor, floor], mode="lines",
        name="guaranteed to gauss-southwell (Theorem 1)", showlegend=True,
        line={"color": colors.ink, "width": 2, "dash": BOUND_DASH},
        hovertemplate=f"guaranteed: {found.guaranteed:.4g}, %{{y:.3g}} % of ½‖r‖²<sub>H</sub><extra></extra>",
        row=2, col=1,
    )  # fmt: skip
    _add_rules(figure, found, centres, shares, colors)
    figure.update_yaxes(title_text="residual", range=_about_zero(comparison), zeroline=True, row=1, col=1)
    figure.update_yaxes(title_text="removes, %", range=[0, _highest(comparison, rule)], row=2, col=1)
    labelled = range(0, len(blocks), -(-len(blocks) // LABELS))
    ticks = {"tickvals": centres[labelled], "ticktext": [str(block) for block in labelled]}
    figure.update_xaxes(range=[0.5, n + 0.5], showgrid=False, **ticks)
    figure.update_xaxes(title_text="block, of neighbouring points", row=3, col=1)
    figure.update_layout(height=HEIGHT, shapes=[_columns(ends, colors)])
    system = f"b = {len(blocks[0])} · {system_label(comparison.trajectories[rule].span)}"
    notes = [system, *_said(rule, number, found)]
    return finish(figure, [], colors, "Which block next?", "next_block", notes)


def _points(comparison: RuleComparison) -> Any:
    """Places (n,) of the points, for hover."""
    return comparison.trajectories["gauss-southwell"].span.x[:, 0]


def _add_rules(figure: go.Figure, found: Choices, centres: Any, shares: Any, colors: Theme) -> None:
    """The block each rule takes here, in its line, with what it removes."""
    names = list(found.taken)
    height = {name: len(names) - 1 - line for line, name in enumerate(names)}
    middle = float(np.mean(centres))
    figure.add_scatter(
        x=[centres[block] for block in found.taken.values()], y=list(height.values()),
        mode="markers+text", showlegend=False, name="takes", cliponaxis=False,
        marker={"size": 13, "color": [rule_color(name, colors.name) for name in names]},
        text=[f" {shares[block]:.1f}% " for block in found.taken.values()],
        textposition=[
            "middle left" if centres[block] > middle else "middle right" for block in found.taken.values()
        ],
        hovertext=[f"{name}: block {block}" for name, block in found.taken.items()],
        hovertemplate="%{hovertext}<extra></extra>", row=3, col=1,
    )  # fmt: skip
    figure.update_yaxes(
        tickvals=list(height.values()), ticktext=list(height), range=[-0.6, len(names) - 0.4], row=3, col=1
    )


def _said(rule: Rule, number: int, found: Choices) -> list[str]:
    """Lines under the title; always as many."""
    where = f"{number} update{'' if number == 1 else 's'} of {rule}: ½‖r‖²_H = {found.left:.3g}"
    greedy, best = found.taken["gauss-southwell"], found.best
    share = found.decrease_per_block / found.left
    if found.greedy_is_best:
        return [where, f"block {greedy} has the largest ‖r_I‖ and removes the most"]
    return [where, f"largest ‖r_I‖: block {greedy} ({share[greedy]:.0%}); block {best} removes {share[best]:.0%}"]


def _columns(ends: Any, colors: Theme) -> dict[str, Any]:
    """A shade behind every other block, over all rows; one shape, since plotly takes its time over each."""
    sides = list(zip(ends[:-1], ends[1:], strict=True))[1::2]
    return {
        "type": "path", "xref": "x", "yref": "paper", "layer": "below", "line": {"width": 0},
        "path": " ".join(f"M{left},0V1H{right}V0Z" for left, right in sides) or "M0,0Z",
        "fillcolor": translucent(colors.grid, 0.5),
    }  # fmt: skip


def _about_zero(comparison: RuleComparison) -> list[float]:
    """One range for all states of all rules."""
    largest = max(
        float(np.abs(step.residual).max())
        for trajectory in comparison.trajectories.values()
        for step in trajectory.steps
    )
    return [-1.1 * largest, 1.1 * largest]


def _highest(comparison: RuleComparison, rule: Rule) -> float:
    """A little above the largest share that a block would remove in any state of a trajectory."""
    trajectory = comparison.trajectories[rule]
    left = 0.5 * trajectory.errors()[:-1] ** 2
    return 110 * max(
        float(step.decrease_per_block.max() / rest) for step, rest in zip(trajectory.steps[1:], left, strict=True)
    )
