"""Functions over few points, against NumPy in float64."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import apviz
from apviz.rkhs import Span


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


def test_the_interpolant_has_the_smallest_norm_of_all_functions_through_the_data():
    span, b = points(10)
    g = span.interpolant(b)
    np.testing.assert_allclose(span.gram @ g, b, atol=1e-10)
    # with one more point and any value there, the norm over the larger span is never smaller
    x = np.append(span.x[:, 0], 0.77)
    for value in (-1.0, 0.0, 2.0):
        larger = Span(x, span.kernel, span.noise)
        assert larger.norm(larger.interpolant(np.append(b, value))) >= span.norm(g) - 1e-12


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 1000), st.integers(2, 15), st.data())
def test_the_remainder_of_a_projection_is_orthogonal_to_the_block(seed, n, data):
    span, b = points(n, seed)
    block = data.draw(st.sets(st.integers(0, n - 1), min_size=1))
    g = span.interpolant(b)
    rest = g - span.project(g, sorted(block))
    for row in block:
        unit = np.zeros(n)
        unit[row] = 1
        assert abs(span.inner(rest, unit)) <= 1e-10 * span.norm(g) * span.norm(unit)


def test_values_away_from_the_points_use_the_kernel_without_noise():
    span, b = points(8)
    z = np.array([0.111, 0.5])
    np.testing.assert_allclose(span.values(b, z), matern52(z, span.x[:, 0]) @ b, atol=1e-12)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Span(np.zeros((0, 1)), apviz.Matern52(lengthscale=0.3), 0.1), "n up to 500"),
        (lambda: Span([0.0, np.nan], apviz.Matern52(lengthscale=0.3), 0.1), "x"),
        (lambda: Span([0.0, 1.0], apviz.Matern52(lengthscale=0.3), 0.0), "noise must be a positive number"),
    ],
)
def test_bad_input_raises_with_a_message(make, message):
    with pytest.raises(ValueError, match=message):
        make()
