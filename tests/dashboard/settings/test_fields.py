"""Fields that hold a setting as text."""

from __future__ import annotations

import pytest

pytest.importorskip("panel")

from apviz.dashboard.address import read, write
from apviz.dashboard.limits import Limits
from apviz.dashboard.settings.fields import Fields
from apviz.dashboard.settings.methods import BlockSizeSweep, MethodChoice, NoiseSweep
from apviz.dashboard.settings.system_choice import SystemChoice
from apviz.dashboard.settings.training import TrainingPlan


def field_of(model, name):
    """Return a field, the list of reported problems, and its group of fields."""
    told = []
    fields = Fields(lambda problems: told.append(list(problems)))
    return fields.add(model.param[name]), told, fields


@pytest.mark.parametrize(
    ("model", "name", "text", "reason"),
    [
        (MethodChoice, "block_sizes", "foo, -3", "use whole numbers above 0, separated by commas"),
        (MethodChoice, "ranks", "²", "use whole numbers above 0, separated by commas"),
        (MethodChoice, "tol", "0", "use a number above 0 and at most 1"),
        (MethodChoice, "tol", "", "use a number above 0 and at most 1"),
        (MethodChoice, "overlap", "1_0", "use a number from 0 to 4"),
        (MethodChoice, "max_epochs", "1.5", "use a whole number from 1 to 100,000"),
        (lambda: SystemChoice(Limits()), "n", "0", "use a whole number from 10 to 50,000"),
        (lambda: SystemChoice(Limits()), "noise", "-1", "use a finite number above 0"),
        (lambda: SystemChoice(Limits()), "noise", "nan", "use a finite number above 0"),
        (lambda: SystemChoice(Limits()), "lengthscale", "0.1, x", "the lengthscale must be one number"),
        (BlockSizeSweep, "sizes", "-5", "use whole numbers above 0, separated by commas"),
        (NoiseSweep, "below", "7", "use a number from 0 to 6"),
        (TrainingPlan, "steps", "many", "use a whole number from 1 to 1,000"),
    ],
)
def test_an_invalid_value_is_named_and_prevents_a_run(model, name, text, reason):
    owner = model()
    widget, told, fields = field_of(owner, name)
    assert fields.ready() and told == []
    good, before = widget.value, getattr(owner, name)
    widget.value = text
    (problem,) = told[-1]
    assert widget.label in problem and (text or "is empty") in problem and reason in problem
    assert widget.error_state and reason in widget.helper_text and widget.value == text
    assert not fields.ready() and not fields.ready(name) and fields.ready("another")
    assert getattr(owner, name) == before
    widget.value = good
    assert told[-1] == [] and fields.ready() and not widget.error_state


def test_a_field_that_is_not_on_the_page_prevents_nothing():
    widget, told, fields = field_of(SystemChoice(Limits()), "noise")
    widget.value = "-1"
    widget.visible = False
    assert fields.ready() and told[-1] == []
    widget.visible = True
    assert not fields.ready() and len(told[-1]) == 1


def test_a_setting_changed_elsewhere_is_shown_and_equivalent_text_stays():
    system = SystemChoice(Limits())
    widget, told, fields = field_of(system, "n")
    widget.value = "2,000"
    assert system.n == 2000 and widget.value == "2,000"
    system.n = 300
    assert widget.value == "300"
    widget.value = "-1"
    system.n = 400
    assert widget.value == "400" and fields.ready() and told[-1] == []


@pytest.mark.parametrize("value", [1e-9, 0.1 + 0.2, 12, 50_000, [3, 4]])
def test_a_shown_value_can_be_read_back(value):
    model, name = {float: (MethodChoice, "tol"), int: (TrainingPlan, "rank"), list: (MethodChoice, "ranks")}[
        type(value)
    ]
    assert read(write(value), model.param[name]) == value
    owner = model(**{name: value})
    widget, _, fields = field_of(owner, name)
    assert fields.ready() and getattr(owner, name) == value
    assert isinstance(value, list) or read(widget.value, owner.param[name]) == value
