"""scikit-learn kernels of a user's own: trained and predicted with as by scikit-learn itself."""

import pickle

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Hyperparameter, Kernel, WhiteKernel

import apviz


class Cauchy(Kernel):
    """1/(1 + d²/ℓ²), written as scikit-learn's documentation says, without a gradient."""

    def __init__(self, length_scale=1.0, length_scale_bounds=(1e-3, 1e3)):
        self.length_scale, self.length_scale_bounds = length_scale, length_scale_bounds

    @property
    def hyperparameter_length_scale(self):
        return Hyperparameter("length_scale", "numeric", self.length_scale_bounds)

    def __call__(self, X, Y=None, eval_gradient=False):
        squares = cdist(X, X if Y is None else Y, "sqeuclidean")
        k = 1 / (1 + squares / self.length_scale**2)
        if not eval_gradient:
            return k
        slope = 2 * k**2 * squares / self.length_scale**2
        return k, slope[:, :, None] if not self.hyperparameter_length_scale.fixed else np.empty((*k.shape, 0))

    def diag(self, X):
        return np.ones(len(X))

    def is_stationary(self):
        return True


class Centred(Cauchy):
    """A function that depends on all rows."""

    def __call__(self, X, Y=None, eval_gradient=False):
        return super().__call__(X - X.mean(0), None if Y is None else Y - Y.mean(0))


class Lopsided(Cauchy):
    """A function that is not symmetric."""

    def __call__(self, X, Y=None, eval_gradient=False):
        return super().__call__(X, X if Y is None else Y + 0.1)


class Noisy(Cauchy):
    """A function with noise on the diagonal of k(X) alone, as of WhiteKernel."""

    def __call__(self, X, Y=None, eval_gradient=False):
        return super().__call__(X, Y) + (0.1 * np.eye(len(X)) if Y is None else 0.0)


class Louder(Cauchy):
    """A function whose diagonal is another one."""

    def diag(self, X):
        return np.full(len(X), 1.1)


class Loud(WhiteKernel):
    """Noise of somebody's own."""


def data(n=50):
    rng = np.random.default_rng(0)
    x = rng.uniform(size=(n, 2))
    return x, 3 * np.sin(5 * x[:, 0]) + x[:, 1] + 0.2 * rng.normal(size=n), rng.uniform(size=(6, 2))


def kernel(**settings):
    return 1.0 * Cauchy(0.7, **settings) + WhiteKernel(0.1)


def test_an_own_kernel_trains_to_the_likelihood_of_scikit_learn():
    x, y, z = data()
    gp = apviz.GaussianProcess(kernel()).fit(x, y)
    other = GaussianProcessRegressor(kernel()).fit(x, y - gp.scaling_.to_raw(gp.hyperparameters_).mean)
    assert gp.log_marginal_likelihood_value_ == pytest.approx(other.log_marginal_likelihood_value_, abs=1e-2)
    np.testing.assert_allclose(gp.theta_, other.kernel_.theta, atol=0.1)
    exact = GaussianProcessRegressor(gp.kernel_, optimizer=None)
    shift = gp.scaling_.to_raw(gp.hyperparameters_).mean
    mean, std = exact.fit(x, y - shift).predict(z, return_std=True)
    found, found_std = gp.predict(z, return_std=True, include_noise=True)
    np.testing.assert_allclose(found, mean + shift, rtol=1e-6)
    np.testing.assert_allclose(found_std, std, rtol=1e-6)


def test_the_gradient_by_differences_is_that_of_the_kernels_own_code():
    x, y, _ = data()
    gp = apviz.GaussianProcess(kernel(), scale=False).fit(x, y)
    other = GaussianProcessRegressor(gp.kernel_, optimizer=None).fit(x, y - gp.hyperparameters_.mean)
    theta = gp.theta_ + 0.3
    for mine, its in zip(*(each.log_marginal_likelihood(theta, True) for each in (gp, other)), strict=True):
        np.testing.assert_allclose(mine, its, rtol=1e-5)


def test_fixed_numbers_and_bounds_of_an_own_kernel_are_kept():
    x, y, _ = data()
    fixed = apviz.GaussianProcess(kernel(length_scale_bounds="fixed")).fit(x, y)
    assert fixed.kernel_.k1.k2.length_scale == 0.7
    with pytest.warns(UserWarning, match="length_scale = 0.1 is at its upper bound"):
        narrow = apviz.GaussianProcess(kernel(length_scale_bounds=(0.01, 0.1))).fit(x, y)
    assert narrow.kernel_.k1.k2.length_scale == pytest.approx(0.1)


def test_own_kernels_in_sums_and_products_with_others():
    x, y, z = data()
    mixed = ConstantKernel(2.0) * RBF(0.5) * Cauchy(1.0) + Cauchy(3.0) + WhiteKernel(0.1)
    gp = apviz.GaussianProcess(mixed, max_steps=4, scale=False)
    with pytest.warns(UserWarning, match="has not settled"):
        gp.fit(x, y)
    exact = GaussianProcessRegressor(gp.kernel_, optimizer=None).fit(x, y - gp.hyperparameters_.mean)
    np.testing.assert_allclose(gp.predict(z), exact.predict(z) + gp.hyperparameters_.mean, rtol=1e-6)


def test_a_model_with_an_own_kernel_is_pickled_but_not_saved(tmp_path):
    x, y, z = data()
    gp = apviz.GaussianProcess(kernel()).fit(x, y)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(gp)).predict(z), gp.predict(z))
    with pytest.raises(ValueError, match=r"Cauchy .* pickle"):
        gp.save(tmp_path / "model.npz")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("kind", "message"), [(Centred, "its own two rows alone"), (Lopsided, "is not symmetric")])
def test_functions_that_are_no_kernels_are_refused(kind, message):
    x, y, _ = data()
    with pytest.raises(ValueError, match=message):
        apviz.GaussianProcess(kind(0.5) + WhiteKernel(0.1)).fit(x, y)


@pytest.mark.parametrize("own", [Noisy(0.5), Louder(0.5), Cauchy(0.5) + Loud(0.1), 2.0 * Noisy(0.5)])
def test_noise_that_only_the_matrix_of_the_training_rows_has_is_refused(own):
    """scikit-learn adds it to K, and never between rows; apviz evaluates k(X, Y) only, and would lose it."""
    x, y, _ = data()
    with pytest.raises(ValueError, match=r"has another diagonal than k\(X, X\).* leave the noise to a WhiteKernel"):
        apviz.GaussianProcess(own + WhiteKernel(0.1)).fit(x, y)
