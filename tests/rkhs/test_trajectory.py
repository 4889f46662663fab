"""Every state of a solve, with blocks by number and blocks of given points, against NumPy in float64."""

from __future__ import annotations

import numpy as np
import pytest

import apviz
from apviz.rkhs import Span, trajectory, trajectory_on


def points(n: int, seed: int = 0, noise: float = 0.01, lengthscale: float = 0.3) -> tuple[Span, np.ndarray]:
    draws = np.random.default_rng(seed)
    x = np.sort(draws.uniform(0, 1, n))
    return Span(x, apviz.Matern52(lengthscale=lengthscale), noise), np.sin(6 * x) + 0.1 * draws.standard_normal(n)


@pytest.mark.parametrize("rule", ["gauss-southwell", "cyclic", "random", "shuffled"])
def test_the_norm_in_h_never_rises_and_agrees_with_the_record_of_the_solver(rule):
    span, b = points(15)
    found = trajectory(span, b, blocks=5, rule=rule, steps=30, seed=2)
    errors = found.errors()
    assert len(found.steps) == 31 and (np.diff(errors) <= 1e-12).all()
    # an update leaves the residual zero on the rows it solved
    for step in found.steps[1:]:
        assert np.abs(step.residual[list(found.blocks[step.block])]).max() < 1e-10


def test_the_euclidean_residual_may_rise_while_the_norm_in_h_falls():
    span, b = points(20, noise=1e-3, lengthscale=0.6)
    found = trajectory(span, b, blocks=5, rule="cyclic", steps=20)
    assert (np.diff(found.residual_norms()) > 0).any() and (np.diff(found.errors()) <= 1e-12).all()


def test_the_removed_energy_equals_the_offer_of_its_block():
    span, b = points(12)
    for step in trajectory(span, b, blocks=4, steps=10).steps[1:]:
        assert step.energy_decrease == pytest.approx(step.decrease_per_block[step.block], rel=1e-6, abs=1e-13)


def test_an_overlapping_block_solves_on_more_points_than_its_share():
    span, b = points(16)
    found = trajectory(span, b, blocks=4, overlap=0.5, steps=8)
    assert all(len(block) == 6 for block in found.blocks)


def test_cg_reaches_the_solution_after_as_many_steps_as_points():
    span, b = points(8, noise=0.1)
    found = trajectory(span, b, method="cg", steps=8)
    assert found.errors()[-1] < 1e-8 * found.errors()[0] and found.blocks == ()


def three(noise: float = 0.05) -> tuple[Span, np.ndarray]:
    return Span([0.1, 0.4, 0.8], apviz.Matern52(lengthscale=0.5), noise), np.array([1.0, -0.3, 0.6])


def test_each_update_solves_its_block_and_touches_no_other_weight():
    span, b = three()
    sets = [(0, 2), (1,)]
    found = trajectory_on(span, b, sets, rule="cyclic", steps=6)
    weights, residual = np.zeros(3), b.copy()
    for step in found.steps[1:]:
        rows = list(sets[step.block])
        weights[rows] += np.linalg.solve(span.gram[np.ix_(rows, rows)], residual[rows])
        residual = b - span.gram @ weights
        np.testing.assert_allclose(step.weights, weights, atol=1e-12)
    assert found.blocks == ((0, 2), (1,)) and [step.block for step in found.steps[1:]] == [0, 1] * 3


def test_blocks_in_the_order_of_the_points_equal_the_sequential_partition():
    span, b = three()
    given, sequential = trajectory_on(span, b, [(0, 1), (2,)], steps=8), trajectory(span, b, blocks=2, steps=8)
    np.testing.assert_allclose(
        [step.weights for step in given.steps], [step.weights for step in sequential.steps], atol=1e-12
    )


def test_two_blocks_that_share_a_point_both_solve_on_it():
    span, b = three()
    found = trajectory_on(span, b, [(0, 1), (1, 2)], rule="cyclic", steps=4)
    assert found.blocks == ((0, 1), (1, 2))
    for step in found.steps[1:]:
        assert np.abs(step.residual[list(found.blocks[step.block])]).max() < 1e-12


@pytest.mark.parametrize(
    ("sets", "message"),
    [
        ([(0, 1)], "sets of points that hold all from 0 to 2"),
        ([(0, 1), (2, 3)], "sets must be points by their numbers from 0 to 2"),
        ([(0, 1, 2), (1,)], "a point that no earlier block has"),
    ],
)
def test_invalid_blocks_raise(sets, message):
    with pytest.raises(ValueError, match=message):
        trajectory_on(*three(), sets)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: trajectory(*points(5), blocks=6), "blocks must be a whole number, at least 1, at most 5"),
        (lambda: trajectory(points(5)[0], np.zeros(4)), r"b must be \(5,\)"),
    ],
)
def test_bad_input_raises_with_a_message(make, message):
    with pytest.raises(ValueError, match=message):
        make()
