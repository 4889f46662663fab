"""Controls: a slider over round numbers; steps that play, and buttons that go one step."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("ipywidgets", reason="the widgets need ipywidgets: pip install 'apviz[notebook]'")

from traitlets import TraitError

from apviz.widgets.controls import Stepper, log_slider


def test_the_buttons_go_one_step_and_not_beyond_the_ends():
    stepper = Stepper("step", 2)
    seen = []
    for button in (stepper.back, stepper.forward, stepper.forward, stepper.forward, stepper.back):
        button.click()
        seen.append(stepper.slider.value)
    assert seen == [0, 1, 2, 2, 1]


def test_it_plays_as_many_steps_a_second_as_its_speed_says():
    stepper = Stepper("step", 2, speed=2)
    assert stepper.player.interval == 500
    stepper.speed_slider().value = 8
    assert stepper.player.interval == 125


def test_its_numbers_are_evenly_spaced_on_a_log_scale_but_for_their_rounding():
    slider = log_slider("noise", 1e-3, 10)
    values = np.array([value for _, value in slider.options])
    assert len(values) == 41 and values[0] == 0.001 and values[-1] == 10
    np.testing.assert_allclose(np.log10(values), np.linspace(-3, 1, 41), atol=0.03)
    assert [label for label, _ in slider.options[:4]] == ["0.001", "0.0012", "0.0015", "0.002"]


def test_a_number_between_two_of_its_own_is_refused():
    slider = log_slider("noise", 0.01, 1, value=0.15)
    with pytest.raises(TraitError):
        slider.value = 0.151
    assert slider.value == 0.15


def test_an_end_that_is_no_round_number_gets_a_message():
    with pytest.raises(ValueError, match=r"noise from 0.07 to 1: an end must be one of 1, 1.2, .*, ×10ᵏ"):
        log_slider("noise", 0.07, 1)
