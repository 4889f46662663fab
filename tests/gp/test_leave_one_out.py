"""Leave-one-out predictions equal those of a model fitted to all other rows."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern

import apviz
from apviz.gp.estimator.leave_one_out import leave_one_out
from apviz.gp.prediction import neighbour_variances, variance_methods
from tests.device import DEVICE

SCALES, OUTPUTSCALE, NOISE = [2.0, 4.0], 9.0, 0.25
X = np.random.default_rng(0).uniform(0, 10, (60, 2))
Y = 50 + 3 * np.sin(X[:, 0]) + 0.5 * np.random.default_rng(1).standard_normal(60)


def fitted(**settings) -> apviz.GaussianProcess:
    h = apviz.Hyperparameters("matern52", tuple(SCALES), OUTPUTSCALE, NOISE, float(Y.mean()))
    return apviz.GaussianProcess(hyperparameters=h, scale=False, device=DEVICE, **settings).fit(X, Y)


def left_out(row: int) -> tuple[float, float]:
    """Return mean and deviation of an observation by scikit-learn, fitted without its row."""
    kernel, others = ConstantKernel(OUTPUTSCALE) * Matern(SCALES, nu=2.5), np.arange(60) != row
    gp = GaussianProcessRegressor(kernel, alpha=NOISE, optimizer=None).fit(X[others], Y[others] - Y.mean())
    mean, std = gp.predict(X[[row]], return_std=True)
    return mean[0] + Y.mean(), np.hypot(std[0], np.sqrt(NOISE))


def test_each_row_is_predicted_as_by_a_model_of_all_other_rows():
    found = leave_one_out(fitted(), 60)
    expected = np.array([left_out(row) for row in range(60)])
    np.testing.assert_array_equal(found.rows, np.arange(60))
    np.testing.assert_allclose(found.mean, expected[:, 0], rtol=1e-8)
    np.testing.assert_allclose(found.std, expected[:, 1], rtol=1e-8)
    error = Y - expected[:, 0]
    assert found.rmse == pytest.approx(np.sqrt(np.mean(error**2)))
    nats = 0.5 * np.log(2 * np.pi * expected[:, 1] ** 2) + 0.5 * (error / expected[:, 1]) ** 2
    assert found.negative_log_likelihood == pytest.approx(nats.mean())
    assert found.coverage(0.95) == np.mean(np.abs(error) <= 1.959964 * expected[:, 1])


def test_scaling_changes_no_left_out_prediction():
    raw = fitted().hyperparameters_
    scaled = apviz.gp.Scaling.of(X, Y).to_scaled(raw)
    gp = apviz.GaussianProcess(hyperparameters=scaled, device=DEVICE).fit(X, Y)
    one, other = leave_one_out(fitted(), 20, seed=3), leave_one_out(gp, 20, seed=3)
    np.testing.assert_array_equal(one.rows, other.rows)
    assert len(set(one.rows)) == 20
    np.testing.assert_allclose(one.mean, other.mean, rtol=1e-8)
    np.testing.assert_allclose(one.std, other.std, rtol=1e-8)


def test_an_unfinished_solve_makes_predictions_less_certain_and_warns():
    exact = leave_one_out(fitted(), 60)
    with pytest.warns(UserWarning):
        gp = fitted(solver=apviz.ConjugateGradient(tol=1e-12, max_epochs=3))
    with pytest.warns(UserWarning, match="the diagonal of K⁻¹ did not converge"):
        found = leave_one_out(gp, 60)
    assert (found.std >= exact.std * (1 - 1e-9)).all() and found.std.max() > exact.std.max()


def test_with_many_rows_the_near_ones_take_the_place_of_solves(monkeypatch):
    monkeypatch.setattr(variance_methods, "MANY_ROWS", 0)
    solves, expected = [], leave_one_out(fitted(), 30)

    class Seen(apviz.Hook):
        def on_epoch(self, epoch):
            solves.append(epoch)

    gp = fitted(solver=apviz.ConjugateGradient(tol=1e-12))
    found = leave_one_out(gp, 30, hooks=[Seen()])
    np.testing.assert_allclose(found.mean, expected.mean, rtol=1e-8)
    np.testing.assert_allclose(found.std, expected.std, rtol=1e-8)
    assert not solves


def test_rows_of_which_the_near_ones_do_not_settle_are_solved_for(monkeypatch):
    monkeypatch.setattr(variance_methods, "MANY_ROWS", 0)
    monkeypatch.setattr(neighbour_variances, "ROWS", (4,))
    expected = leave_one_out(fitted(), 30)
    found = leave_one_out(fitted(solver=apviz.ConjugateGradient(tol=1e-12)), 30)
    assert (found.std >= expected.std * (1 - 1e-6)).all()
    np.testing.assert_allclose(found.std, expected.std, rtol=0.03)
