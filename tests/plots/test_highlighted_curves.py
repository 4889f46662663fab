"""Curves that stand out on the page Compare: their names, and the grey ones behind them."""

from __future__ import annotations

import numpy as np
import pytest

from apviz import plots
from apviz.dashboard.pages.compare.highlight import SIZE, highlight
from apviz.plots._axes import without_buttons
from apviz.plots._labels import legend_entry, run_names
from apviz.plots._style import THEMES

NAMED = ("ap", "cg", "cholesky")
BEHIND = ("cut", "ap100", "cyclic")


@pytest.fixture
def compared(runs):
    traces = [runs[name] for name in (*NAMED, *BEHIND)]
    entries = [legend_entry(name, trace) for name, trace in zip(run_names(traces), traces, strict=True)]
    names = {entry: entry.partition("<br>")[0].partition(" — ")[0] for entry in entries[: len(NAMED)]}
    return highlight(plots.residuals(traces, x="work"), names, "light"), entries


def labels(figure):
    return [each for each in figure.layout.annotations if each.name == "end"]


def test_every_named_curve_has_its_name_at_its_end(compared):
    figure, entries = compared
    ends = {
        (curve.x[-1], np.log10(curve.y[-1]))
        for curve in figure.data
        if curve.legendgroup in entries[: len(NAMED)] and "lines" in curve.mode
    }
    assert {(each.x, each.y) for each in labels(figure)} == ends


def test_names_cover_neither_each_other_nor_the_line_and_the_words_of_the_tolerance(compared):
    figure, _ = compared
    drawn = [curve for curve in figure.data if curve.legendgroup and "lines" in (curve.mode or "")]
    x = np.concatenate([curve.x for curve in drawn])
    y = np.log10(np.concatenate([curve.y for curve in drawn]))
    low, span = np.array([x.min(), y.min()]), np.array([np.ptp(x), np.ptp(y)])
    level = (-2 - low[1]) / span[1] * SIZE[1]
    boxes = []
    for each in labels(figure):
        across, up = (np.array([each.x, each.y]) - low) / span * SIZE
        lines = each.text.split("<br>")
        # a label far from its end is the text of an arrow without a head
        right, higher = (each.ax, -each.ay) if each.showarrow else (each.xshift, each.yshift)
        left = across + right - (7 * max(map(len, lines)) if each.xanchor == "right" else 0)
        boxes.append((left, left + 7 * max(map(len, lines)), up + higher, 8 * len(lines)))
    # the words "tolerance 0.01" are above the left end of the line
    boxes.append((0.01 * SIZE[0], 100, level + 9, 8))
    for place, (left, right, middle, half) in enumerate(boxes):
        for other, (left2, right2, middle2, half2) in enumerate(boxes):
            apart = left >= right2 or left2 >= right or abs(middle - middle2) >= half + half2
            assert place == other or apart
        assert place == len(boxes) - 1 or abs(middle - level) >= half


def test_a_grey_cross_is_plain_and_nothing_is_drawn_over_it(compared):
    figure, entries = compared
    behind = [curve for curve in figure.data if curve.legendgroup in entries[len(NAMED) :]]
    crosses = [curve for curve in behind if curve.marker.symbol == "x"]
    assert len(crosses) == 2
    for cross in crosses:
        assert cross.marker.color == THEMES["light"].muted and cross.marker.line.width == 0
    assert "diamond-open" not in {curve.marker.symbol for curve in behind}


def test_the_title_keeps_its_room_where_a_figure_has_no_buttons(runs, edited):
    """The plot was drawn over the title of the figure over seeds."""
    seeds = [edited(runs["cg"], {"seed": seed, "dataset": "made"}) for seed in range(3)]
    for make, has_buttons in ((plots.grouped_curves, False), (plots.residuals, True)):
        before, after = make(seeds), without_buttons(make(seeds))
        assert bool(before.layout.updatemenus) is has_buttons and not after.layout.updatemenus
        lines = after.layout.title.text.count("<br>") + 1
        assert after.layout.margin.t >= 20 * lines
        assert (after.layout.margin.t < before.layout.margin.t) is has_buttons
