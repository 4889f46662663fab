"""Walks over blocks given point by point."""

from __future__ import annotations

import numpy as np
import pytest

import apviz
from apviz.rkhs import Span, walk, walk_on


def three(noise: float = 0.05) -> tuple[Span, np.ndarray]:
    return Span([0.1, 0.4, 0.8], apviz.Matern52(lengthscale=0.5), noise), np.array([1.0, -0.3, 0.6])


def test_each_update_solves_its_block_and_touches_no_other_weight():
    span, b = three()
    sets = [(0, 2), (1,)]
    found = walk_on(span, b, sets, rule="cyclic", steps=6)
    weights, residual = np.zeros(3), b.copy()
    for step in found.steps[1:]:
        rows = list(sets[step.block])
        weights[rows] += np.linalg.solve(span.gram[np.ix_(rows, rows)], residual[rows])
        residual = b - span.gram @ weights
        np.testing.assert_allclose(step.weights, weights, atol=1e-12)
    assert found.blocks == ((0, 2), (1,)) and [step.block for step in found.steps[1:]] == [0, 1] * 3


def test_blocks_in_the_order_of_the_points_walk_as_the_sequential_partition_does():
    span, b = three()
    given, sequential = walk_on(span, b, [(0, 1), (2,)], steps=8), walk(span, b, blocks=2, steps=8)
    np.testing.assert_allclose(
        [step.weights for step in given.steps], [step.weights for step in sequential.steps], atol=1e-12
    )


def test_blocks_that_share_a_point_both_solve_on_it():
    span, b = three()
    found = walk_on(span, b, [(0, 1), (1, 2)], rule="cyclic", steps=4)
    assert found.blocks == ((0, 1), (1, 2))
    for step in found.steps[1:]:
        assert np.abs(step.residual[list(found.blocks[step.block])]).max() < 1e-12


@pytest.mark.parametrize(
    ("sets", "message"),
    [
        ([(0, 1)], "sets of points that hold all from 0 to 2"),
        ([(0, 1), (2, 3)], "sets of points that hold all from 0 to 2"),
        ([(0, 1, 2), (1,)], "a point that no block before it holds"),
    ],
)
def test_blocks_that_are_none_get_a_message(sets, message):
    with pytest.raises(ValueError, match=message):
        walk_on(*three(), sets)
