"""What stands in place of a widget where there is no Python."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

pytest.importorskip("ipywidgets", reason="the widgets need ipywidgets: pip install 'apviz[notebook]'")

import ipywidgets
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from apviz import widgets
from apviz.plots._style import theme_named
from apviz.widgets.controls import Control
from apviz.widgets.static_export import MAX_CHARACTERS, STATIC, evenly_spaced, slider_figures
from apviz.widgets.teaching_widget import TeachingWidget

WIDGETS = sorted(
    (each for each in vars(widgets).values() if isinstance(each, type) and issubclass(each, TeachingWidget)),
    key=lambda each: each.__name__,
)


def merged(old: Any, new: Any) -> Any:
    """As plotly.js merges a frame into a figure: objects key by key, other lists as a whole."""
    if isinstance(new, dict):
        old = old if isinstance(old, dict) else {}
        return old | {key: merged(old.get(key), value) for key, value in new.items()}
    if isinstance(new, list) and new and isinstance(new[0], dict):
        old = old or []
        return [merged(old[i] if i < len(old) else None, each) for i, each in enumerate(new)] + old[len(new) :]
    return new


def at_frame(figure: dict[str, Any], name: str) -> dict[str, Any]:
    """The figure after its slider went to a frame, by way of all others."""
    data, layout = figure["data"], figure["layout"]
    for frame in [*figure["frames"], *[each for each in figure["frames"] if each["name"] == name]]:
        for number, trace in zip(frame["traces"], frame["data"], strict=True):
            data = [merged(each, trace) if i == number else each for i, each in enumerate(data)]
        layout = merged(layout, frame["layout"])
    return {"data": data, "layout": layout}


def differences(shown: Any, drawn: Any, where: str = "") -> list[str]:
    """Where a page shows something else than was drawn, but for rounding, and for null, which to plotly is nothing."""
    if isinstance(drawn, np.ndarray):
        drawn = drawn.tolist()
    if isinstance(drawn, dict) and isinstance(shown, dict):
        found = [f"{where}.{key} is too much" for key in shown if key not in drawn and shown[key] is not None]
        return found + [each for key in drawn for each in differences(shown.get(key), drawn[key], f"{where}.{key}")]
    if isinstance(drawn, list | tuple) and isinstance(shown, list) and len(shown) == len(drawn):
        pairs = enumerate(zip(shown, drawn, strict=True))
        return [each for i, (one, other) in pairs for each in differences(one, other, f"{where}[{i}]")]
    if isinstance(drawn, float) and isinstance(shown, float | int):
        return [] if abs(shown - drawn) <= 2e-3 * abs(drawn) else [f"{where}: {shown} for {drawn}"]
    equal = shown is None and not np.isfinite(drawn) if isinstance(drawn, float) else shown == drawn
    return [] if equal else [f"{where}: {shown!r} for {drawn!r}"]


def seen(layout: dict[str, Any]) -> dict[str, Any]:
    """A layout without slider and button, and the room they take, and without entries that are hidden."""
    kept = {key: value for key, value in layout.items() if key not in {"sliders", "updatemenus", "height", "margin"}}
    kept = {
        key: value for key, value in kept.items() if not (isinstance(value, dict) and value.get("autorange") is False)
    }
    for key in ("annotations", "shapes", "images"):
        entries = [each for each in kept.pop(key, None) or [] if each.get("visible") is not False]
        kept[key] = [{name: value for name, value in each.items() if name != "visible"} for each in entries]
    return kept


@pytest.mark.parametrize("kind", WIDGETS)
def test_static_figures_are_small_and_show_what_the_widget_draws_at_each_value_of_their_slider(kind, monkeypatch):
    monkeypatch.setattr("apviz.widgets.teaching_widget.MAX_STATES", 8)
    widget = kind()
    before = {name: widget.value(name) for name in widget.controls}
    figures = widget.static_figures()
    assert {name: widget.value(name) for name in widget.controls} == before
    assert len(figures) == len(widget.figures) and any(figure["frames"] for figure in figures)
    for figure in figures:
        assert len(json.dumps(figure, allow_nan=False)) <= MAX_CHARACTERS and len(figure["frames"]) <= 8
    names = [frame["name"] for frame in max((figure["frames"] for figure in figures), key=len)]
    for name, value in kind.static_values.items():
        widget.controls[name].widget.value = value
    for name in (names[0], names[len(names) // 3], names[-1]):
        widget.controls[kind.static_control].widget.value = int(name)
        for figure, drawn in zip(figures, widget.draw(), strict=True):
            shown = at_frame(figure, name)
            for trace, wanted in zip(shown["data"], drawn.data, strict=True):
                assert differences(trace, wanted.to_plotly_json()) == []
            assert differences(seen(shown["layout"]), seen(drawn.layout.to_plotly_json())) == []


class Steps(TeachingWidget):
    """A figure in space beside one in the plane, with annotations that come and go, and one that never changes."""

    title, text, static_control = "Steps", "For tests.", "step"
    presets = {"first": {"step": 2}}  # noqa: RUF012

    def make_controls(self):
        return {"step": Control(ipywidgets.IntSlider(description="step j", min=0, max=6), "Steps.")}

    def draw(self):
        step = self.value("step")
        figure = make_subplots(cols=2, specs=[[{"type": "scene"}, {"type": "xy"}]], subplot_titles=["space", "plane"])
        line = np.arange(step + 2.0)
        figure.add_scatter3d(x=line, y=line**2, z=np.sin(line), mode="lines", row=1, col=1)
        figure.add_scatter(x=line, y=-line, visible=step != 3, marker={"size": 5 + step}, row=1, col=2)
        for k in range(step):
            figure.add_annotation(text=f"mark {k} of {step}", x=k, y=-k, row=1, col=2)
        figure.update_layout(title_text=f"step {step}")
        return [figure, go.Figure(go.Scatter(y=[1.0, 2.0]))]


def test_frames_hold_what_changes_and_no_more():
    moving, resting = Steps().static_figures()
    assert [frame["name"] for frame in moving["frames"]] == list("0123456") and resting["frames"] == []
    frame = moving["frames"][3]
    assert frame["layout"]["title"]["text"] == "step 3" and "scene" not in frame["layout"]
    assert set(frame["data"][1]) == {"x", "y", "visible", "marker"}
    assert [each["visible"] for each in frame["layout"]["annotations"]] == [True] * 5 + [False] * 3
    # plotly chooses ranges once: here they hold all steps
    assert moving["layout"]["xaxis"]["range"] == pytest.approx([-0.42, 7.42])
    assert moving["layout"]["sliders"][0]["active"] == 2
    assert moving["layout"]["sliders"][0]["currentvalue"]["prefix"] == "step j: "


def test_states_are_thinned_out_evenly_and_keep_the_one_that_is_shown():
    assert evenly_spaced(5, 40, 2) == [0, 1, 2, 3, 4]
    thin = evenly_spaced(101, 40, 37)
    assert len(thin) == 40 and {0, 37, 100} <= set(thin) and max(np.diff(thin)) <= 5


def test_a_large_figure_has_fewer_frames_and_shorter_numbers():
    pictures = [[go.Figure(go.Heatmap(z=np.random.default_rng(k).normal(size=(120, 120))))] for k in range(30)]
    (figure,) = slider_figures(pictures, [str(k) for k in range(30)], 7, "step", theme_named("light"))
    assert len(json.dumps(figure)) <= MAX_CHARACTERS
    names = [frame["name"] for frame in figure["frames"]]
    assert names[0] == "0" and names[-1] == "29" and "7" in names and len(names) >= 5
    assert np.allclose(np.array(figure["data"][0]["z"]), pictures[7][0].data[0].z, rtol=6e-3)


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[tuple[dict, dict]]:
    found: list[tuple[dict, dict]] = []
    monkeypatch.setattr(
        "apviz.widgets.teaching_widget.publish_display_data",
        lambda data, metadata=None: found.append((data, metadata or {})),
    )
    return found


def test_a_notebook_gets_the_widget_and_after_it_outputs_that_need_no_python(shown, monkeypatch):
    monkeypatch.delenv("VSCODE_PID", raising=False)
    widget = Steps()
    widget._ipython_display_()
    assert "application/vnd.jupyter.widget-view+json" in shown[0][0] and shown[0][1] == {}
    assert [metadata[STATIC] for _, metadata in shown[1:]] == [widget.model_id] * 3
    assert "step j" in shown[1][0]["text/html"]
    assert [next(iter(data)) for data, _ in shown[2:]] == ["application/vnd.plotly.v1+json"] * 2


def test_vs_code_gets_one_output_with_widget_and_static_figures(shown, monkeypatch):
    monkeypatch.setenv("VSCODE_PID", "1")
    Steps()._ipython_display_()
    ((data, _),) = shown
    assert {"application/vnd.jupyter.widget-view+json", "text/html"} <= set(data)


def test_a_page_on_the_web_gets_static_figures():
    html = Steps()._repr_mimebundle_()["text/html"]
    assert html.count("Plotly.newPlot") == 2 and html.count("<script") >= 3 and "step j" in html


CHART = "document.querySelector('.js-plotly-plot')"
TEXTS = "[...document.querySelectorAll('.annotation-text')].map(each => each.textContent)"


@pytest.mark.slow
def test_in_a_browser_the_slider_shows_space_and_plane_as_drawn(browser, tmp_path):
    """The oracle of the others, in plotly.js itself."""
    import plotly.io

    widget = Steps()
    path = tmp_path / "page.html"
    path.write_text(plotly.io.to_html(widget.static_figures()[0], validate=False, auto_play=False), "utf-8")
    tab = browser.new_page()
    tab.goto(path.as_uri())
    tab.locator(".main-svg").first.wait_for()
    for name in ("6", "3", "0"):
        tab.evaluate(
            "name => Plotly.animate(document.querySelector('.js-plotly-plot'), [name], {frame: {duration: 0}})", name
        )
        tab.wait_for_function(
            "name => document.querySelector('.js-plotly-plot').layout.title.text === `step ${name}`", arg=name
        )
        widget.controls["step"].widget.value = int(name)
        drawn = widget.draw()[0]
        data = tab.evaluate(
            "document.querySelector('.js-plotly-plot')._fullData.map(each => [each.visible, each.x, each.z])"
        )
        assert differences(data[0][1:], [drawn.data[0].x, drawn.data[0].z]) == []
        assert data[1][0] is (name != "3")
        wanted = ["space", "plane", *(f"mark {k} of {name}" for k in range(int(name)))]
        tab.wait_for_function(f"wanted => String({TEXTS}) === String(wanted)", arg=wanted)
        assert tab.locator(".slider-label").first.text_content() == f"step j: {name}"
    tab.close()
