"""Angles between two blocks, and two blocks on a line: predicted and measured contraction, against SciPy."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg

import apviz
from apviz.rkhs import (
    Span,
    contraction,
    friedrichs_angle,
    principal_angles,
    principal_pair,
    sweeps_of,
    trajectory,
    trajectory_on,
    two_blocks,
    worst_case_rhs,
)


def system(points=5, distance=0.1, shared=0, lengthscale=0.3, noise=0.05):
    blocks = two_blocks(points, distance, shared)
    return Span(blocks.x, apviz.Matern52(lengthscale=lengthscale), noise), blocks


def projector(span, rows):
    basis = scipy.linalg.orth(span.factor[list(rows)].T)
    return np.eye(span.n) - basis @ basis.T


def points(n: int, seed: int = 0, noise: float = 0.01, lengthscale: float = 0.3) -> tuple[Span, np.ndarray]:
    draws = np.random.default_rng(seed)
    x = np.sort(draws.uniform(0, 1, n))
    return Span(x, apviz.Matern52(lengthscale=lengthscale), noise), np.sin(6 * x) + 0.1 * draws.standard_normal(n)


def test_principal_angles_equal_those_of_scipy():
    span, _ = points(10)
    ours = principal_angles(span, [0, 1, 2], [3, 4, 5, 6])
    theirs = scipy.linalg.subspace_angles(span.factor[[0, 1, 2]].T, span.factor[[3, 4, 5, 6]].T)
    np.testing.assert_allclose(ours, np.sort(theirs), atol=1e-7)


def test_shared_points_have_angle_zero_and_are_not_the_friedrichs_angle():
    span, _ = points(8)
    angles = principal_angles(span, [0, 1, 2, 3, 4], [3, 4, 5, 6, 7])
    assert (angles[:2] < 1e-6).all() and friedrichs_angle(span, [0, 1, 2, 3, 4], [3, 4, 5, 6, 7]) > 1e-3


def test_a_sweep_over_two_blocks_finally_contracts_by_cosine_squared():
    span, b = points(12, noise=0.05)
    steps = trajectory(span, b, blocks=2, rule="cyclic", steps=14)
    errors = steps.errors()
    measured = errors[12] / errors[10]
    assert measured == pytest.approx(contraction(span, *steps.blocks), rel=1e-3)


def test_no_sweep_after_the_first_contracts_less_than_predicted():
    span, b = points(12, seed=3)
    steps = trajectory(span, b, blocks=2, rule="cyclic", steps=12)
    errors = steps.errors()
    bound = contraction(span, *steps.blocks)
    assert (errors[3::2] <= bound * errors[1:-2:2] * (1 + 1e-9)).all()


@pytest.mark.parametrize("shared", [0, 1, 2, 5])
def test_the_blocks_contain_the_expected_points(shared):
    blocks = two_blocks(4, 0.3, shared)
    assert len(blocks.shared) == shared and set(blocks.first) | set(blocks.second) == set(range(8))
    gaps = np.diff(blocks.x)
    np.testing.assert_allclose(gaps, [0.1] * 3 + [0.3] + [0.1] * 3)


@pytest.mark.parametrize("shared", [0, 1, 2, 4])
@pytest.mark.parametrize("lengthscale", [0.1, 0.5])
def test_the_predicted_contraction_is_the_norm_of_two_successive_projections(shared, lengthscale):
    span, blocks = system(shared=shared, lengthscale=lengthscale)
    sweep = projector(span, blocks.second) @ projector(span, blocks.first)
    found = sweeps_of(trajectory_on(span, np.ones(span.n), (blocks.first, blocks.second), rule="cyclic", steps=10))
    # ‖(P₂P₁)ᵏ‖ = c²ᵏ⁻¹, the intersection being {0}
    cosine = np.sqrt(found.predicted)
    for k in (1, 2, 3):
        norm = np.linalg.norm(np.linalg.matrix_power(sweep, k), 2)
        assert norm == pytest.approx(cosine ** (2 * k - 1), rel=1e-6)
    angles = np.sort(
        scipy.linalg.subspace_angles(span.factor[list(blocks.first)].T, span.factor[list(blocks.second)].T)
    )
    assert friedrichs_angle(span, blocks.first, blocks.second) == pytest.approx(angles[shared], rel=1e-7)


@pytest.mark.parametrize("settings", [{}, {"shared": 2}, {"noise": 1.0}, {"lengthscale": 1.0}, {"distance": 0.6}])
def test_the_measured_contraction_tends_to_the_predicted_one_and_is_never_worse(settings):
    span, blocks = system(**settings)
    b = np.random.default_rng(1).standard_normal(span.n)
    found = sweeps_of(trajectory_on(span, b, (blocks.first, blocks.second), rule="cyclic", steps=60))
    assert found.measured == pytest.approx(found.predicted, rel=2e-3)
    above = found.errors > 1e-9 * found.errors[0]
    assert (found.errors[above] <= found.bound[above] * (1 + 1e-6)).all()
    assert (np.diff(found.errors[above]) <= 0).all()


@pytest.mark.parametrize("shared", [0, 2])
def test_the_worst_case_data_meet_the_bound_in_every_sweep(shared):
    span, blocks = system(shared=shared)
    b = worst_case_rhs(span, blocks.first, blocks.second)
    assert np.abs(b).max() == pytest.approx(1.0)
    found = sweeps_of(trajectory_on(span, b, (blocks.first, blocks.second), rule="cyclic", steps=10))
    above = found.errors > 1e-7 * found.errors[0]
    np.testing.assert_allclose(found.errors[above], found.bound[above], rtol=1e-5)


def test_the_pair_has_norm_1_lies_in_the_spans_and_meets_at_the_friedrichs_angle():
    span, blocks = system(shared=2)
    u, v = principal_pair(span, blocks.first, blocks.second)
    for weights, rows in ((u, blocks.first), (v, blocks.second)):
        outside = sorted(set(range(span.n)) - set(rows))
        assert np.abs(weights[outside]).max() < 1e-8 and weights @ span.gram @ weights == pytest.approx(1.0)
    assert u @ span.gram @ v == pytest.approx(np.cos(friedrichs_angle(span, blocks.first, blocks.second)), rel=1e-9)
    # both orthogonal to the intersection of the spans
    assert np.abs((span.gram @ np.column_stack([u, v]))[list(blocks.shared)]).max() < 1e-7


def test_distant_blocks_are_solved_in_one_sweep_without_a_measured_contraction():
    span, blocks = system(distance=100.0)
    found = sweeps_of(trajectory_on(span, np.ones(span.n), (blocks.first, blocks.second), rule="cyclic", steps=6))
    assert found.measured_at == 0 and np.isnan(found.measured) and found.errors[1] < 1e-9 * found.errors[0]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: two_blocks(0, 0.1), "points must be a whole number, at least 1"),
        (lambda: two_blocks(3, 0.0), "distance must be a positive distance"),
        (lambda: two_blocks(3, 0.1, 5), "shared must be a whole number, at least 0, at most 4"),
        (lambda: principal_pair(system()[0], range(10), range(5)), "neither set may contain the other"),
        (
            lambda: sweeps_of(trajectory_on(system()[0], np.ones(10), [range(4), range(4, 8), [8, 9]], steps=2)),
            "must be over two blocks",
        ),
        (
            lambda: sweeps_of(
                trajectory_on(system()[0], np.ones(10), [range(5), range(5, 10)], rule="random", steps=9, seed=1)
            ),
            "must be cyclic",
        ),
    ],
)
def test_bad_input_raises_with_a_message(make, message):
    with pytest.raises(ValueError, match=message):
        make()
