"""The figure of lengthscales of trainings by Adam step."""

from __future__ import annotations

import re

import numpy as np
import pytest
import xarray as xr

from apviz import plots
from apviz.plots._style import THEMES
from apviz.tracing import TrainingTrace


@pytest.fixture
def many(trainings):
    """Return a training with twelve inputs, of which the last has the shortest lengthscale at the end."""
    tree = trainings["ap"].tree.copy(deep=True)
    steps = tree["step"].to_dataset().drop_vars("lengthscale")
    values = np.geomspace(1, 0.1, 6)[:, None] * np.arange(12, 0, -1)
    tree["step"].dataset = steps.assign(lengthscale=xr.Variable(("step", "input"), values, {"units": "input unit"}))
    return TrainingTrace(tree)


def test_every_input_is_a_line_on_a_log_axis_of_its_lengthscales(trainings):
    figure, steps = plots.lengthscales(trainings["ap"]), trainings["ap"]["step"]
    assert figure.layout.yaxis.type == "log"
    for each in figure.data:
        k = int(each.name.split()[1]) - 1
        np.testing.assert_array_equal(each.x, np.arange(1, 7))
        np.testing.assert_array_equal(each.y, steps["lengthscale"].values[:, k])
    assert {each.name for each in figure.data} == {"input 1", "input 2", "input 3"}


def test_one_lengthscale_for_all_inputs_is_named_so(trainings):
    (line,) = plots.lengthscales(trainings["one"]).data
    assert line.name == "all inputs"


def test_trainings_are_stacked_with_one_colour_per_input(trainings):
    figure = plots.lengthscales([trainings["ap"], trainings["cut"]])
    upper, lower = ({each.name: each.line.color for each in figure.data if each.yaxis == axis} for axis in ("y", "y2"))
    assert upper == lower and len(upper) == 3
    assert sum(bool(each.showlegend) for each in figure.data) == 3
    titles = [each.text for each in figure.layout.annotations]
    assert titles[0].endswith("6 steps") and "3 of 6 steps, unfinished, 3 not converged" in titles[1]


def test_the_progress_of_a_training_is_stated_below_its_title(trainings):
    title = plots.lengthscales(trainings["cut"]).layout.title.text
    assert "3 of 6 steps, unfinished" in " ".join(re.sub("<[^>]*>", " ", title).split())


def test_the_eight_shortest_final_lengthscales_have_colours_and_the_others_are_counted(many):
    figure = plots.lengthscales(many)
    shown = sorted((each for each in figure.data if each.showlegend), key=lambda each: each.legendrank)
    assert [each.name for each in shown] == [f"input {k}" for k in range(12, 4, -1)]
    assert len({each.line.color for each in shown}) == 8
    grey = {each.name for each in figure.data if each.line.color == THEMES["light"].muted}
    assert grey == {f"input {k}" for k in range(1, 5)}
    assert "grey: 4 other inputs" in figure.layout.title.text


def test_a_trace_of_one_solve_is_an_error(trainings, runs):
    with pytest.raises(ValueError, match=r"lengthscales draws traces of apviz.Training.* CG is of one solve"):
        plots.lengthscales([trainings["ap"], runs["cg"]])
