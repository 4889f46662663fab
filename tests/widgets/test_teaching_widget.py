"""What every widget keeps to: each preset is a state that its controls can be in."""

from __future__ import annotations

import html
import re
from functools import lru_cache
from typing import Any

import pytest

pytest.importorskip("ipywidgets", reason="the widgets need ipywidgets: pip install 'apviz[notebook]'")

import ipywidgets

from apviz import widgets
from apviz.plots._style import THEMES
from apviz.widgets import ProjectionPlayer
from apviz.widgets.teaching_widget import TeachingWidget

WIDGETS = sorted(
    (each for each in vars(widgets).values() if isinstance(each, type) and issubclass(each, TeachingWidget)),
    key=lambda each: each.__name__,
)
PRESETS = [(each, preset) for each in WIDGETS for preset in each.presets]


def is_held(control: Any, value: Any) -> bool:
    """Whether a control in a browser can be at a value: a slider moves there to the nearest of its places."""
    if isinstance(control, ipywidgets.FloatLogSlider):
        return False  # its places are powers of its base, to be rounded before anyone reads them
    if isinstance(control, ipywidgets.IntSlider | ipywidgets.FloatSlider):
        steps = (value - control.min) / control.step
        return control.min <= value <= control.max and abs(steps - round(steps)) < 1e-9
    return True


@lru_cache
def made(kind: type[TeachingWidget]) -> TeachingWidget:
    """One widget of each kind."""
    return kind()


@pytest.mark.parametrize(("kind", "preset"), PRESETS, ids=[f"{kind.__name__}-{name}" for kind, name in PRESETS])
def test_a_preset_is_what_its_controls_hold_afterwards_and_says_what_it_sets(kind, preset):
    widget = made(kind)
    widget.choose(preset)
    words = html.unescape(widget._sets.value)
    if preset == next(iter(kind.presets)):
        assert "reset goes back" in words
    else:
        settings = kind.presets[preset].items()
        assert all(f"{widget.controls[name].widget.description} = {value}" in words for name, value in settings)
    wanted = next(iter(kind.presets.values())) | kind.presets[preset]
    assert {name: widget.value(name) for name in widget.controls} == wanted
    assert [name for name, value in wanted.items() if not is_held(widget.controls[name].widget, value)] == []


@pytest.mark.parametrize("kind", WIDGETS, ids=lambda kind: kind.__name__)
def test_there_are_presets_and_the_first_which_reset_goes_back_to_sets_every_control(kind):
    assert len(kind.presets) >= 3
    assert set(next(iter(kind.presets.values()))) == set(made(kind).controls)


def test_a_value_that_a_control_cannot_have_gets_a_message():
    with pytest.raises(ValueError, match=r"noise of ProjectionPlayer cannot be 0.011: it is one of 0.0001, .*, 1.0"):
        ProjectionPlayer(noise=0.011)
    with pytest.raises(ValueError, match="points of ProjectionPlayer cannot be 'many': "):
        ProjectionPlayer(points="many")


@pytest.mark.parametrize("kind", WIDGETS, ids=lambda kind: kind.__name__)
def test_every_control_is_explained_by_one_sentence_that_holds_a_formula(kind):
    for name, control in made(kind).controls.items():
        words = html.unescape(re.sub("<[^>]*>", "", control.explanation))
        assert re.search("[=≤≥<~∈]", words), f"{name} has no formula: {words}"
        assert words.endswith(".") and not re.search(r"[.?!]\s+[A-Z]", words), f"{name} is not one sentence: {words}"


@pytest.mark.parametrize("kind", WIDGETS, ids=lambda kind: kind.__name__)
def test_reset_goes_back_to_the_first_preset_and_draws_once(kind):
    widget = made(kind)
    first, second = list(kind.presets)[:2]
    widget.choose(first)
    before = [figure.to_json() for figure in widget.figures]
    widget._preset.value = second
    assert [figure.to_json() for figure in widget.figures] != before
    drawn = []
    for chart in widget.charts:
        chart.observe(lambda change: drawn.append(change["owner"]), "parts")
    widget.reset()
    assert [figure.to_json() for figure in widget.figures] == before
    assert widget._preset.value == first and len(drawn) == len(set(drawn))
    for chart in widget.charts:
        chart.unobserve_all("parts")


@pytest.mark.parametrize("kind", WIDGETS, ids=lambda kind: kind.__name__)
def test_the_theme_reaches_every_figure(kind):
    papers = {figure.layout.template.layout.paper_bgcolor for figure in kind(theme="dark").figures}
    assert papers == {THEMES["dark"].paper}
