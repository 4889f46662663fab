"""The widget on one projection in Python: its traits and presets, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("anywidget", reason="the widgets need anywidget: pip install 'apviz[notebook]'")

from apviz.rkhs import trajectory_on
from apviz.widgets import Projection
from apviz.widgets.projection import BLOCKS


@pytest.mark.parametrize("preset", Projection.presets)
def test_right_angles_are_exact_and_the_norm_in_h_never_rises(preset):
    widget = Projection()
    widget.choose(preset)
    x, b = np.array(widget.points), np.array(widget.data)
    q = np.sqrt(5) * np.abs(x[:, None] - x) / widget.lengthscale
    gram = (1 + q + q**2 / 3) * np.exp(-q) + widget.noise * np.eye(3)
    goal = np.linalg.solve(gram, b)
    size = np.sqrt(goal @ gram @ goal)
    before = size
    for step in widget.trajectory.steps[1:]:
        rest = goal - step.weights
        norm = np.sqrt(max(rest @ gram @ rest, 0.0))
        assert norm <= before + 1e-12 * size
        before = norm
        for point in BLOCKS[widget.blocks][step.block]:
            assert abs((gram @ rest)[point]) <= 1e-10 * size * np.sqrt(gram[point, point])


def test_the_preset_on_a_rising_euclidean_residual_has_one_at_its_first_step():
    widget = Projection()
    widget.choose("the Euclidean residual rises")
    norms = [np.linalg.norm(step.residual) for step in widget.trajectory.steps]
    assert norms[1] > norms[0]


def test_coinciding_points_and_data_of_zeros_are_accepted():
    widget = Projection(points=[0.5, 0.5, 0.5])
    widget.data = [0.0, 0.0, 0.0]
    assert not any(step.weights.any() for step in widget.trajectory.steps)


@pytest.mark.parametrize("rule", ["random", "shuffled"])
@pytest.mark.parametrize("blocks", ["{1, 2} {3}", "{1} {2} {3}"])
def test_the_browser_gets_the_blocks_that_a_solve_draws(rule, blocks):
    widget = Projection(rule=rule, blocks=blocks, lengthscale=1.0)
    drawn = widget.face["given"]["orders"][rule][str(len(BLOCKS[blocks]))]
    solved = trajectory_on(widget.trajectory.span, widget.data, BLOCKS[blocks], rule=rule, steps=12)
    assert drawn[:12] == [step.block for step in solved.steps[1:]] and len(drawn) == 20
