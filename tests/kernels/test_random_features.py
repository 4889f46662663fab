"""Random features: their products estimate the kernel, and samples of white noise are consistent functions."""

import re

import numpy as np
import pytest
import scipy.stats
import torch
from scipy.spatial.distance import cdist

import apviz
from apviz import RBF, Constant, Linear, Matern12, Matern52, PiecewisePolynomial, Polynomial, RationalQuadratic, White
from tests.kernels.test_algebra import KERNELS, equal, inputs, rbf
from tests.textbook import CORRELATIONS


def wendland(x, z, q):
    """Return the kernel of three inputs by Rasmussen & Williams, equation 4.21: j = ⌊3/2⌋ + q + 1."""
    r, j = cdist(x, z), 2 + q
    left = np.maximum(1 - r, 0)
    return {
        0: left**j,
        1: left ** (j + 1) * ((j + 1) * r + 1),
        2: left ** (j + 2) * ((j * j + 4 * j + 3) * r**2 + (3 * j + 6) * r + 3) / 3,
    }[q]


#: kernels of three inputs, besides those of test_algebra: stationary ones with ARD, and those with a shape
ALL = {name: both for name, both in KERNELS.items() if name != "constant"} | {
    **{
        name: (
            apviz.kernels.kernel_named(name, (0.4, 0.9, 1.5), 1.7),
            lambda x, z, f=f: 1.7 * f(cdist(x / [0.4, 0.9, 1.5], z / [0.4, 0.9, 1.5])),
        )
        for name, f in CORRELATIONS.items()
    },
    "rational-quadratic, α = 0.3": (
        RationalQuadratic(alpha=0.3), lambda x, z: CORRELATIONS["rational-quadratic"](cdist(x, z), 0.3)
    ),
    **{f"piecewise, q = {q}": (PiecewisePolynomial(q=q), lambda x, z, q=q: wendland(x, z, q)) for q in (0, 1, 2)},
}  # fmt: skip
EXACT = ("linear", "polynomial", "cosine")


@pytest.mark.parametrize("name", ALL)
def test_products_of_features_estimate_the_kernel_with_errors_of_one_over_root_n(name):
    kernel, formula = ALL[name]
    x = inputs(40)
    expected = formula(x.numpy(), x.numpy())
    variance = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
    # RMS error of a term: cosines and sines of independent frequencies, and signs times features
    few, many = 500, 32_000
    errors = []
    for count in (few, many):
        found = [kernel.random_features(x, count, seed=seed)(x).numpy() for seed in range(3)]
        errors.append(np.sqrt(np.mean([((f @ f.T - expected) / variance) ** 2 for f in found])))
    if name in EXACT:
        assert max(errors) < 1e-14
    else:
        assert errors[0] < 2 / np.sqrt(few) and errors[1] < 2 / np.sqrt(many)


def test_frequencies_of_a_piecewise_polynomial_follow_its_fourier_transform():
    # for one input and q = 0, the kernel is 1 − |x| with spectral density (1 − cos ω)/(π ω²)
    drawn = PiecewisePolynomial(q=0).function(1).frequencies(1, 20_000, torch.Generator().manual_seed(0))
    grid = np.linspace(1e-6, 40, 400_001)
    density = (1 - np.cos(grid)) / (np.pi * grid**2)
    cumulated = 2 * np.concatenate([[0], np.cumsum((density[1:] + density[:-1]) / 2 * np.diff(grid))])
    drawn = np.abs(drawn[:, 0].numpy())
    below = [np.mean(drawn <= at) for at in (1.0, 3.0, 10.0, 40.0)]
    np.testing.assert_allclose(below, np.interp([1.0, 3.0, 10.0, 40.0], grid, cumulated), atol=0.015)


def test_features_in_chunks_and_in_float32_are_the_same_functions(monkeypatch):
    kernel, x = KERNELS["product of sums"][0], inputs(50)
    features = kernel.random_features(x, 301)
    weights = torch.randn(features.size, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    expected = features(x) @ weights
    monkeypatch.setattr("apviz.kernels.random_features.CHUNK_NUMBERS", 7 * features.size)
    torch.testing.assert_close(features.combined(x, weights), expected)
    torch.testing.assert_close(features.combined(x, weights.float()).double(), expected, atol=1e-4, rtol=0)


@pytest.mark.parametrize(
    ("kernel", "nearby"),
    [
        (Matern52(lengthscale=0.5), Matern52(lengthscale=0.5001)),
        (RationalQuadratic(alpha=0.7), RationalQuadratic(alpha=0.7001)),
        (RBF() * Linear() + Polynomial(degree=2), RBF(lengthscale=1.0001) * Linear() + Polynomial(degree=2)),
    ],
)
def test_features_of_one_seed_change_little_with_the_hyperparameters(kernel, nearby):
    x = inputs(30)
    one, other = (each.random_features(x, 200, seed=5)(x) for each in (kernel, nearby))
    assert 0 < (one - other).norm() < 0.01 * one.norm()
    assert (one - kernel.random_features(x, 200, seed=6)(x)).norm() > 0.5 * one.norm()


# --- white noise ------------------------------------------------------------------------------------------------------


def test_white_noise_is_normal_independent_between_different_inputs_and_the_same_at_equal_ones():
    x = torch.cat([inputs(2000), inputs(2000)])
    kernel = Constant(outputscale=2.0) + White(outputscale=0.3)
    features = kernel.random_features(x, 10)
    values = features.white(x, 5, seed=1).numpy()
    np.testing.assert_array_equal(values[:2000], values[2000:])
    np.testing.assert_array_equal(values[17:18], features.white(x[17:18], 5, seed=1))
    assert (values != features.white(x, 5, seed=2).numpy()).all()
    assert all(scipy.stats.kstest(values[:2000, draw] / np.sqrt(0.3), "norm").pvalue > 1e-3 for draw in range(5))
    assert np.abs(np.corrcoef(values[:2000].T) - np.eye(5)).max() < 0.1
    assert abs(np.corrcoef(values[:1999, 0], values[1:2000, 0])[0, 1]) < 0.1


def test_inputs_that_differ_in_the_last_digit_have_different_white_noise_and_negative_zero_is_zero():
    x = torch.tensor([[1.0], [1.0 + 1e-12], [0.0], [-0.0]], dtype=torch.float64)
    values = White().random_features(x, 1).white(x, 1, seed=1 << 60)[:, 0]
    assert values[0] != values[1] and values[2] == values[3]


def test_white_noise_times_a_kernel_has_its_variance_and_white_noise_alone_no_features():
    x = inputs(3)
    kernel = White(outputscale=0.5) * Linear()
    values = kernel.random_features(x, 10).white(x, 40_000, seed=0).numpy()
    expected = 0.5 * equal(x.numpy(), x.numpy()) * (x.numpy() @ x.numpy().T)
    np.testing.assert_allclose(values @ values.T / 40_000, expected, atol=0.05)
    assert kernel.random_features(x, 10)(x).shape == (3, 0)


# --- bad input --------------------------------------------------------------------------------------------------------


class Mine(RBF):
    def correlation_(self, u, spare):
        return u.add_(1).reciprocal_()


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (
            Mine(),
            "Mine has no method `frequencies`, from which functions are drawn: add one, as in apviz.Matern52",
        ),
        (RBF() + Mine() * Linear(), "Mine has no method `frequencies`"),
    ],
)
def test_a_kernel_of_unknown_spectrum_is_rejected_by_name(kernel, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        kernel.random_features(inputs(5), 10)


def test_a_piecewise_polynomial_of_many_columns_is_rejected_with_a_remedy():
    x = torch.rand(5, 13, dtype=torch.float64)
    with pytest.raises(ValueError, match=re.escape("for up to 12 columns, got 13: use a Matérn kernel, choose col")):
        PiecewisePolynomial().random_features(x, 10)


def test_zero_features_are_rejected():
    with pytest.raises(ValueError, match="count must be at least 1, got 0"):
        Matern12().random_features(inputs(5), 0)


def test_polynomials_with_more_products_than_features_use_random_products():
    x = inputs(30)
    features = Polynomial(degree=3).random_features(x, 20_000)(x).numpy()
    few = Polynomial(degree=3).random_features(x, 40)(x)
    expected = (x.numpy() @ x.numpy().T + 1) ** 3
    assert few.shape == (30, 40) and features.shape == (30, 64)
    np.testing.assert_allclose(features @ features.T, expected, atol=1e-10)
    mean = np.mean([(g @ g.T).numpy() for g in (Polynomial(degree=3).random_features(x, 40, seed=s)(x)
                                                for s in range(4000))], 0)  # fmt: skip
    np.testing.assert_allclose(mean, expected, atol=0.1 * np.abs(expected).max())


def test_a_product_of_two_stationary_kernels_has_sums_of_their_frequencies():
    x = inputs(25)
    kernel = RBF(lengthscale=0.6) * Matern12()
    features = kernel.random_features(x, 40_000)(x).numpy()
    expected = rbf(x.numpy(), x.numpy(), 0.6) * np.exp(-cdist(x, x))
    np.testing.assert_allclose(features @ features.T, expected, atol=0.03)
