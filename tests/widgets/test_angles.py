"""The widget on angles in Python: traits, presets, and predicted and measured contraction against SciPy."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg

pytest.importorskip("anywidget", reason="the widgets need anywidget: pip install 'apviz[notebook]'")

from apviz.widgets import Angles


@pytest.mark.parametrize("preset", Angles.presets)
def test_the_last_sweep_contracts_by_the_friedrichs_angle(preset):
    widget = Angles()
    widget.choose(preset)
    trajectory, blocks = widget.trajectory, widget.blocks
    first, second = (
        scipy.linalg.cholesky(trajectory.span.gram, lower=True)[list(rows)].T for rows in trajectory.blocks
    )
    angle = np.sort(scipy.linalg.subspace_angles(first, second))[len(blocks.shared)]
    goal = np.linalg.solve(trajectory.span.gram, trajectory.b)
    gaps = np.array([step.weights - goal for step in trajectory.steps[::2]])
    errors = np.sqrt(np.einsum("ki,ij,kj->k", gaps, trajectory.span.gram, gaps))
    last = np.flatnonzero(errors > 1e-9 * errors[0])[-1]
    assert errors[last] / errors[last - 1] == pytest.approx(np.cos(angle) ** 2, rel=0.01)


def test_presets_differ_in_speed_as_described():
    left = {}
    widget = Angles()
    for preset in widget.presets:
        widget.choose(preset)
        left[preset] = widget.trajectory.errors()[2] / widget.trajectory.errors()[0]
    titles = list(left)
    assert left[titles[1]] < left[titles[0]] and left[titles[2]] < left[titles[0]]
    assert left["more noise: opens the angle"] < left["long lengthscale: a small angle"]


def test_every_overlap_leaves_each_block_at_least_one_point_of_its_own():
    widget = Angles(points=8, shared=14)
    widget.points = 3
    assert widget.shared == 4
    assert len(widget.trajectory.blocks) == 2 and all(len(block) == 5 for block in widget.trajectory.blocks)
    widget.shared = 20
    assert widget.shared == 4
