"""The estimator's drift is universal kriging: generalised least squares, by dense algebra in float64."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
from scipy.spatial.distance import cdist

import apviz
from apviz.gp.estimator.leave_one_out import leave_one_out
from tests.device import DEVICE
from tests.textbook import matern52

LENGTHSCALE, OUTPUTSCALE, NOISE = 200.0, 2.0, 0.1
RNG = np.random.default_rng(0)
X = RNG.uniform((0, 5_000), (900, 5_600), (120, 2))
Y = 40 + 0.03 * X[:, 0] - 0.002 * (X[:, 1] - 5_300) ** 2 / 9 + np.sin(X[:, 1] / 60) + 0.3 * RNG.standard_normal(120)
Z = RNG.uniform((-300, 4_900), (1_500, 5_700), (25, 2))
# Z's last point is far away, where the drift is most uncertain
Z[-1] = (4_000, 9_000)


def monomials(x: np.ndarray, degree: int) -> np.ndarray:
    a, b = ((x - (450, 5_300)) / 300).T
    return np.stack([a**0, a, b, a * a, a * b, b * b][: (degree + 1) * (degree + 2) // 2], 1)


def kernel(x: np.ndarray, z: np.ndarray) -> np.ndarray:
    return OUTPUTSCALE * matern52(cdist(x, z) / LENGTHSCALE)


def universal(x, y, z, degree: int = 1, noise=NOISE) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean and the covariance of universal kriging at z."""
    f, f_star = monomials(x, degree), monomials(z, degree)
    k, c = kernel(x, x) + noise * np.eye(len(x)), kernel(x, z)
    of_f, of_c = np.linalg.solve(k, f), np.linalg.solve(k, c)
    covariance = np.linalg.inv(f.T @ of_f)
    beta = covariance @ of_f.T @ y
    u = f_star - c.T @ of_f
    return f_star @ beta + of_c.T @ (y - f @ beta), kernel(z, z) - c.T @ of_c + u @ covariance @ u.T


def fitted(x=X, y=Y, drift: str | None = "linear", weights=None, **settings) -> apviz.GaussianProcess:
    h = apviz.Hyperparameters("matern52", (LENGTHSCALE,), OUTPUTSCALE, NOISE, 3.0)
    h = apviz.gp.Scaling.of(x, y).to_scaled(h)
    return apviz.GaussianProcess(hyperparameters=h, drift=drift, device=DEVICE, **settings).fit(x, y, weights)


@pytest.mark.parametrize(("drift", "degree"), [("constant", 0), ("linear", 1), ("quadratic", 2)])
def test_predictions_are_those_of_universal_kriging(drift, degree, tmp_path):
    gp, (mean, covariance) = fitted(drift=drift), universal(X, Y, Z, degree)
    gp.save(tmp_path / "gp.npz")
    for each in (gp, apviz.GaussianProcess.load(tmp_path / "gp.npz", device=DEVICE), pickle.loads(pickle.dumps(gp))):
        found, sd = each.predict(Z, return_std=True)
        np.testing.assert_allclose(found, mean, rtol=1e-7)
        np.testing.assert_allclose(sd, np.sqrt(np.diag(covariance)), rtol=1e-6)
    np.testing.assert_allclose(gp.predict(Z), mean, rtol=1e-7)
    np.testing.assert_allclose(gp.predict(Z, return_cov=True)[1], covariance, rtol=1e-5, atol=1e-6)
    noisy = gp.predict(Z, return_std=True, include_noise=True)[1]
    np.testing.assert_allclose(noisy**2, np.diag(covariance) + NOISE, rtol=1e-6)


def test_a_linear_drift_is_the_limit_of_a_linear_kernel_of_large_variance():
    gp, mean = fitted(), Y.mean()
    k = kernel(X, X) + 1e6 * monomials(X, 1) @ monomials(X, 1).T + NOISE * np.eye(len(X))
    c = kernel(X, Z) + 1e6 * monomials(X, 1) @ monomials(Z, 1).T
    prior = OUTPUTSCALE + 1e6 * np.square(monomials(Z, 1)).sum(1)
    found, sd = gp.predict(Z, return_std=True)
    np.testing.assert_allclose(found, mean + c.T @ np.linalg.solve(k, Y - mean), rtol=1e-5)
    np.testing.assert_allclose(sd**2, prior - np.sum(c * np.linalg.solve(k, c), 0), rtol=1e-4)


def test_equal_inputs_and_weights_move_predictions_as_repeated_rows_do():
    x, y = np.concatenate([X, X[:30]]), np.concatenate([Y, Y[:30] + 0.4])
    weights = RNG.integers(1, 4, len(x))
    gp = fitted(x, y, weights=weights)
    h = gp.scaling_.to_raw(gp.hyperparameters_)
    mean, covariance = universal(x, y, Z, noise=h.noise / weights)
    found, sd = gp.predict(Z, return_std=True)
    np.testing.assert_allclose(found, mean, rtol=1e-7)
    np.testing.assert_allclose(sd, np.sqrt(np.diag(covariance)), rtol=1e-6)


def test_leave_one_out_estimates_the_drift_again_without_each_row():
    found = leave_one_out(fitted(), 10)
    for row, target, mean, sd in zip(found.rows, found.target, found.mean, found.std, strict=True):
        others = np.arange(len(X)) != row
        expected, covariance = universal(X[others], Y[others], X[[row]])
        assert target == pytest.approx(Y[row])
        assert mean == pytest.approx(expected[0], rel=1e-6)
        assert sd == pytest.approx(np.sqrt(covariance[0, 0] + NOISE), rel=1e-5)


def test_samples_have_the_covariance_of_universal_kriging():
    few = Z[-3:]
    drawn = fitted().sample_y(few, 4_000)
    mean, covariance = universal(X, Y, few)
    sd = np.sqrt(np.diag(covariance))
    assert (np.abs(drawn.mean(1) - mean) < 4 * sd / np.sqrt(4_000)).all()
    np.testing.assert_allclose(np.cov(drawn) / np.outer(sd, sd), covariance / np.outer(sd, sd), atol=0.1)


def test_hyperparameters_are_trained_on_what_least_squares_leaves():
    f = monomials(X, 1)
    rest = Y - f @ np.linalg.lstsq(f, Y, rcond=None)[0]
    settings = {"scale": False, "ard": False, "max_steps": 8, "device": DEVICE}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours = apviz.GaussianProcess(drift="linear", **settings).fit(X, Y).hyperparameters_
        theirs = apviz.GaussianProcess(**settings).fit(X, rest).hyperparameters_
    for name in ("lengthscale", "outputscale", "noise"):
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=1e-3)


def test_the_stated_accuracy_holds_for_a_rough_solver():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gp = fitted(solver=apviz.ConjugateGradient(tol=0.05))
        mean, sd = gp.predict(Z, return_std=True)
    found, (expected, covariance) = gp.prediction_accuracy_, universal(X, Y, Z)
    exact = np.sqrt(np.diag(covariance))
    off = np.abs(mean - expected) / exact
    assert off.max() > 1e-4
    assert (off <= found.mean_errors + 1e-6).all()
    assert (np.abs(sd / exact - 1) <= found.sd_errors + 1e-6).all()


@pytest.mark.parametrize(
    ("drift", "y", "message"),
    [
        ("cubic", Y, "drift must be one of constant, linear, quadratic, or None, got 'cubic'"),
        (len, Y, "drift must be one of constant, linear, quadratic, or None"),
        ("linear", np.stack([Y, Y], 1), "drift must be None for several outputs"),
    ],
)
def test_other_drifts_and_several_outputs_are_refused(drift, y, message):
    with pytest.raises(ValueError, match=message):
        apviz.GaussianProcess(drift=drift, device=DEVICE).fit(X, y)


def test_a_model_with_a_drift_has_no_likelihood():
    with pytest.raises(ValueError, match="drift must be None for a likelihood"):
        fitted().log_marginal_likelihood()
