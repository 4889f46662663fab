"""Figures of curves drawn without a script."""

from __future__ import annotations

import re

import numpy as np
import plotly.graph_objects as go
import pytest

from apviz import plots
from benchmarks.leaderboard.still import still

LABEL = r'<span style="position:absolute;{side}:([\d.]+)%;[^>]*nowrap">(.*?)</span>'


def scale(drawn, side):
    """Return the map from shares of an axis to its labels, a straight line; powers of ten on a log axis."""
    found = re.findall(LABEL.format(side=side), drawn)
    shares = [float(share) / 100 for share, _ in found]
    values = [
        float(re.sub(r"10<sup>(.*)</sup>", r"\1", label.replace("−", "-"))) if "<sup>" in label
        else {"1": 0.0, "10": 1.0}[label] if side == "bottom" else float(label.replace(",", ""))
        for _, label in found
    ]  # fmt: skip
    assert len(values) >= 2
    line = np.polyfit(shares, values, 1)
    return lambda share: np.polyval(line, share)


def paths(drawn, color):
    """Return the points of lines of a colour, as shares of the width and of the height from below."""
    ways = re.findall(rf'<path d="M([^"h]+)" stroke="{color}"', drawn)
    points = [np.array([[float(each) for each in point.split()] for point in way.split("L")]) for way in ways]
    return [np.column_stack([each[:, 0] / 1000, 1 - each[:, 1] / 1000]) for each in points]


def test_a_curve_read_off_its_axes_equals_the_record(runs):
    run = runs["cg"]
    drawn = still(plots.residuals(run, x="work"))
    (points,) = paths(drawn, plots.method_color(run.method))
    span = run["epoch"]["work"].values[-1]
    np.testing.assert_allclose(scale(drawn, "left")(points[:, 0]), run["epoch"]["work"].values, atol=0.002 * span)
    residuals = np.log10(run["epoch"]["residual"].values)
    np.testing.assert_allclose(scale(drawn, "bottom")(points[:, 1]), residuals, atol=0.002 * np.ptp(residuals))


def test_a_curve_of_many_points_keeps_its_peaks_and_fits_a_page():
    y = np.ones(100_000)
    y[[31_415, 92_653]] = 1e6, 1e-6
    drawn = still(go.Figure(go.Scatter(x=np.arange(y.size), y=y, line_color="#123456")))
    (points,) = paths(drawn, "#123456")
    assert len(points) < 1000 and len(drawn) < 30_000
    assert points[:, 1].max() > 0.9 > 0.1 > points[:, 1].min()


def test_texts_of_a_figure_are_shown_unchanged():
    figure = go.Figure(go.Scatter(x=[0, 1], y=[1, 2]))
    figure.update_layout(
        title_text="a &lt;script&gt;alert(1)&lt;/script&gt;<br><span>b & c</span>", xaxis_title_text='"x"<b>'
    )
    drawn = still(figure)
    assert "<script" not in drawn and "a &lt;script&gt;alert(1)&lt;/script&gt;" in drawn and "b &amp; c" in drawn
    assert "&quot;x&quot;</div>" in drawn


def test_values_that_cannot_be_on_a_logarithmic_axis_are_left_out():
    figure = go.Figure(go.Scatter(x=[1, 2, 3, 4], y=[1.0, 0.0, np.nan, 0.01], line_color="#123456"))
    figure.update_yaxes(type="log")
    (points,) = paths(still(figure), "#123456")
    assert len(points) == 2 and np.isfinite(points).all()


@pytest.mark.parametrize("figure", [
    go.Figure(go.Heatmap(z=[[1, 2]])), go.Figure([go.Scatter(y=[1]), go.Scatter(y=[1], yaxis="y2")]), go.Figure(),
])  # fmt: skip
def test_other_figures_are_rejected(figure):
    with pytest.raises(ValueError, match="curves over one pair of axes can be drawn, got"):
        still(figure)


def test_a_figure_without_numbers_still_has_axes():
    assert "<figure" in still(go.Figure(go.Scatter(x=[0], y=[np.nan])))
