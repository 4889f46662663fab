"""Labels of log axes in a browser."""

from __future__ import annotations

import json

import pytest
from plotly.offline import get_plotlyjs

from apviz.plots._axes import log_ticks


@pytest.fixture(scope="module")
def tab(browser):
    tab = browser.new_page(viewport={"width": 700, "height": 500})
    tab.set_content("<div id='chart' style='height: 400px'></div>")
    tab.add_script_tag(content=get_plotlyjs())
    yield tab
    tab.close()


@pytest.mark.parametrize(
    ("lowest", "decades"),  # every two of four beginnings with every length
    [
        (lowest, decades)
        for place, decades in enumerate([0.2, 0.6, 0.8, 1.3, 1.8, 2.0, 4.5, 11.0])
        for lowest in [1.3e-5, 0.024, 7.0, 4e4][place % 2 :: 2]
    ],
)
def test_every_label_states_the_number_at_its_place(tab, lowest, decades):
    values = [lowest, lowest * 10**decades]
    axis = {"type": "log", **log_ticks(values)}
    labels = tab.evaluate(
        f"""async () => {{
            const gd = document.getElementById("chart");
            await Plotly.newPlot(gd, [{{y: {json.dumps(values)}}}], {{yaxis: {json.dumps(axis)}}});
            return [...gd.querySelectorAll(".ytick text")].map(each => [each.__data__.text, 10 ** each.__data__.x]);
        }}"""
    )
    assert 2 <= len(labels) <= 10
    for text, place in labels:
        number = text.replace("<sup>", "e").replace("</sup>", "").replace("\u2212", "-").replace("10e", "1e")
        assert float(number) == pytest.approx(place, rel=0.02), labels


def test_an_empty_chart_still_has_labels():
    assert log_ticks([]) == log_ticks([0.0, -1.0, float("nan")])
