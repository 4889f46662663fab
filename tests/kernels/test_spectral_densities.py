"""Spectral densities: their Fourier transforms, by quadrature, are the correlations of the textbook."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import j0

import apviz
from apviz.kernels.radial import metrics_of
from tests.textbook import CORRELATIONS

#: means of exp(iωᵀδ) over directions, and areas of the unit sphere, by dimension
MEANS = {1: np.cos, 2: j0, 3: lambda z: np.sinc(z / np.pi)}
AREAS = {1: 2.0, 2: 2 * np.pi, 3: 4 * np.pi}


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("kernel", [apviz.Matern32, apviz.Matern52, apviz.RBF])
@pytest.mark.parametrize("lengthscale", [0.5, 2.0])
@pytest.mark.parametrize("r", [0.0, 0.3, 1.0])
def test_the_transform_of_the_density_is_the_correlation(kernel, d, lengthscale, r):
    (metric,) = metrics_of(kernel(lengthscale=lengthscale).lowered(d), d)
    # features are inputs in lengthscales, times the scale that the kernel's formula has
    distance = kernel.distance_scale * r / lengthscale

    def integrand(w):
        return float(metric.radial.density(np.array([w]))[0] * MEANS[d](w * distance) * w ** (d - 1))

    found = sum(quad(integrand, a, b, limit=500)[0] for a, b in [(1e-12, 5), (5, 50), (50, 2000)])
    assert found * AREAS[d] / (2 * np.pi) ** d == pytest.approx(
        float(CORRELATIONS[kernel().name](np.array(r / lengthscale))), abs=2e-4
    )


def test_a_kernel_without_a_density_says_which_has_one():
    function = apviz.PiecewisePolynomial().lowered(2).formula([2]).functions[0]
    with pytest.raises(ValueError, match="has no method `density`; add one, as in apviz.Matern52"):
        function.density(np.ones(3), 2)
