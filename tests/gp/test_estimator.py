"""The regressor like that of scikit-learn: kernels, fits that settle, samples, covariances, likelihoods."""

from __future__ import annotations

import io
import json
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from rich.console import Console
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process import kernels as theirs
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import apviz
from tests.device import DEVICE

GIVEN = apviz.Hyperparameters("matern52", (0.4, 0.9), 1.3, 0.05, 0.2)
SUM = 0.5 * apviz.Matern52(lengthscale=0.8).on(0) + apviz.Linear(lengthscale=1.5).on(1)


def data(n=90):
    """Return inputs in degrees Celsius and metres, and targets in euros."""
    rng = np.random.default_rng(2)
    x = np.column_stack([rng.uniform(-10, 30, n), rng.uniform(0, 4000, n)])
    y = 250_000 + 40_000 * np.sin(x[:, 0] / 8) + 10 * x[:, 1] + 4_000 * rng.standard_normal(n)
    return x, y


def scaled(x, y):
    low, high = x.min(0), x.max(0)
    return 2 * (x - low) / (high - low) - 1, (y - y.mean()) / y.std(ddof=1)


def regressor(**settings):
    return apviz.GaussianProcess(device=DEVICE, **settings)


POINTS = data(140)[0][90:] * 0.98


@pytest.fixture(scope="module")
def fitted():
    """Return a regressor fitted by default, which no test changes."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return regressor().fit(*data())


# --- kernels ----------------------------------------------------------------------------------------------------------


def test_all_parameters_of_an_apviz_kernel_are_trained_and_survive_clones_pickles_and_files(tmp_path):
    x, y = data()
    gp = regressor(kernel=SUM).fit(x, y)
    found = gp.hyperparameters_.kernel
    assert all(a != b for a, b in zip(found.numbers.values(), SUM.numbers.values(), strict=True))
    assert gp.score(x, y) > 0.9 and gp.trace_.attrs["kernel"] == repr(SUM)
    again = clone(gp).fit(x, y)
    np.testing.assert_allclose(again.predict(POINTS), gp.predict(POINTS), rtol=1e-12)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(gp)).predict(POINTS), gp.predict(POINTS))
    gp.save(tmp_path / "gp.npz")
    loaded = apviz.GaussianProcess.load(tmp_path / "gp.npz", device=DEVICE)
    assert loaded.kernel == SUM and loaded.hyperparameters_ == gp.hyperparameters_
    np.testing.assert_array_equal(loaded.predict(POINTS), gp.predict(POINTS))


def test_a_grid_search_accepts_kernels_of_every_kind():
    x, y = data()
    grid = {"kernel": ["rbf", SUM, theirs.RBF(1.0) + theirs.WhiteKernel(0.1)]}
    search = GridSearchCV(regressor(), grid, cv=2).fit(x, y)
    assert search.best_score_ > 0.8


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (3.0, r"kernel must be one of matern12, .*, or a kernel such as apviz.Matern52\(\), got 3.0"),
        (apviz.RBF().on(2), "the kernel takes column 2, the inputs have columns 0 to 1"),
        (theirs.ExpSineSquared(), "ExpSineSquared of 2 inputs"),
    ],
)
def test_an_unsuitable_kernel_is_rejected(kernel, message):
    with pytest.raises(ValueError, match=message):
        regressor(kernel=kernel).fit(*data())


# --- end of a fit -----------------------------------------------------------------------------------------------------


def test_a_fit_ends_without_warning_once_it_has_settled(fitted):
    assert fitted.trace_.outcome == "settled" and fitted.trace_["step"].sizes["step"] < 60
    assert fitted.posterior_.system.dtype is torch.float64


@pytest.mark.parametrize("optimiser", ["adam", "l-bfgs"])
def test_a_fit_that_ends_too_early_warns_with_a_remedy(optimiser):
    with pytest.warns(
        ConvergenceWarning,
        match=r"has not settled in 4 of at most 4 steps. The last 4 of 4 steps moved σ² .* Raise max_steps",
    ):
        regressor(optimiser=optimiser, max_steps=4).fit(*data())


def test_adam_settles_near_the_optimum(fitted):
    slow, exact = regressor(optimiser="adam", probes=50, max_steps=500).fit(*data()), fitted
    assert slow.trace_.outcome == "settled" and slow.trace_["step"].sizes["step"] < 400
    assert slow.log_marginal_likelihood() > exact.log_marginal_likelihood() - 3.0
    assert exact.log_marginal_likelihood() > slow.log_marginal_likelihood() - 0.05


def test_a_given_training_solver_is_used():
    x, y = data()
    with pytest.warns(ConvergenceWarning):
        gp = regressor(training_solver=apviz.ConjugateGradient(), max_steps=2).fit(x, y)
    assert gp.trace_.method_name == "CG"


LESS_WORK = {"stages": ((0.25, 3), (0.5, 2)), "max_epochs": 1, "trace_estimator": "pathwise"}


@pytest.mark.slow
def test_stages_and_a_budget_reduce_the_work_of_adam_and_predictions_use_all_rows():
    x, y = data(600)
    few = apviz.AlternatingProjection(block_size=50, tol=1e-3)
    how = {"training_solver": few, "optimiser": "adam", "max_steps": 6}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        whole, less = regressor(**how).fit(x, y), clone(regressor(**how, **LESS_WORK)).fit(x, y)
    work, usual = (gp.trace_["step"]["work"].values for gp in (less, whole))
    assert (work[:3] < usual[:3] / 16).all() and (work[3:5] < usual[3:5] / 4).all()
    assert (less.trace_["step"]["epochs"].values == 1).all() and (whole.trace_["step"]["epochs"].values > 1).all()
    assert json.loads(less.trace_.attrs["training_settings"])["estimator"] == "pathwise"
    assert less.posterior_.system.n == 600 and less.solution_.converged


class FirstStep(Exception):
    """The settings of a training, at its first step."""


class Settings(apviz.TrainingHook):
    def on_step(self, step, settings):
        raise FirstStep(settings)


@pytest.mark.parametrize(
    ("n", "given", "optimiser", "stages", "budget"),
    [
        (2_050, {}, "scoring", (), 1),
        (2_050, {"kernel": apviz.RBF() + apviz.Matern12()}, "adam", (), 1),
        (8_000, {}, "scoring", ((0.25, 6), (0.5, 3)), 1),
        (8_000, {"max_steps": 18}, "scoring", (), 1),
        (8_000, {"optimiser": "adam"}, "adam", ((0.25, 40), (0.5, 20)), 1),
        (2_050, {"stages": (), "max_epochs": None}, "scoring", (), None),
        (2_050, {"training_solver": apviz.ConjugateGradient()}, "scoring", (), None),
        (400, {"optimiser": "adam"}, "adam", (), None),
        (400, {}, "l-bfgs", (), None),
        (600, {"kernel": apviz.RBF() + apviz.Matern12()}, "l-bfgs", (), None),
        (600, {"training_solver": apviz.ConjugateGradient()}, "scoring", (), None),
    ],
)
def test_beyond_2000_rows_steps_are_by_scoring_of_an_epoch_and_from_8000_rows_most_use_fewer(
    n, given, optimiser, stages, budget
):
    with pytest.raises(FirstStep) as found:
        apviz.GaussianProcess(device="cpu", **given).fit(*data(n), hooks=[Settings()])
    (settings,) = found.value.args
    assert (settings.optimiser, settings.stages, settings.max_epochs) == (optimiser, stages, budget)


@pytest.mark.parametrize("given", [{}, {"dtype": "float32"}, {"stages": ((0.5, 5),), "max_epochs": 1}])
def test_between_500_and_2000_rows_scoring_takes_exact_steps_down_to_the_floor_of_float64(given):
    (x, y) = data(600)
    with pytest.raises(FirstStep) as found:
        apviz.GaussianProcess(device="cpu", **given).fit(x, y, hooks=[Settings()])
    (settings,) = found.value.args
    assert (settings.optimiser, settings.estimator, settings.stages) == ("scoring", "exact", ())
    assert settings.noise_floor == pytest.approx(1e-6, rel=0.01)  # the target is scaled to a variance of 1


def test_stages_and_a_budget_change_nothing_for_few_rows_which_are_factored(fitted):
    found = regressor(**LESS_WORK).fit(*data())
    assert found.hyperparameters_ == fitted.hyperparameters_ and found.trace_.method_name == "Cholesky"


def test_progress_shows_that_a_fit_may_end_before_its_last_step():
    text = io.StringIO()
    regressor().fit(*data(), hooks=[apviz.TrainingProgress(Console(file=text, width=200), every=5)])
    assert "L-BFGS: step 5 of at most 200, σ² = 0." in text.getvalue() and "at most" in text.getvalue()


def test_without_scaling_a_kernel_starts_from_the_targets_mean_and_variance():
    x, y = data()
    gp = regressor(kernel=apviz.Matern52(lengthscale=(10.0, 2000.0), outputscale=1e9), scale=False, noise_floor=1.0)
    gp.fit(x, y)
    assert gp.trace_.hyperparameters_at(1).mean == pytest.approx(y.mean())
    assert gp.trace_.hyperparameters_at(1).noise == pytest.approx(0.1 * y.var(ddof=1))
    assert gp.score(x, y) > 0.9


def test_restarts_never_find_a_lower_likelihood(fitted):
    assert fitted.n_restarts == 0
    more = regressor(n_restarts=2).fit(*data()).log_marginal_likelihood()
    assert more > fitted.log_marginal_likelihood() - 0.05


# --- predictions ------------------------------------------------------------------------------------------------------


def dense_posterior(x, y, points, h=GIVEN):
    """Return mean and covariance of f by dense algebra, in units of the target."""
    low, high = x.min(0), x.max(0)
    inputs, targets = scaled(x, y)
    kernel, z = h.build_kernel(), 2 * (points - low) / (high - low) - 1
    k, c, prior = (kernel(torch.tensor(a), torch.tensor(b)).numpy() for a, b in ((inputs, inputs), (inputs, z), (z, z)))
    solved = np.linalg.solve(k + h.noise * np.eye(len(x)), np.column_stack([targets - h.mean, c]))
    unit = y.std(ddof=1)
    return y.mean() + unit * (h.mean + c.T @ solved[:, 0]), unit**2 * (prior - c.T @ solved[:, 1:])


@pytest.mark.parametrize("noise", [False, True])
def test_the_covariance_agrees_with_dense_algebra_in_squared_units_of_the_target(noise):
    x, y = data()
    gp = regressor(hyperparameters=GIVEN).fit(x, y)
    mean, covariance = gp.predict(POINTS, return_cov=True, include_noise=noise)
    exact_mean, exact = dense_posterior(x, y, POINTS)
    exact += noise * GIVEN.noise * y.var(ddof=1) * np.eye(len(POINTS))
    np.testing.assert_allclose(mean, exact_mean, rtol=1e-9)
    np.testing.assert_allclose(covariance, exact, rtol=1e-6, atol=1e-6 * exact.max())
    _, std = gp.predict(POINTS, return_std=True, include_noise=noise)
    np.testing.assert_allclose(np.sqrt(np.diag(covariance)), std, rtol=1e-9)


def test_requesting_deviations_and_covariances_together_raises():
    gp = regressor(hyperparameters=GIVEN).fit(*data())
    with pytest.raises(RuntimeError, match="at most one of return_std and return_cov"):
        gp.predict(POINTS, return_std=True, return_cov=True)


@pytest.mark.parametrize("noise", [False, True])
def test_samples_have_the_mean_and_covariance_of_the_posterior(noise):
    x, y = data()
    gp, count = regressor(hyperparameters=GIVEN).fit(x, y), 4000
    samples = gp.sample_y(POINTS[:6], count, random_state=1, include_noise=noise)
    mean, covariance = dense_posterior(x, y, POINTS[:6])
    covariance += noise * GIVEN.noise * y.var(ddof=1) * np.eye(6)
    assert samples.shape == (6, count)
    deviation = np.sqrt(np.diag(covariance))
    assert (np.abs(samples.mean(1) - mean) < 4.5 * deviation / np.sqrt(count)).all()
    off = np.abs(np.cov(samples) - covariance) / np.outer(deviation, deviation)
    assert off.max() < 4.5 * np.sqrt(2 / count)


def test_samples_at_many_points_have_the_mean_and_deviation_of_the_posterior(monkeypatch):
    x, y = data()
    gp, count = regressor(hyperparameters=GIVEN).fit(x, y), 3000
    monkeypatch.setattr("apviz.gp.estimator.predictive.COVARIANCE_POINTS", 5)
    samples = gp.sample_y(POINTS[:6], count, random_state=1)
    mean, covariance = dense_posterior(x, y, POINTS[:6])
    deviation = np.sqrt(np.diag(covariance))
    assert (np.abs(samples.mean(1) - mean) < 5 * deviation / np.sqrt(count)).all()
    np.testing.assert_allclose(samples.std(1), deviation, rtol=0.15)


def test_the_same_random_state_draws_the_same_samples():
    gp = regressor(hyperparameters=GIVEN).fit(*data())
    first, again, other = (gp.sample_y(POINTS, 3, random_state=seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert not np.allclose(first, other)
    assert gp.sample_y(POINTS).shape == (50, 1)
    with pytest.raises(ValueError, match="n_samples must be a whole number, at least 1, got 0"):
        gp.sample_y(POINTS, 0)


# --- the likelihood ---------------------------------------------------------------------------------------------------


def test_the_log_marginal_likelihood_and_its_gradient_equal_those_of_scikit_learn_in_units_of_the_target():
    x, y = data()
    given = apviz.Hyperparameters("matern52", (0.4, 0.9), 1.3, 0.05)
    gp = regressor(hyperparameters=given).fit(x, y)
    assert gp.theta_names_ == ["noise", "outputscale", "lengthscale[0]", "lengthscale[1]"]
    np.testing.assert_allclose(np.exp(gp.theta_), [0.05, 1.3, 0.4, 0.9])
    kernel = theirs.ConstantKernel(1.3) * theirs.Matern([0.4, 0.9], nu=2.5) + theirs.WhiteKernel(0.05)
    model = GaussianProcessRegressor(kernel, alpha=0, optimizer=None).fit(*scaled(x, y))
    own_units = len(y) * np.log(y.std(ddof=1))
    assert gp.log_marginal_likelihood() == pytest.approx(model.log_marginal_likelihood_value_ - own_units, rel=1e-10)
    moved = gp.theta_ + np.array([0.3, -0.2, 0.1, 0.5])
    value, gradient = gp.log_marginal_likelihood(moved, eval_gradient=True)
    order = [1, 2, 3, 0]  # scikit-learn puts the noise last
    their_value, their_gradient = model.log_marginal_likelihood(moved[order], eval_gradient=True)
    assert value == pytest.approx(their_value - own_units, rel=1e-10) and gp.log_marginal_likelihood_error_ == 0.0
    np.testing.assert_allclose(gradient[order], their_gradient, rtol=1e-6)
    with pytest.raises(ValueError, match=r"theta must be 4 finite numbers \(noise, outputscale, .*\), got \[1.0\]"):
        gp.log_marginal_likelihood([1.0])


def test_the_likelihood_of_many_rows_is_an_estimate_with_a_stated_error(monkeypatch):
    x, y = data(400)
    gp = regressor(hyperparameters=GIVEN, solver=apviz.ConjugateGradient(), dtype="float64", probes=30).fit(x, y)
    exact = gp.log_marginal_likelihood()
    monkeypatch.setattr("apviz.gp.estimator.fitting.CHOLESKY_ROWS", 100)
    with pytest.warns(UserWarning, match=r"is an estimate with a standard error of \d.* nats from 30 probes"):
        value = gp.log_marginal_likelihood()
    assert 0 < gp.log_marginal_likelihood_error_ < 0.05 * abs(exact)
    assert abs(value - exact) < 4.5 * gp.log_marginal_likelihood_error_


# --- texts ------------------------------------------------------------------------------------------------------------


def table():
    x, y = data()
    frame = pd.DataFrame(x, columns=["celsius", "metres"])
    frame["city"] = np.where(x[:, 0] > 10, "Paris", "Oslo")
    return frame, y + 20_000 * (x[:, 0] > 10)


@pytest.mark.parametrize("kind", ["object", "category", "string"])
def test_an_error_about_a_column_of_texts_names_it_and_an_encoder(kind):
    frame, y = table()
    frame["city"] = frame["city"].astype(kind)
    message = r"column 'city' of X holds texts, such as '(Paris|Oslo)', .* sklearn.preprocessing.OneHotEncoder .*"
    with pytest.raises(ValueError, match=message + r"ColumnTransformer, .*\['city'\]"):
        regressor().fit(frame, y)
    with pytest.raises(ValueError, match=r"column 2 of X holds texts, .*\[2\]"):
        regressor().fit(frame.to_numpy(dtype=object), y)
    gp = regressor(hyperparameters=GIVEN).fit(frame[["celsius", "metres"]], y)
    with pytest.raises(ValueError, match="column 'metres' of X holds texts, such as 'high'"):
        gp.predict(frame[["celsius", "metres"]].assign(metres="high"))


@pytest.mark.parametrize("kind", ["dates", "zoned", "objects", "spans"])
def test_a_column_of_dates_among_numbers_is_rejected_by_name_and_accepted_as_days(kind):
    x, y = data()
    days = pd.Series(pd.date_range("2020-03-01", periods=len(x)))
    kinds = {"zoned": days.dt.tz_localize("UTC"), "objects": days.dt.date, "spans": days - pd.Timestamp("2020-02-29")}
    frame = pd.DataFrame({"celsius": x[:, 0], "day": kinds.get(kind, days)})
    with pytest.raises(
        ValueError, match="column 'day' of X holds dates or times, such as (2020-03-01|1 day).*days since"
    ):
        regressor().fit(frame, y)
    as_days = frame.assign(day=(days - days[0]).dt.days)
    assert np.isfinite(regressor(hyperparameters=GIVEN).fit(as_days, y).predict(as_days)).all()
    dates_alone = regressor(hyperparameters=apviz.Hyperparameters("rbf", (0.4,), 1.0, 0.1)).fit(days.to_frame(), y)
    assert np.isfinite(dates_alone.predict(days.to_frame())).all()


def test_the_fit_succeeds_with_the_named_encoder():
    frame, y = table()
    encoder = make_column_transformer((OneHotEncoder(sparse_output=False), ["city"]), remainder="passthrough")
    assert make_pipeline(encoder, regressor()).fit(frame, y).score(frame, y) > 0.9


def test_numbers_stored_as_texts_are_numbers():
    x, y = data()
    frame = pd.DataFrame(x).map(str)
    np.testing.assert_array_equal(
        regressor(hyperparameters=GIVEN).fit(frame, y).predict(x), regressor(hyperparameters=GIVEN).fit(x, y).predict(x)
    )


@pytest.mark.parametrize("scale", [True, False])
def test_hyperparameters_with_another_number_of_lengthscales_than_inputs_are_named(scale):
    h = apviz.Hyperparameters("matern52", (0.2, 0.3), 1.0, 0.1)
    with pytest.raises(ValueError, match="2 lengthscales were given for inputs with 3 columns"):
        apviz.GaussianProcess(hyperparameters=h, scale=scale).fit(np.ones((5, 3)) * np.arange(5)[:, None], np.arange(5))
