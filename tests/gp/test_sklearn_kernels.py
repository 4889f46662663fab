"""Kernels of scikit-learn keep their meaning: raw units, fixed numbers and bounds, checked against scikit-learn."""

from __future__ import annotations

import json
import warnings
from functools import reduce

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process import kernels as theirs

import apviz
from apviz.gp import Scaling
from apviz.gp.estimator import sklearn_kernels
from apviz.kernels import from_sklearn
from tests.device import DEVICE

EXACT = {"solver": apviz.Cholesky(tol=1e-8), "dtype": "float64", "device": DEVICE}


def leaf(rng, span, fixed, stationary):
    """Return a kernel of d columns with these spans."""
    d = len(span)
    lengths = (
        span * rng.uniform(0.3, 1.5, d) if d > 1 and rng.integers(2) else float(span.max() * rng.uniform(0.3, 1.5))
    )
    bounds = "fixed" if fixed else (1e-3 * span.min(), 1e3 * span.max())
    shape = "fixed" if rng.integers(2) else (1e-2, 1e2)
    made = [
        theirs.RBF(lengths, bounds), theirs.Matern(lengths, bounds, nu=1.5), theirs.Matern(lengths, bounds, nu=0.5),
        theirs.RationalQuadratic(float(span.max()), 0.8, bounds, shape), theirs.RBF(lengths, bounds) ** 2,
    ]  # fmt: skip
    if not stationary:
        power = int(rng.integers(1, 3))
        made.append(theirs.DotProduct(1.3 * float(span.max()), bounds) ** power * (0.2 / float(span.max()) ** 2))
    if d == 1:
        made.append(theirs.ExpSineSquared(0.9, 0.4 * float(span[0]), shape, bounds))
    return made[rng.integers(len(made))]


def case(seed, n=40, stationary=False):
    """Return a random sum of products with noise, and data in units from micrometres to megametres."""
    rng = np.random.default_rng(seed)
    span = 10.0 ** rng.uniform(-3, 3) * rng.uniform(1, 3, rng.integers(1, 3))
    x = span * (rng.uniform(0, 1, (n, len(span))) + rng.choice([0.0, 4.0]))
    unit = 10.0 ** rng.uniform(-1.5, 1.5)
    terms = [
        reduce(lambda a, b: a * b, [leaf(rng, span, rng.integers(3) == 0, stationary) for _ in range(factors)])
        for factors in rng.integers(1, 3, rng.integers(1, 3))
    ]
    kernel = theirs.ConstantKernel(unit**2, (1e-3 * unit**2, 1e3 * unit**2)) * reduce(lambda a, b: a + b, terms)
    kernel += theirs.WhiteKernel(0.05 * unit**2, "fixed" if seed % 5 == 0 else (1e-3 * unit**2, 10 * unit**2))
    y = unit * (np.sin(4 * x[:, 0] / span[0]) + 0.2 * rng.standard_normal(n) + 2.0)
    return x, y, x[:7] + 0.1 * span, kernel


def model_of(kernel, x, y):
    return GaussianProcessRegressor(kernel, alpha=0, optimizer=None).fit(x, y)


@pytest.mark.parametrize("seed", range(8))
def test_an_untrained_kernel_equals_that_of_scikit_learn_in_raw_and_scaled_units(seed):
    x, y, z, kernel = case(seed)
    model = model_of(kernel, x, y)
    mean, std = model.predict(z, return_std=True)
    mine, noise = from_sklearn(kernel, x.shape[1])
    h = apviz.Hyperparameters.of(mine, noise)
    given = [(h, False)]
    if "DotProduct" not in str(kernel):
        given.append((Scaling.of(x, y).to_scaled(h), True))
    for hyperparameters, scale in given:
        gp = apviz.GaussianProcess(hyperparameters=hyperparameters, scale=scale, **EXACT).fit(x, y)
        found, deviation = gp.predict(z, return_std=True, include_noise=True)
        np.testing.assert_allclose(found, mean, rtol=1e-6, atol=1e-6 * y.std())
        np.testing.assert_allclose(deviation, std, rtol=1e-5)
        assert gp.log_marginal_likelihood() == pytest.approx(model.log_marginal_likelihood_value_, abs=1e-5)


def respects_fixed_numbers_and_bounds(found, kernel):
    """Test whether fixed numbers equal those of the kernel and the others are within its bounds."""
    low, high = kernel.bounds.T
    within = (found.theta >= low - 1e-12) & (found.theta <= high + 1e-12)
    fixed = [each.name for each in kernel.hyperparameters if each.fixed]
    numbers = [(found.get_params()[name], kernel.get_params()[name]) for name in fixed]
    return within.all() and all(np.array_equal(*pair) for pair in numbers)


@pytest.mark.parametrize("seed", [*range(2), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 12))])
def test_a_trained_kernel_is_at_least_as_likely_as_that_of_scikit_learn_and_gives_its_model(seed):
    x, y, z, kernel = case(seed, stationary=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # numbers at their bounds
        model = GaussianProcessRegressor(kernel, alpha=0).fit(x, y)
        both = [apviz.GaussianProcess(kernel, scale=scale, **EXACT).fit(x, y) for scale in (True, False)]
    for gp in both:
        assert gp.log_marginal_likelihood() > model.log_marginal_likelihood_value_ - 0.05
        assert respects_fixed_numbers_and_bounds(gp.kernel_, kernel)
        shift = gp.scaling_.to_raw(gp.hyperparameters_).mean
        fitted = model_of(gp.kernel_, x, y - shift)
        mean, std = fitted.predict(z, return_std=True)
        found, deviation = gp.predict(z, return_std=True, include_noise=True)
        np.testing.assert_allclose(found, mean + shift, rtol=1e-5, atol=1e-5 * y.std())
        np.testing.assert_allclose(deviation, std, rtol=1e-5)
        theta = gp.theta_ + 0.1
        np.testing.assert_array_equal(gp.theta_, gp.kernel_.theta)
        expected, slopes = fitted.log_marginal_likelihood(theta, eval_gradient=True)
        value, gradient = gp.log_marginal_likelihood(theta, eval_gradient=True)
        assert value == pytest.approx(expected, rel=1e-6, abs=1e-4)
        np.testing.assert_allclose(gradient, slopes, rtol=1e-4, atol=1e-4 * np.abs(slopes).max())


# --- the kernel of the carbon dioxide example -------------------------------------------------------------------------


def months(n=300):
    rng = np.random.default_rng(0)
    t = (np.arange(n) / 12.0)[:, None]
    return t, 340 + 1.4 * t[:, 0] + 3 * np.sin(2 * np.pi * t[:, 0]) + 0.3 * rng.normal(size=n)


def yearly():
    seasons = theirs.RBF(100.0) * theirs.ExpSineSquared(1.0, 1.0, periodicity_bounds="fixed")
    return 50.0**2 * theirs.RBF(50.0) + 2.0**2 * seasons + theirs.WhiteKernel(0.1)


def test_a_fixed_period_stays_fixed_and_a_number_at_its_bound_is_reported():
    t, y = months(100)
    with pytest.warns(
        ConvergenceWarning,
        match=r"length_scale = 3 is at its upper bound: wider bounds may increase the likelihood",
    ):
        model = apviz.GaussianProcess(1.0 * theirs.RBF(2.0, (1.0, 3.0)) + theirs.WhiteKernel(0.1), **EXACT).fit(t, y)
    assert model.kernel_.k1.k2.length_scale == pytest.approx(3.0)
    gp = apviz.GaussianProcess(yearly(), **EXACT).fit(*months())
    assert gp.log_marginal_likelihood() > -94.26  # the value of scikit-learn, with the given y
    assert gp.kernel_.k1.k2.k2.k2.periodicity == 1.0 and respects_fixed_numbers_and_bounds(gp.kernel_, yearly())
    numbers = gp.hyperparameters_.kernel.numbers
    assert [value for name, value in numbers.items() if name.endswith("period")] == [1.0]


def test_adam_respects_fixed_numbers_and_bounds_too():
    t, y = months(60)
    kernel = theirs.ConstantKernel(100.0, "fixed") * theirs.RBF(5.0, (4.9, 5.1)) + theirs.ConstantKernel(
        4.0
    ) * theirs.ExpSineSquared(1.0, 1.0, periodicity_bounds="fixed")
    kernel += theirs.WhiteKernel(0.2, (0.15, 0.5))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        gp = apviz.GaussianProcess(kernel, optimiser="adam", max_steps=8, **EXACT).fit(t, y)
        fixed = apviz.GaussianProcess(
            kernel.set_params(k2__noise_level_bounds="fixed"), optimiser="adam", max_steps=3, **EXACT
        ).fit(t, y)
    assert respects_fixed_numbers_and_bounds(gp.kernel_, kernel.set_params(k2__noise_level_bounds=(0.15, 0.5)))
    assert fixed.hyperparameters_.noise * fixed.scaling_.std**2 == pytest.approx(0.2, rel=1e-14)
    path = gp.trace_["step"]["kernel_number"]
    assert (path == path[0]).all("step").values.tolist() == [True, False, False, False, True]
    assert len(np.unique(gp.trace_["step"]["noise"])) > 3  # until it reaches its bound


def test_several_white_kernels_become_one_noise_within_the_sum_of_their_bounds():
    t, y = months(60)
    kernel = 300.0 * theirs.RBF(3.0) + theirs.WhiteKernel(0.3, "fixed") + theirs.WhiteKernel(0.1, (0.05, 0.2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        gp = apviz.GaussianProcess(kernel, **EXACT).fit(t, y)
    assert gp.hyperparameters_.noise * gp.scaling_.std**2 == pytest.approx(
        gp.kernel_.k1.k2.noise_level + gp.kernel_.k2.noise_level
    )
    assert respects_fixed_numbers_and_bounds(gp.kernel_, kernel)


# --- files and traces -------------------------------------------------------------------------------------------------


def test_a_saved_model_keeps_the_kernel_of_the_user(tmp_path):
    t, y = months(60)
    kernel = yearly() + theirs.Matern([2.0], (1e-3, np.inf), nu=np.inf) ** 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        gp = apviz.GaussianProcess(kernel, max_steps=2, **EXACT).fit(t, y)
    gp.save(tmp_path / "gp.npz")
    loaded = apviz.GaussianProcess.load(tmp_path / "gp.npz", device=DEVICE)
    for mine, other in ((loaded.kernel, kernel), (loaded.kernel_, gp.kernel_)):
        np.testing.assert_allclose(mine.theta, other.theta, rtol=1e-14)
        np.testing.assert_array_equal(mine.bounds, other.bounds)
        assert [each.fixed for each in mine.hyperparameters] == [each.fixed for each in other.hyperparameters]
    np.testing.assert_array_equal(loaded.predict(t), gp.predict(t))


@pytest.mark.parametrize(
    "plain",
    [
        {"scikit-learn": "os.system", "command": "x"}, {"scikit-learn": "RBF", "command": 1.0},
        {"scikit-learn": "RBF", "length_scale": "exec"}, {"scikit-learn": "Sum", "k1": None, "k2": 1.0}, 3.0,
    ],
)  # fmt: skip
def test_an_invalid_kernel_in_a_file_is_rejected(plain):
    with pytest.raises(ValueError, match="scikit-learn kernel"):
        sklearn_kernels.from_plain(json.loads(json.dumps(plain)))


def test_a_training_with_other_bounds_is_another_training(tmp_path):
    t, y = months(30)
    for bounds in ((1e-2, 1.0), (1e-2, 2.0)):
        gp = apviz.GaussianProcess(
            300.0 * theirs.RBF(3.0) + theirs.WhiteKernel(0.1, bounds), path=tmp_path / "t.zarr", max_steps=2, **EXACT
        )
        if bounds[1] == 1.0:
            with pytest.warns(ConvergenceWarning):
                gp.fit(t, y)
        else:
            with pytest.raises(ValueError, match="belongs to another training: constraints was"):
                gp.fit(t, y)


def test_a_noise_fixed_at_zero_is_rejected():
    kernel = theirs.RBF() + theirs.WhiteKernel(0.0, "fixed")
    with pytest.raises(ValueError, match="WhiteKernel is fixed at noise_level = 0"):
        apviz.GaussianProcess(kernel, device=DEVICE).fit(*months(20))
