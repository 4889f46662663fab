"""The part of plotly.js that is sent to browsers."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from plotly import graph_objects as go
from plotly.offline import get_plotlyjs

import apviz
from apviz.plots import _script

#: one figure with all that the figures of apviz use: log axes, cells with colours, bands, notes, lines, frames
FIGURE = go.Figure(
    [
        go.Scatter(x=[1, 10, 100], y=[3.0, 0.2, 0.01], mode="lines+markers", name="a<br>b",
                   error_y={"array": [1, 0, 0]}),
        go.Scatter(x=[1, 10, 100], y=[4.0, 0.3, 0.02], fill="tonexty", name="<b>c</b>", line={"dash": "dot"}),
        go.Heatmap(z=[[0.0, 1.0], [2.0, 3.0]], xaxis="x2", yaxis="y2", coloraxis="coloraxis",
                   text=[["a", "b"], ["c", "d"]]),
    ],
    {
        "width": 700, "height": 500, "xaxis": {"type": "log", "domain": [0, 0.4]}, "xaxis2": {"domain": [0.6, 1]},
        "yaxis": {"type": "log"}, "yaxis2": {"anchor": "x2"}, "coloraxis": {"colorscale": "Viridis"},
        "annotations": [{"text": "κ", "x": 1, "y": 0.2, "ax": 20}], "title": {"text": "Two panels"},
        "shapes": [{"type": "line", "x0": 1, "x1": 1, "y0": 0, "y1": 1, "yref": "paper"}],
        "updatemenus": [{"type": "buttons", "buttons": [{"label": "work", "method": "relayout", "args": ["x", "y"]}]}],
        "sliders": [{"steps": [{"label": "1", "method": "skip"}]}],
    },
)  # fmt: skip


def drawn(browser, script: str) -> str:
    """Return the SVG of the figure."""
    tab = browser.new_page()
    # ids are random
    tab.add_init_script("{ let last = 0; Math.random = () => (last = (last + 0.618034) % 1); }")
    tab.goto("about:blank")
    tab.set_content("<div id='chart'></div>")
    tab.add_script_tag(content=script)
    draw = f"async () => {{ await Plotly.newPlot('chart', {FIGURE.to_json()});"
    made = tab.evaluate(draw + "return document.getElementById('chart').innerHTML; }")
    assert not tab.evaluate("Plotly.validate([{type: 'heatmap', z: [[1]]}, {type: 'scatter', y: [1]}], {})")
    tab.close()
    return str(made)


def test_the_short_script_draws_the_same_as_all_of_plotly(browser):
    short = _script.plotly_script()
    assert len(short) < 0.3 * len(get_plotlyjs())
    assert drawn(browser, short) == drawn(browser, get_plotlyjs())


def test_the_figures_use_no_trace_that_the_script_leaves_out():
    used = {
        node.func.attr.lower()
        for path in Path(apviz.__file__).parent.glob("**/*.py") for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) == "go"
    }  # fmt: skip
    assert used - {"figure", "frame", "layout"} == {"scatter", *_script.TRACES}


@pytest.mark.parametrize("other", ["var Plotly={};", "var a=b((c)=>{d.register([e(),f()])});"])
def test_a_script_of_another_form_is_sent_whole(monkeypatch, other):
    monkeypatch.setattr(_script, "get_plotlyjs", lambda: other)
    assert _script.plotly_script.__wrapped__() == other
