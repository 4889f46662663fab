"""The player in Python: its traits, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("anywidget", reason="the widgets need anywidget: pip install 'apviz[notebook]'")

import traitlets

from apviz.widgets import ProjectionPlayer


def test_the_updates_equal_the_projections_by_numpy_and_converge_to_the_solution():
    widget = ProjectionPlayer(block_size=5, rule="cyclic", lengthscale=0.25)
    order = np.argsort(widget.given()["x"][:16])
    x, b = np.array(widget.given()["x"])[order], np.array(widget.data)[order]
    q = np.sqrt(5) * np.abs(x[:, None] - x) / 0.25
    gram = (1 + q + q**2 / 3) * np.exp(-q) + 0.01 * np.eye(16)
    weights, solution = np.zeros(16), np.linalg.solve(gram, b)
    errors = [solution @ gram @ solution]
    for number, step in enumerate(widget.trajectory.steps[1:]):
        rows = np.arange(16)[number % 4 * 5 :][:5]
        weights[rows] += np.linalg.solve(gram[np.ix_(rows, rows)], (b - gram @ weights)[rows])
        np.testing.assert_allclose(step.weights, weights, rtol=0, atol=1e-10 * np.abs(solution).max())
        errors.append((weights - solution) @ gram @ (weights - solution))
    assert len(errors) == 31 and (np.diff(errors) <= 1e-12).all() and errors[-1] < errors[0] / 4


@pytest.mark.parametrize(("size", "sizes"), [(5, [5, 5, 5, 1]), (4, [4] * 4), (20, [16])])
def test_blocks_own_the_chosen_number_of_points_and_the_last_the_remainder(size, sizes):
    player = ProjectionPlayer(points=16, block_size=size)
    assert [len(block) for block in player.trajectory.blocks] == sizes


def test_a_margin_contains_the_nearest_points_outside_a_block():
    with_margin = ProjectionPlayer(overlap=0.5).trajectory
    x = with_margin.span.x[:, 0]
    for number, block in enumerate(with_margin.blocks):
        owned = list(range(4 * number, 4 * number + 4))
        away = np.abs(x[:, None] - x[owned]).min(1)
        assert set(block) - set(owned) == set(np.argsort(np.where(away > 0, away, np.inf))[:2].tolist())


def test_adding_a_point_does_not_move_the_others():
    few, more = ProjectionPlayer(points=12).trajectory, ProjectionPlayer(points=13).trajectory
    assert len(set(more.span.x[:, 0]) - set(few.span.x[:, 0])) == 1
    pairs = set(zip(few.span.x[:, 0], few.b, strict=True))
    assert pairs < set(zip(more.span.x[:, 0], more.b, strict=True))


def test_given_data_are_used_and_invalid_ones_raise():
    widget = ProjectionPlayer(points=8)
    widget.data = [0.0] * 40
    assert all((step.weights == 0).all() for step in widget.trajectory.steps)
    for data in ([0.0] * 39, [3.0] + [0.0] * 39):
        with pytest.raises(traitlets.TraitError):
            widget.data = data
    with pytest.raises(ValueError, match="speeed is not a setting of ProjectionPlayer; there are points, data"):
        ProjectionPlayer(speeed=2)
