"""The geometry of few points, against NumPy and SciPy in float64."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st

import apviz
from apviz.rkhs import Span, contraction, error_by_eigenvector, friedrichs_angle, principal_angles, walk


def points(n: int, seed: int = 0, noise: float = 0.01, lengthscale: float = 0.3) -> tuple[Span, np.ndarray]:
    draws = np.random.default_rng(seed)
    x = np.sort(draws.uniform(0, 1, n))
    return Span(x, apviz.Matern52(lengthscale=lengthscale), noise), np.sin(6 * x) + 0.1 * draws.standard_normal(n)


def matern52(x: np.ndarray, z: np.ndarray, lengthscale: float = 0.3) -> np.ndarray:
    r = np.sqrt(5) * np.abs(x[:, None] - z[None]) / lengthscale
    return (1 + r + r**2 / 3) * np.exp(-r)


def test_the_rows_of_the_factor_have_the_inner_products_of_the_kernel_functions():
    span, _ = points(12)
    x = span.x[:, 0]
    np.testing.assert_allclose(span.factor @ span.factor.T, matern52(x, x) + 0.01 * np.eye(12), atol=1e-13)


def test_coordinates_and_weights_are_inverse_and_keep_inner_products():
    span, _ = points(9)
    v, w = np.random.default_rng(1).standard_normal((2, 9))
    np.testing.assert_allclose(span.weights_of(span.coordinates(v)), v, atol=1e-10)
    assert span.coordinates(v) @ span.coordinates(w) == pytest.approx(span.inner(v, w), rel=1e-12)


def test_the_interpolant_takes_the_data_and_no_function_that_does_has_a_smaller_norm():
    span, b = points(10)
    g = span.interpolant(b)
    np.testing.assert_allclose(span.gram @ g, b, atol=1e-10)
    # one more point, and any value there: the norm over the larger span is never smaller
    x = np.append(span.x[:, 0], 0.77)
    for value in (-1.0, 0.0, 2.0):
        larger = Span(x, span.kernel, span.noise)
        assert larger.norm(larger.interpolant(np.append(b, value))) >= span.norm(g) - 1e-12


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 1000), st.integers(2, 15), st.data())
def test_what_a_projection_leaves_is_at_right_angles_to_the_block(seed, n, data):
    span, b = points(n, seed)
    block = data.draw(st.sets(st.integers(0, n - 1), min_size=1))
    g = span.interpolant(b)
    rest = g - span.project(g, sorted(block))
    for row in block:
        unit = np.zeros(n)
        unit[row] = 1
        assert abs(span.inner(rest, unit)) <= 1e-10 * span.norm(g) * span.norm(unit)


def test_values_away_from_the_points_are_those_of_the_kernel_without_noise():
    span, b = points(8)
    z = np.array([0.111, 0.5])
    np.testing.assert_allclose(span.values(b, z), matern52(z, span.x[:, 0]) @ b, atol=1e-12)


def test_principal_angles_are_scipys():
    span, _ = points(10)
    ours = principal_angles(span, [0, 1, 2], [3, 4, 5, 6])
    theirs = scipy.linalg.subspace_angles(span.factor[[0, 1, 2]].T, span.factor[[3, 4, 5, 6]].T)
    np.testing.assert_allclose(ours, np.sort(theirs), atol=1e-7)


def test_shared_points_have_angle_zero_and_are_not_the_friedrichs_angle():
    span, _ = points(8)
    angles = principal_angles(span, [0, 1, 2, 3, 4], [3, 4, 5, 6, 7])
    assert (angles[:2] < 1e-6).all() and friedrichs_angle(span, [0, 1, 2, 3, 4], [3, 4, 5, 6, 7]) > 1e-3


def test_a_sweep_over_two_blocks_contracts_by_cosine_squared_in_the_end():
    span, b = points(12, noise=0.05)
    steps = walk(span, b, blocks=2, rule="cyclic", steps=14)
    errors = steps.errors()
    measured = errors[12] / errors[10]
    assert measured == pytest.approx(contraction(span, *steps.blocks), rel=1e-3)


def test_no_sweep_after_the_first_contracts_less_than_predicted():
    span, b = points(12, seed=3)
    steps = walk(span, b, blocks=2, rule="cyclic", steps=12)
    errors = steps.errors()
    bound = contraction(span, *steps.blocks)
    assert (errors[3::2] <= bound * errors[1:-2:2] * (1 + 1e-9)).all()


@pytest.mark.parametrize("rule", ["gauss-southwell", "cyclic", "random", "shuffled"])
def test_the_norm_in_h_never_rises_and_the_record_is_the_solvers(rule):
    span, b = points(15)
    found = walk(span, b, blocks=5, rule=rule, steps=30, seed=2)
    errors = found.errors()
    assert len(found.steps) == 31 and (np.diff(errors) <= 1e-12).all()
    # an update leaves the residual zero on the rows it solved
    for step in found.steps[1:]:
        assert np.abs(step.residual[list(found.blocks[step.block])]).max() < 1e-10


def test_the_euclidean_residual_may_rise_while_the_norm_in_h_falls():
    span, b = points(20, noise=1e-3, lengthscale=0.6)
    found = walk(span, b, blocks=5, rule="cyclic", steps=20)
    assert (np.diff(found.residual_norms()) > 0).any() and (np.diff(found.errors()) <= 1e-12).all()


def test_what_was_removed_is_what_its_block_had_on_offer():
    span, b = points(12)
    for step in walk(span, b, blocks=4, steps=10).steps[1:]:
        assert step.removed == pytest.approx(step.offers[step.block], rel=1e-6, abs=1e-13)


def test_an_overlapping_block_solves_on_more_points_than_its_share():
    span, b = points(16)
    found = walk(span, b, blocks=4, overlap=0.5, steps=8)
    assert all(len(block) == 6 for block in found.blocks)


def test_cg_ends_at_the_goal_after_as_many_steps_as_there_are_points():
    span, b = points(8, noise=0.1)
    found = walk(span, b, method="cg", steps=8)
    assert found.errors()[-1] < 1e-8 * found.errors()[0] and found.blocks == ()


def test_the_shares_of_the_eigenvectors_add_up_to_the_error_and_to_the_residual():
    span, b = points(10)
    found = walk(span, b, blocks=3, steps=9)
    split = error_by_eigenvector(found)
    np.testing.assert_allclose(split.error.sum(1), found.errors() ** 2, rtol=1e-7, atol=1e-14)
    np.testing.assert_allclose(split.residual.sum(1), found.residual_norms() ** 2, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Span(np.zeros((0, 1)), apviz.Matern52(lengthscale=0.3), 0.1), "n up to 500"),
        (lambda: Span([0.0, np.nan], apviz.Matern52(lengthscale=0.3), 0.1), "x"),
        (lambda: Span([0.0, 1.0], apviz.Matern52(lengthscale=0.3), 0.0), "noise must be a positive number"),
        (lambda: walk(*points(5), blocks=6), "blocks must be a whole number from 1 to 5"),
        (lambda: walk(points(5)[0], np.zeros(4)), r"b must be \(5,\)"),
    ],
)
def test_bad_input_gets_a_message(make, message):
    with pytest.raises(ValueError, match=message):
        make()
