"""Figures of widgets: what the browser is sent."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("anywidget", reason="the widgets need anywidget: pip install 'apviz[notebook]'")

import plotly.graph_objects as go
from plotly.offline import get_plotlyjs

from apviz.widgets.chart import Chart, Plotly


def test_all_charts_share_one_copy_of_plotly_js():
    first, second = Chart(go.Figure()), Chart(go.Figure())
    assert first.plotly is second.plotly and first.plotly.source == get_plotlyjs()
    assert len(first._esm) < 5_000
    Plotly.shared().close()
    assert Chart(go.Figure()).plotly is not first.plotly


def test_the_browser_is_sent_the_figure_as_it_is_and_nothing_where_it_did_not_change():
    figure = go.Figure(go.Scatter(x=[1, 2], y=[3.0, 4.0]), layout={"title": {"text": "before"}})
    chart = Chart(figure)
    sent: list[str] = []
    chart.observe(lambda change: sent.append(change["new"]), "parts")
    chart.show(figure)
    assert sent == []
    figure.layout.title.text = "after"
    chart.show(figure)
    assert [json.loads(each)["layout"]["title"]["text"] for each in sent] == ["after"]
    assert json.loads(chart.parts)["data"] == [{"type": "scatter", "x": [1, 2], "y": [3.0, 4.0]}]
