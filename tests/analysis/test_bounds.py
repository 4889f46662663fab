"""Bounds on errors: Theorem 1 and the bound of conjugate gradients."""

import math

import numpy as np
import pytest

from apviz.analysis.errors import conjugate_gradient_bound, conjugate_gradient_iterations, theorem_1


def test_the_curves_of_theory_start_at_their_constants_and_decay_at_their_rates():
    t = np.arange(4)
    np.testing.assert_allclose(theorem_1(t, 2.0), [1, math.e**-0.5, math.e**-1, math.e**-1.5])
    # κ = 9: (√κ − 1)/(√κ + 1) = 1/2, so a factor 1/4 an iteration on the squared norm
    np.testing.assert_allclose(conjugate_gradient_bound(t, 9.0), [4, 1, 1 / 4, 1 / 16])
    np.testing.assert_allclose(conjugate_gradient_bound(t, 1.0), [4, 0, 0, 0])


def test_textbook_conjugate_gradient_stays_below_its_bound():
    rng = np.random.default_rng(0)
    eigenvalues = np.geomspace(1, 400, 60)
    b, w = rng.standard_normal(60), np.zeros(60)
    r = p = b
    errors = [b @ (b / eigenvalues)]
    for _ in range(30):
        step = (r @ r) / (p @ (eigenvalues * p))
        w, r_next = w + step * p, r - step * eigenvalues * p
        p, r = r_next + (r_next @ r_next) / (r @ r) * p, r_next
        errors.append((w - b / eigenvalues) @ (eigenvalues * (w - b / eigenvalues)))
    assert (np.array(errors) <= errors[0] * conjugate_gradient_bound(np.arange(31), 400.0)).all()


@pytest.mark.parametrize("tol", [1e-1, 1e-3, 1e-6])
def test_textbook_conjugate_gradient_reaches_the_tolerance_within_the_iterations_of_its_bound(tol):
    rng = np.random.default_rng(0)
    kappa, b = 400.0, rng.standard_normal(60)
    eigenvalues = np.geomspace(1, kappa, 60)
    r = p = b
    iterations = 0
    while np.linalg.norm(r) > tol * np.linalg.norm(b):
        r_next = r - (r @ r) / (p @ (eigenvalues * p)) * eigenvalues * p
        p, r = r_next + (r_next @ r_next) / (r @ r) * p, r_next
        iterations += 1
    assert iterations <= conjugate_gradient_iterations(kappa, tol)
    # √κ = 20, and natural logarithms
    assert conjugate_gradient_iterations(kappa, tol) == pytest.approx(10 * math.log(40 / tol))
