"""The figure of trainings by Adam step."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import apviz
from apviz import plots
from apviz.tracing import TrainingTrace


def drawn(figure, row, mode="lines+markers"):
    axis = "y" if row == 1 else f"y{row}"
    return [each for each in figure.data if (each.yaxis or "y") == axis and each.mode == mode]


def test_the_noise_is_above_the_epochs_on_one_axis_of_steps(trainings):
    figure, steps = plots.training(trainings["ap"]), trainings["ap"]["step"]
    for row, name in ((1, "noise"), (2, "epochs")):
        (curve,) = drawn(figure, row)
        np.testing.assert_array_equal(curve.x, np.arange(1, 7))
        np.testing.assert_array_equal(curve.y, steps[name].values)
    assert figure.layout.yaxis.type == "log" and figure.layout.yaxis2.type is None
    assert figure.layout.yaxis.domain[0] > figure.layout.yaxis2.domain[1]
    assert figure.layout.xaxis.matches == "x2"


def test_condition_numbers_have_a_panel_if_any_training_recorded_them(trainings):
    figure = plots.training([trainings["ap"], trainings["kappa"]])
    without, with_kappa = drawn(figure, 3)
    assert not np.isfinite(np.asarray(without.y, float)).any()
    np.testing.assert_array_equal(with_kappa.y, trainings["kappa"]["step"]["kappa"].values)
    assert "yaxis3" not in plots.training(trainings["ap"]).layout


def test_a_step_whose_solve_did_not_converge_is_a_cross_and_is_counted(trainings):
    figure = plots.training([trainings["ap"], trainings["cut"]])
    (crosses,) = drawn(figure, 2, mode="markers")
    np.testing.assert_array_equal(crosses.x, [1, 2, 3])
    assert crosses.marker.symbol == "x" and "not converged" in crosses.hovertemplate
    entries = [each.name for each in figure.data if each.showlegend]
    assert entries[0].endswith("6 steps") and entries[1].endswith("3 of 6 steps, unfinished, 3 not converged")


def test_the_hover_text_states_a_step_in_full_and_only_recorded_values(trainings):
    figure = plots.training([trainings["cg"], trainings["kappa"]])
    gradients, blocks = drawn(figure, 1)
    assert "iterations to residual" in gradients.hovertemplate and "epochs to residual" in blocks.hovertemplate
    assert "work" in gradients.text[0] and "κ" not in gradients.text[0]
    assert "κ = " in blocks.text[0] and "κ′ ≈ " in blocks.text[0]
    assert plots.training(trainings["kappa"]).layout.yaxis3.title.text.startswith("κ = ")
    steps = trainings["cg"]["step"]
    expected = np.column_stack([steps[name].values for name in ("step", "noise", "epochs", "residual")])
    np.testing.assert_array_equal(gradients.customdata, expected)


def test_a_method_has_the_same_colour_as_in_other_figures(trainings):
    for curve, run in zip(drawn(plots.training([trainings["ap"], trainings["cg"]]), 1), ("ap", "cg"), strict=True):
        assert curve.line.color == plots.method_color(trainings[run].method)


def test_a_trace_of_one_solve_is_an_error_that_says_how_to_draw_it(trainings, runs):
    with pytest.raises(ValueError, match=r"CG is of one solve. Leave it out, or draw it with apviz.plots.residuals"):
        plots.training([trainings["ap"], runs["cg"]])


def test_an_estimated_condition_number_of_a_step_is_marked(trainings):
    trace = TrainingTrace(trainings["kappa"].tree.copy(deep=True))
    # as in a trace without the method of its condition numbers
    del trace.tree["step"]["kappa"].attrs["is_estimate"]
    figure = plots.training([trainings["ap"], trace])
    assert figure.layout.yaxis3.title.text.startswith("κ ≈ ") and "κ ≈ " in drawn(figure, 1)[1].text[0]


def test_an_axis_of_few_epochs_labels_every_integer_once():
    x = torch.linspace(0, 1, 60)[:, None]
    solver = apviz.AlternatingProjection(block_size=20)
    settings = apviz.TrainingSettings(solver=solver, steps=2, probes=2, max_epochs=1)
    trained = apviz.Training(x, torch.sin(9 * x[:, 0]), settings, device="cpu")
    trained.run()
    axis = apviz.plots.training(trained.trace).layout.yaxis2
    assert axis.dtick == 1 and axis.tickformat == ",d"
