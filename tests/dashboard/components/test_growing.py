"""The messages about a growing figure, put together, give the figure."""

from __future__ import annotations

import json

import plotly.graph_objects as go
import pytest
import torch

pytest.importorskip("panel")

import apviz
from apviz import plots
from apviz.dashboard.components.chart_card import Chart, ChartCard
from apviz.dashboard.components.growing import NUMBERS, Growing


class LookingOn(apviz.Hook):
    """Keeps the trace after every epoch."""

    def __init__(self, recorder):
        self.recorder, self.traces = recorder, []

    def on_epoch(self, epoch):
        self.traces.append(self.recorder.trace)


@pytest.fixture(scope="module")
def moments():
    """Return the traces of a solve with test errors after each epoch."""
    x = torch.rand(200, 2, generator=torch.Generator().manual_seed(0))
    y = torch.sin(3 * x[:, 0])
    system = apviz.KernelSystem(x, y, apviz.Matern52(lengthscale=0.5), noise=0.01, operator="dense")
    recorder = apviz.Recorder()
    looking = LookingOn(recorder)
    hooks = [apviz.PredictionHook(x[:20], y[:20]), recorder, looking]
    apviz.solve(system, apviz.AlternatingProjection(block_size=20, tol=1e-6, max_epochs=30), hooks=hooks)
    return looking.traces


def put_together(sent: list[str]) -> dict:
    """Return the figure in a browser, by an independent reading of the messages."""
    figure = None
    for text in map(json.loads, sent):
        if "data" in text:
            figure = text
            continue
        assert text["serial"] == figure["serial"]
        for change in text["curves"]:
            curve = figure["data"][change["at"]]
            for name in NUMBERS:
                if name in change:
                    del curve[name][change["keep"] :]
                    curve[name] += change[name]
    return figure


def bare(draw, trace) -> go.Figure:
    """Return the figure without buttons, which repeat the numbers; a page has its own."""
    figure = draw([trace])
    figure.layout.updatemenus = ()
    return figure


def as_sent(figure) -> dict:
    return json.loads(Growing().whole(figure))


@pytest.mark.parametrize("draw", [plots.residuals, plots.test_rmse, plots.k_norm_error])
def test_the_first_figure_plus_its_changes_equals_the_last_figure(moments, draw):
    growing, sent = Growing(), []
    for trace in moments[1:]:
        figure = bare(draw, trace)
        sent.append(growing.changes(figure) or growing.whole(figure))
    assert sum("data" in json.loads(each) for each in sent) < len(sent) / 2, "most are changes"
    had, whole = put_together(sent), as_sent(figure)
    assert [had["data"], had["layout"]] == [whole["data"], whole["layout"]]
    residuals = moments[-1]["epoch"]["residual"].values
    if draw is plots.residuals:
        assert any(curve["y"] == residuals.tolist() for curve in had["data"])


def test_only_new_points_of_a_growing_curve_are_sent(moments):
    growing, seen = Growing(), 0
    for before, trace in zip(moments[4:], moments[5:], strict=False):
        growing.whole(bare(plots.residuals, before))
        changes = growing.changes(bare(plots.residuals, trace))
        if changes is None:  # the labels of the axis changed, or there was a first check
            continue
        seen += 1
        (line,) = (each for each in json.loads(changes)["curves"] if each["keep"] == len(before["epoch"]["epoch"]))
        assert line["y"] == [float(trace["epoch"]["residual"][-1])] and len(line["x"]) == 1
    assert seen > 10


def test_a_figure_of_another_structure_is_sent_completely():
    growing, line = Growing(), {"type": "scatter", "x": [1.0, 2.0], "y": [3.0, 4.0]}
    growing.whole(go.Figure([line]))
    assert growing.changes(go.Figure([line, line])) is None
    assert growing.changes(go.Figure([line | {"name": "other"}])) is None
    assert growing.changes(go.Figure([line], {"title": {"text": "other"}})) is None
    assert json.loads(growing.changes(go.Figure([line])))["curves"] == []


def test_a_browser_that_missed_a_change_gets_the_complete_figure():
    line = {"type": "scatter", "x": [1.0, 2.0], "y": [3.0, 4.0]}
    chart = Chart()
    chart.show(None, go.Figure([line]))
    first = json.loads(chart.live)
    chart.show_live(go.Figure([line | {"x": [1.0, 2.0, 3.0], "y": [3.0, 4.0, 5.0]}]))
    assert chart.live and json.loads(chart.live) == first
    assert json.loads(chart.grown) == {
        "serial": first["serial"], "number": 1, "curves": [{"at": 0, "keep": 2, "x": [3.0], "y": [5.0]}],
    }  # fmt: skip
    chart.behind += 1
    chart.show_live(go.Figure([line]))
    assert json.loads(chart.live)["serial"] > first["serial"] and chart.grown == ""


@pytest.mark.parametrize("lecture", [False, True])
@pytest.mark.parametrize("draw", [plots.residuals, plots.test_rmse, plots.k_norm_error])
def test_an_unvalidated_figure_equals_the_validated_one_and_can_be_sent(moments, draw, lecture):
    card = ChartCard("Card", "Text.", lambda traces, theme: draw(traces, theme=theme), lecture=lecture)
    checked, unchecked = card._figure([moments[-1]], "dark"), card._live_figure([moments[-1]], "dark")
    assert json.loads(checked.to_json()) == json.loads(unchecked.to_json(), object_hook=without_nothing)
    curves, epochs = as_sent(unchecked)["data"], moments[-1]["epoch"].sizes["epoch"]
    assert any(len(each["x"]) == len(each["y"]) == epochs for each in curves)


def without_nothing(found: dict) -> dict:
    """Remove nulls, which plotly.js treats as missing."""
    return {name: value for name, value in found.items() if value is not None}
