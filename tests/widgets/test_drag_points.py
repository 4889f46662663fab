"""Points that are dragged: what the browser sends moves the controls, and nothing else does."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("ipywidgets", reason="the widgets need ipywidgets: pip install 'apviz[notebook]'")

import ipywidgets

from apviz.widgets import Angles, Projection
from apviz.widgets.chart import nearest_place


def drag(widget: Projection, point: int, x: float, y: float, number: int = 1) -> None:
    """What the browser sends while a pointer has a point."""
    widget.charts[1].set_state({"dragged": {"point": point, "x": x, "y": y, "drag": number}})


def shown(widget: Projection) -> dict:
    """What the browser draws of the points that can be dragged."""
    return json.loads(widget.charts[1].parts)["data"][widget.charts[1].drag_trace]


def at(widget: Projection, point: int) -> tuple[float, float]:
    return widget.value(f"x{point + 1}"), widget.value(f"b{point + 1}")


def test_a_dragged_point_moves_its_two_sliders_and_the_figures_follow_once():
    widget = Projection()
    drawn, before = [], [figure.to_json() for figure in widget.figures]
    others = {name: widget.value(name) for name in widget.controls if name not in {"x2", "b2"}}
    for chart in widget.charts:
        chart.observe(lambda change: drawn.append(change["owner"]), "parts")
    drag(widget, 1, 0.6349, -0.87)
    assert at(widget, 1) == (0.63, -0.9)
    assert {name: widget.value(name) for name in others} == others
    assert drawn == widget.charts  # each once
    assert all(figure.to_json() != one for figure, one in zip(widget.figures, before, strict=True))
    assert widget.trajectory.span.x[:, 0].tolist() == [0.2, 0.63, 0.75] and widget.trajectory.b.tolist() == [
        1.0,
        -0.9,
        1.2,
    ]


def test_points_are_where_the_sliders_are_whichever_of_the_two_was_moved():
    widget = Projection()
    for preset in widget.presets:
        widget.choose(preset)
        assert list(zip(shown(widget)["x"], shown(widget)["y"], strict=True)) == [at(widget, i) for i in range(3)]
    widget.controls["x3"].widget.value = 0.31
    assert shown(widget)["x"][2] == 0.31
    drag(widget, 2, 0.4, 0.2)
    assert (shown(widget)["x"][2], shown(widget)["y"][2]) == at(widget, 2) == (0.4, 0.2)
    # to the same place once more, after a reset between
    widget.reset()
    drag(widget, 2, 0.4, 0.2, number=2)
    assert at(widget, 2) == (0.4, 0.2)


@pytest.mark.parametrize(
    ("x", "y", "held"), [(7.0, 9.0, (1.0, 2.0)), (-0.3, -2.04, (0.0, -2.0)), (0.994, 1.96, (0.99, 2.0))]
)
def test_beyond_their_ends_sliders_stop(x, y, held):
    widget = Projection()
    drag(widget, 0, x, y)
    assert at(widget, 0) == held and (shown(widget)["x"][0], shown(widget)["y"][0]) == held


def test_python_tells_the_browser_of_no_drag_so_that_none_can_start_another():
    widget = Projection()
    sent = []
    widget.charts[1].observe(lambda change: sent.append(change["new"]), "dragged")
    drag(widget, 0, 0.5, 0.5)
    widget.controls["x1"].widget.value = 0.1
    widget.reset()
    assert [each["point"] for each in sent] == [0]


def test_places_of_a_slider_are_numbers_as_they_are_typed():
    slider = ipywidgets.FloatSlider(min=0.0, max=1.0, step=0.01)
    assert [nearest_place(slider, value) for value in (0.2899, 0.57499, 0.07000001)] == [0.29, 0.57, 0.07]
    assert nearest_place(ipywidgets.FloatSlider(min=-2.0, max=2.0, step=0.1), 0.3001) == 0.3


def test_there_is_nothing_to_drag_where_no_python_answers_nor_in_other_widgets():
    widget = Projection()
    widget.static_control = ""  # one state of each
    static = widget.static_figures()
    assert len(static[1]["data"]) == len(widget.figures[1].data) == widget.charts[1].drag_trace
    assert "drag" not in (json.dumps(static) + widget._static_heading()).lower()
    assert [chart.drag_trace for chart in widget.charts] == [-1, len(widget.figures[1].data), -1]
    assert {chart.drag_trace for chart in Angles().charts} == {-1}
