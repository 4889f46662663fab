"""The geometry of one projection, against NumPy in other coordinates."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st

import apviz
from apviz.rkhs import Span, step_geometry, trajectory_on

SETS = [[(0, 1), (2,)], [(0,), (1,), (2,)], [(0, 1), (1, 2)]]


def seen(seed: int, sets, number: int, rule="cyclic"):
    draws = np.random.default_rng(seed)
    span = Span(
        np.sort(draws.uniform(0, 1, 3)), apviz.Matern32(lengthscale=draws.uniform(0.1, 1)), 10 ** draws.uniform(-2, 0)
    )
    found = trajectory_on(span, draws.standard_normal(3), sets, rule=rule, steps=8)
    return step_geometry(found, min(number, len(found.steps) - 1))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 500), st.sampled_from(SETS), st.integers(1, 6))
def test_the_remainder_is_orthogonal_to_the_span_and_the_projection(seed, sets, number):
    geometry = seen(seed, sets, number)
    size = np.linalg.norm(geometry.goal)
    for point in geometry.block:
        kernel = geometry.kernels[point]
        assert abs(geometry.after @ kernel) <= 1e-10 * size * np.linalg.norm(kernel)
    assert abs(geometry.after @ geometry.projection) <= 1e-10 * size**2
    # Pythagoras
    parts = np.linalg.norm(geometry.projection) ** 2 + np.linalg.norm(geometry.after) ** 2
    assert parts == pytest.approx(np.linalg.norm(geometry.before) ** 2, rel=1e-9, abs=1e-18 * size**2)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 500), st.sampled_from(SETS))
def test_lengths_and_angles_agree_with_the_symmetric_square_root(seed, sets):
    # any other isometry of the span, here w ↦ K^½w, has the same geometry
    geometry = seen(seed, sets, 2)
    span = geometry.trajectory.span
    root = np.real(scipy.linalg.sqrtm(span.gram))
    before = root @ (geometry.trajectory.goal - geometry.trajectory.steps[1].weights)
    assert np.linalg.norm(geometry.before) == pytest.approx(np.linalg.norm(before), rel=1e-7)
    rows = root[list(geometry.block)].T
    shadow = rows @ np.linalg.lstsq(rows, before, rcond=None)[0]
    cosine = np.linalg.norm(shadow) / np.linalg.norm(before)
    assert np.cos(geometry.angle_before) == pytest.approx(cosine, abs=1e-7)
    lengths = np.linalg.norm(root, axis=0)
    np.testing.assert_allclose(np.cos(geometry.kernel_angles), root.T @ root / np.outer(lengths, lengths), atol=1e-12)
    assert geometry.angle_after == pytest.approx(np.pi / 2, abs=1e-6)


def test_before_the_first_update_nothing_is_projected():
    geometry = seen(3, SETS[0], 0)
    assert geometry.block == () and np.isnan(geometry.angle_before) and not geometry.projection.any()
    np.testing.assert_array_equal(geometry.before, geometry.goal)


def test_a_residual_of_pure_rounding_has_no_angle():
    span = Span([0.0, 10.0, 20.0], apviz.RBF(lengthscale=0.1), 0.1)
    found = trajectory_on(span, np.ones(3), SETS[0], rule="cyclic", steps=4)
    assert np.isnan(step_geometry(found, 2).angle_after)


def test_an_invalid_step_raises():
    with pytest.raises(ValueError, match="number must be from 0 to 8, the steps of this trajectory, got 9"):
        step_geometry(seen(0, SETS[0], 1).trajectory, 9)
