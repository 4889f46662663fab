"""Steps that play, and buttons that go one step."""

from __future__ import annotations

import pytest

pytest.importorskip("ipywidgets", reason="the widgets need ipywidgets: pip install 'apviz[notebook]'")

from apviz.widgets.controls import Stepper


def test_the_buttons_go_one_step_and_not_beyond_the_ends():
    stepper = Stepper("step", 2)
    seen = []
    for button in (stepper.back, stepper.on, stepper.on, stepper.on, stepper.back):
        button.click()
        seen.append(stepper.slider.value)
    assert seen == [0, 1, 2, 2, 1]


def test_it_plays_as_many_steps_a_second_as_its_speed_says():
    stepper = Stepper("step", 2, speed=2)
    assert stepper.player.interval == 500
    stepper.speed_slider().value = 8
    assert stepper.player.interval == 125
