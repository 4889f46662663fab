"""The regressor: against scikit-learn's Gaussian process, by scikit-learn's checks, and its errors."""

from __future__ import annotations

import pickle
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
import scipy.stats
import torch
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures
from sklearn.utils.estimator_checks import estimator_checks_generator, parametrize_with_checks

import apviz
from apviz.solvers import Solver
from apviz.solvers.state import EpochEnd, Updated
from tests.device import DEVICE

EXACT = {"solver": apviz.Cholesky(tol=1e-6), "dtype": "float64", "device": DEVICE}
ADAM = {**EXACT, "optimiser": "adam"}
GIVEN = apviz.Hyperparameters("matern52", (0.4, 0.9), 1.3, 0.05, 0.2)


def data(n=90):
    """Return data in raw units far from 1: inputs in degrees Celsius and metres, targets in euros."""
    rng = np.random.default_rng(2)
    x = np.column_stack([rng.uniform(-10, 30, n), rng.uniform(0, 4000, n)])
    y = 250_000 + 40_000 * np.sin(x[:, 0] / 8) + 10 * x[:, 1] + 4_000 * rng.standard_normal(n)
    return x, y


def held_out():
    return data(140)[0][90:] * 0.98


def fitted(n=90, **settings):
    return apviz.GaussianProcess(**{**EXACT, "hyperparameters": GIVEN, **settings}).fit(*data(n))


def oracle(x, y, x_star, h=GIVEN):
    """Return the mean and the deviations of y and f by scikit-learn, scaled by hand as in the paper."""
    low, high = x.min(0), x.max(0)
    mean, std = y.mean(), y.std(ddof=1)
    signal = ConstantKernel(h.outputscale) * Matern(h.lengthscale, nu=2.5)
    model = GaussianProcessRegressor(signal + WhiteKernel(h.noise), alpha=0, optimizer=None)
    model.fit(2 * (x - low) / (high - low) - 1, (y - mean) / std - h.mean)
    found, deviation = model.predict(2 * (x_star - low) / (high - low) - 1, return_std=True)
    return mean + std * (found + h.mean), std * deviation, std * np.sqrt(deviation**2 - h.noise)


class Interrupt(apviz.Hook):
    def on_start(self, run):
        raise KeyboardInterrupt


def test_an_interrupted_fit_keeps_the_model_and_the_names_of_its_inputs():
    x, y = data()
    frame = pd.DataFrame(x, columns=["degrees", "metres"])
    gp = fitted().fit(frame, y)
    swapped = frame[["metres", "degrees"]]
    with pytest.raises(KeyboardInterrupt):
        gp.fit(swapped, y, hooks=[Interrupt()])
    np.testing.assert_array_equal(gp.predict(frame[:5]), fitted().predict(x[:5]))
    with pytest.raises(ValueError, match="same order"):
        gp.predict(swapped[:5])


def test_predictions_at_given_hyperparameters_equal_those_of_scikit_learn_in_units_of_the_target():
    gp = fitted()
    mean, std, std_f = oracle(*data(), held_out())
    np.testing.assert_allclose(gp.predict(held_out()), mean, rtol=1e-9)
    for noise, expected in ((True, std), (False, std_f)):
        found_mean, found_std = gp.predict(held_out(), return_std=True, include_noise=noise)
        np.testing.assert_allclose(found_mean, mean, rtol=1e-9)
        np.testing.assert_allclose(found_std, expected, rtol=1e-7)
    assert gp.trace_ is None and gp.hyperparameters_ == GIVEN and gp.solution_.converged


def test_predictions_after_training_equal_those_of_scikit_learn_at_the_found_hyperparameters():
    gp = fitted(hyperparameters=None, max_steps=10)
    assert gp.trace_.finished and len(gp.hyperparameters_.lengthscale) == 2
    mean, std, _ = oracle(*data(), held_out(), gp.hyperparameters_)
    found_mean, found_std = gp.predict(held_out(), return_std=True, include_noise=True)
    np.testing.assert_allclose(found_mean, mean, rtol=1e-9)
    np.testing.assert_allclose(found_std, std, rtol=1e-7)


def test_the_default_solver_in_float32_predicts_as_well_as_an_exact_solve():
    gp, x, y = apviz.GaussianProcess(hyperparameters=GIVEN), *data()
    mean, std, _ = oracle(x, y, held_out())
    found_mean, found_std = gp.fit(x, y).predict(held_out(), return_std=True, include_noise=True)
    assert np.abs(found_mean - mean).max() < 0.02 * y.std()
    np.testing.assert_allclose(found_std, std, rtol=1e-2)


def test_lanczos_of_full_rank_gives_the_exact_deviations_and_a_small_rank_larger_ones():
    _, exact = fitted().predict(held_out(), return_std=True, include_noise=True)
    _, full = fitted(variance="lanczos").predict(held_out(), return_std=True, include_noise=True)
    _, small = fitted(variance="lanczos", rank=5).predict(held_out(), return_std=True, include_noise=True)
    np.testing.assert_allclose(full, exact, rtol=1e-6)
    assert (small >= exact * (1 - 1e-9)).all() and small.max() > 1.1 * exact.max()


def test_other_units_of_inputs_and_targets_change_only_the_units_of_predictions():
    x, y = data()
    settings = {**EXACT, "max_steps": 5}
    mean, std = apviz.GaussianProcess(**settings).fit(x, y).predict(held_out(), return_std=True, include_noise=True)
    other = apviz.GaussianProcess(**settings).fit(x * 1.8 + 32, -y / 1000 + 7)
    other_mean, other_std = other.predict(held_out() * 1.8 + 32, return_std=True, include_noise=True)
    np.testing.assert_allclose(other_mean, -mean / 1000 + 7, rtol=1e-6)
    np.testing.assert_allclose(other_std, std / 1000, rtol=1e-6)


def test_without_scaling_everything_is_in_raw_units():
    x, y = data()
    x, y = x / 1000, y / 1e5
    h = apviz.Hyperparameters("matern52", (0.01, 2.0), 0.5, 0.01, 2.5)
    gp = apviz.GaussianProcess(hyperparameters=h, scale=False, **EXACT).fit(x, y)
    k = apviz.Matern52(lengthscale=h.lengthscale, outputscale=h.outputscale)(torch.tensor(x)).numpy()
    weights = np.linalg.solve(k + h.noise * np.eye(len(x)), y - h.mean)
    np.testing.assert_allclose(gp.predict(x), k @ weights + h.mean, rtol=1e-8)


def test_an_input_that_does_not_vary_in_training_is_ignored():
    x, y = data()
    h = apviz.Hyperparameters("matern52", (0.4, 0.7, 0.9), 1.3, 0.05, 0.2)
    gp = apviz.GaussianProcess(hyperparameters=h, **EXACT).fit(np.insert(x, 1, 5.0, axis=1), y)
    points = np.insert(held_out(), 1, np.linspace(-1e6, 1e6, 50), axis=1)
    with pytest.warns(UserWarning, match="column 1 of X was 5 in all training rows; its other values are ignored"):
        found = gp.predict(points)
    np.testing.assert_allclose(found, fitted().predict(held_out()), rtol=1e-9)


def test_a_constant_target_is_predicted():
    gp = apviz.GaussianProcess(max_steps=2, **EXACT).fit(data()[0], np.full(90, 0.1))
    np.testing.assert_allclose(gp.predict(held_out()), 0.1, rtol=1e-4)


def test_the_score_is_r_squared_and_the_negative_log_likelihood_uses_the_predicted_normal():
    x, y = data(140)
    gp = fitted()
    mean, std = gp.predict(x[90:], return_std=True, include_noise=True)
    assert gp.score(x[90:], y[90:]) == pytest.approx(1 - ((y[90:] - mean) ** 2).sum() / y[90:].var() / 50)
    expected = -scipy.stats.norm.logpdf(y[90:], mean, std).mean()
    assert gp.negative_log_likelihood(x[90:], y[90:]) == pytest.approx(expected)


def test_frames_tensors_and_lists_give_the_same_predictions_and_names_are_kept():
    x, y = data()
    frame = pd.DataFrame(x, columns=["celsius", "metres"])
    gp = apviz.GaussianProcess(hyperparameters=GIVEN, **EXACT)
    expected = gp.fit(x, y).predict(held_out())
    assert not hasattr(gp, "feature_names_in_") and isinstance(expected, np.ndarray)
    for inputs, targets in ((torch.tensor(x, requires_grad=True), torch.tensor(y)), (x.tolist(), y.tolist())):
        np.testing.assert_array_equal(clone(gp).fit(inputs, targets).predict(held_out()), expected)
    gp.fit(frame, pd.Series(y))
    assert gp.feature_names_in_.tolist() == ["celsius", "metres"]
    points = pd.DataFrame(held_out(), columns=["celsius", "metres"])
    np.testing.assert_array_equal(gp.predict(points), expected)
    assert np.isfinite(gp.negative_log_likelihood(points, pd.Series(y[:50])))
    with pytest.raises(ValueError, match="feature names should match"):
        gp.predict(points.rename(columns={"metres": "feet"}))


def test_it_works_in_a_pipeline_and_in_a_grid_search():
    x, y = data()
    gp = apviz.GaussianProcess(max_steps=4, **EXACT)
    search = GridSearchCV(gp, {"kernel": ["matern12", "rbf"], "max_steps": np.array([2, 4])}, cv=2).fit(x, y)
    assert search.best_score_ > 0.5 and search.best_params_["kernel"] == "rbf"
    assert make_pipeline(PolynomialFeatures(2), gp).fit(x, y).score(x, y) > 0.9


LESS_WORK = {"stages": ((0.5, 5),), "max_epochs": 1, "trace_estimator": "pathwise"}


def expected_to_fail(estimator):
    """A weight says how precise a target is, and k repetitions say more: that k targets agree, so that σ² is small."""
    return {"check_sample_weight_equivalence_on_dense_data": "the likelihood of repeated targets has another noise"}


@parametrize_with_checks([apviz.GaussianProcess()], expected_failed_checks=expected_to_fail)
def test_the_estimator_checks_of_scikit_learn_pass(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(
    [apviz.GaussianProcess(max_steps=15, **ADAM), apviz.GaussianProcess(max_steps=15, **ADAM, **LESS_WORK)],
    expected_failed_checks=expected_to_fail,
)
def test_the_estimator_checks_pass_with_the_training_of_the_paper(estimator, check):
    check(estimator)


# the checks that read numbers: messages, tags, settings and copies of inputs are alike in both dtypes, and predictions
# of other orders and subsets must be equal to 1e-7, which float32 does not resolve
IN_FLOAT32 = (
    "check_dtype_object", "check_estimators_dtypes", "check_estimators_nan_inf", "check_estimators_pickle",
    "check_fit2d_1feature", "check_fit2d_1sample", "check_fit_idempotent", "check_regressors_int",
    "check_regressors_train", "check_sample_weights_list",
)  # fmt: skip


@pytest.mark.parametrize(
    ("estimator", "check"),
    [
        pytest.param(estimator, check, id=check.func.__name__)
        for estimator, check in estimator_checks_generator(
            apviz.GaussianProcess(max_steps=3, optimiser="adam", dtype="float32", trace_estimator="pathwise")
        )
        if check.func.__name__ in IN_FLOAT32
    ],
)
def test_the_estimator_checks_pass_in_float32(estimator, check):
    check(estimator)


class Watch(apviz.Hook):
    """Keeps the number of right-hand sides of each solve."""

    def __init__(self):
        self.columns = []

    def on_start(self, run):
        self.columns.append(run.system.b.shape[1])


class StopAt(Watch):
    """Stops the k-th solve, or raises in it."""

    def __init__(self, at, error=None):
        super().__init__()
        self.at, self.error = at, error

    def on_start(self, run):
        super().on_start(run)
        if len(self.columns) == self.at and self.error:
            raise self.error
        if len(self.columns) == self.at:
            run.request_stop("enough")


def test_hooks_are_told_about_every_solve_of_fit_and_of_the_deviations():
    watch, x, y = Watch(), *data()
    gp = apviz.GaussianProcess(max_steps=3, probes=7, **ADAM).fit(x, y, hooks=(hook for hook in [watch]))
    assert watch.columns == [8, 8, 8, 1]
    gp.predict(x[:5], return_std=True, hooks=[watch])
    assert watch.columns == [8, 8, 8, 1]  # the factor of the mean's solve needs no further solve
    watch.columns.clear()
    settings = {**ADAM, "solver": apviz.ConjugateGradient(tol=1e-8, max_epochs=200)}
    gp = apviz.GaussianProcess(max_steps=3, probes=7, **settings).fit(x, y, hooks=[watch])
    assert watch.columns == [8, 8, 8, 1]
    gp.predict(x[:5], hooks=[watch])
    gp.predict(x[:5], return_std=True, include_noise=True, hooks=[watch])
    gp.negative_log_likelihood(x[:6], y[:6], hooks=[watch])
    assert watch.columns == [8, 8, 8, 1, 5, 6]


def test_a_killed_fit_resumes_from_its_last_step_with_the_same_result(tmp_path):
    x, y = data()
    settings = {**ADAM, "max_steps": 5}
    gp = apviz.GaussianProcess(path=tmp_path / "t.zarr", **settings)
    with pytest.raises(KeyboardInterrupt):
        gp.fit(x, y, hooks=[StopAt(4, KeyboardInterrupt())])
    watch = Watch()
    gp = apviz.GaussianProcess(path=tmp_path / "t.zarr", **settings).fit(x, y, hooks=[watch])
    assert watch.columns == [16, 16, 1]
    whole = apviz.GaussianProcess(**settings).fit(x, y)
    assert gp.hyperparameters_ == whole.hyperparameters_
    assert apviz.open_trace(tmp_path / "t.zarr").finished
    with pytest.raises(ValueError, match="to another training: data was"):
        gp.fit(x + 1e3 * np.eye(90, 2), y)


@pytest.mark.slow
def test_a_training_stopped_by_a_hook_is_used_with_a_warning():
    x, y = data()
    gp = apviz.GaussianProcess(**{**EXACT, "solver": apviz.AlternatingProjection(block_size=30, tol=1e-6)}, max_steps=5)
    with pytest.warns(UserWarning, match="stopped by a hook after 2 of at most 5 steps"):
        gp.fit(x, y, hooks=[StopAt(3)])
    two_steps = clone(gp).set_params(max_steps=2).fit(x, y)
    assert gp.hyperparameters_ == two_steps.hyperparameters_ and not gp.trace_.finished


def test_an_unconverged_solve_for_the_mean_warns_with_numbers_and_never_looks_converged():
    solver = apviz.AlternatingProjection(block_size=10, tol=1e-9, max_epochs=1)
    with pytest.warns(
        UserWarning, match=r"the solve for the mean did not converge \(residual \d.*e.\d+ after 1 epochs"
    ):
        gp = fitted(solver=solver)
    assert not gp.solution_.converged and gp.solution_.residual > 1e-9
    with pytest.warns(UserWarning, match="the solve for the variances of rows 0 to 50 did not converge"):
        gp.predict(held_out(), return_std=True, include_noise=True)


@dataclass(frozen=True)
class Explodes(Solver):
    """A custom solver whose solves diverge."""

    name = "Explodes"
    label = "explodes"

    def epochs(self, prepared, state):
        state.w.fill_(torch.inf)
        state.r.fill_(torch.inf)
        yield Updated(-1, torch.zeros(state.b.shape[1], dtype=torch.float64))
        yield EpochEnd()


def test_a_solve_that_diverges_leaves_no_model():
    gp = apviz.GaussianProcess(hyperparameters=GIVEN, solver=Explodes())
    with pytest.warns(UserWarning), pytest.raises(RuntimeError, match="the solve for the mean diverged: .* more noise"):
        gp.fit(*data())
    with pytest.raises(ValueError, match="not fitted yet"):
        gp.save("model.npz")


def test_the_seed_may_be_a_random_state_or_none():
    x, y = data()
    noises = [
        apviz.GaussianProcess(max_steps=1, random_state=seed, **ADAM).fit(x, y).hyperparameters_
        for seed in (np.random.RandomState(1), np.random.RandomState(1), 3)
    ]
    assert noises[0] == noises[1]
    assert np.isfinite(apviz.GaussianProcess(max_steps=1, random_state=None, **ADAM).fit(x, y).predict(x)).all()


def test_a_pickle_contains_no_matrix_and_predicts_the_same():
    gp = fitted(n=140)
    written = pickle.dumps(gp)
    assert len(written) < 140 * 140 * 8 / 4
    again = pickle.loads(written)
    np.testing.assert_array_equal(again.predict(held_out()), gp.predict(held_out()))


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"kernel": "periodic"}, "kernel must be one of matern12, .*, got 'periodic'"),
        ({"ard": 2}, "ard must be True or False, got 2"),
        ({"scale": None}, "scale must be True or False, got None"),
        ({"solver": "cg"}, r"solver must be a solver, such as apviz.Automatic\(\), or None, got 'cg'"),
        ({"training_solver": 1}, r"training_solver must be a solver, such as apviz.Automatic\(\), or None, got 1"),
        ({"hyperparameters": 0.1}, "hyperparameters must be apviz.Hyperparameters, or None, got 0.1"),
        ({"max_steps": 0}, "max_steps must be a whole number, at least 1, got 0"),
        ({"stages": 3}, "stages must be pairs of a share of the rows, below 1, and a number of steps, .* got 3"),
        ({"stages": ((0.5, "many"),)}, "stages must be pairs"),
        ({"stages": ((0.5, 5),), "max_steps": 5}, "max_steps must be more than the 5 steps of the stages, got 5"),
        (
            {"stages": ((0.5, 5),), "max_steps": 9, "optimiser": "l-bfgs"},
            r"stages must be \(\), because exact steps use",
        ),
        (
            {"stages": ((0.5, 5),), "max_steps": 9, "trace_estimator": "exact"},
            r"stages must be \(\), because exact steps use",
        ),
        ({"max_epochs": 0}, "max_epochs must be a whole number, at least 1, got 0"),
        ({"trace_estimator": "best"}, "trace_estimator must be one of standard, pathwise, exact, got 'best'"),
        ({"variance": "exact"}, "variance must be one of solves, lanczos, neighbours, auto, got 'exact'"),
        ({"rank": 0}, "rank must be a whole number, at least 1, got 0"),
        ({"dtype": "float16"}, "dtype must be one of auto, float32, float64, got 'float16'"),
        ({"operator": "magic"}, "operator must be one of auto, dense, tiled, fourier, keops, .*, got 'magic'"),
        ({"random_state": -1}, "random_state must be a whole number, at least 0, at most 4611686018427387904, got -1"),
    ],
)
def test_fit_rejects_a_setting_out_of_range(setting, message):
    with pytest.raises(ValueError, match=message):
        apviz.GaussianProcess(**{**EXACT, "max_steps": 1, **setting}).fit(*data())


def test_bad_data_is_refused_before_any_work():
    x, y = data()
    gp = apviz.GaussianProcess(**EXACT)
    with pytest.raises(ValueError, match=r"0 sample\(s\) .* a minimum of 1 is required by GaussianProcess"):
        gp.fit(x[:0], y[:0])
    with pytest.raises(ValueError, match="contains NaN"):
        gp.fit(np.where(x > 20, np.nan, x), y)
    with pytest.raises(ValueError, match=r"different values of y, from 2.18e\+05 to 1e\+200, 2 are left in float64"):
        gp.fit(x, np.where(y > 250_000, 1e200, y))
    with pytest.raises(ValueError, match="X has 3 features, but GaussianProcess is expecting 2"):
        fitted().predict(np.ones((4, 3)))


@pytest.mark.filterwarnings("ignore:invalid value encountered in reduce")  # raised in a check of scikit-learn itself
@pytest.mark.parametrize("unit", [2.0**-700, 2.0**700])
def test_the_unit_of_the_target_only_scales_predictions(unit):
    x, y = data()
    gp, other = fitted(), apviz.GaussianProcess(hyperparameters=GIVEN, **EXACT).fit(x, y * unit)
    for mine, same in zip(
        gp.predict(x, return_std=True, include_noise=True),
        other.predict(x, return_std=True, include_noise=True),
        strict=True,
    ):
        np.testing.assert_array_equal(mine * unit, same)
    nats = gp.negative_log_likelihood(x, y) + np.log(unit)
    assert other.negative_log_likelihood(x, y * unit) == pytest.approx(nats, rel=1e-12)
    assert apviz.gp.metrics.rmse(torch.zeros(90), y * unit) == pytest.approx(np.sqrt(np.mean(y**2)) * unit, rel=1e-12)


def test_rows_and_targets_that_become_equal_in_float32_are_counted():
    x, y = data(20)
    x = np.column_stack([np.append(1e12 + np.arange(19.0), 0)] * 2)
    settings = EXACT | {"dtype": "float32"}
    with pytest.warns(
        UserWarning, match=r"of 20 different rows of inputs 2 are left in float32; float64 keeps more of"
    ):
        apviz.GaussianProcess(hyperparameters=GIVEN, **settings).fit(x, y)
    y[3] = 1e14
    with pytest.warns(
        UserWarning, match=r"of 20 different values of y, .* are left in float32 .* is row 4 with 1e\+14"
    ):
        apviz.GaussianProcess(hyperparameters=GIVEN, **settings).fit(data(20)[0], y)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_an_input_with_one_huge_cell_that_hides_the_others_causes_a_warning(dtype):
    x, y = data()
    x[0, 0] = 1e200
    gp = apviz.GaussianProcess(hyperparameters=GIVEN, solver=apviz.Cholesky(tol=1e-3), dtype=dtype, device=DEVICE)
    sentence = rf"of 90 different values of {{}}, from -\d.* to 1e\+200, 2 are left in {dtype} .* is row 1 with 1e\+200"
    with pytest.warns(UserWarning, match=sentence.format(r"x\[:, 0\]")) as said:
        gp.fit(x, y)
    assert len(said) == 1
    # the reason for the warning: predictions do not vary along that column
    along = np.column_stack([np.linspace(-10, 30, 20), np.full(20, 2000.0)])
    assert np.ptp(gp.predict(along)) < 1e-6 * np.ptp(y) and np.ptp(fitted().predict(along)) > 0.1 * np.ptp(y)
    with pytest.warns(UserWarning, match=sentence.format("warmth")):
        gp.fit(pd.DataFrame(x, columns=["warmth", "height"]), y)


@pytest.mark.parametrize(("largest", "told"), [(1e10, True), (1e200, False)])
def test_float64_is_advised_only_if_it_keeps_more_rows_distinct(largest, told):
    x = np.append(np.arange(19.0), largest)[:, None]
    gp = apviz.GaussianProcess(
        solver=apviz.Cholesky(),
        device=DEVICE,
        dtype="float32",
        hyperparameters=apviz.Hyperparameters("rbf", (1.0,), 1.0, 0.1),
    )
    with pytest.warns(UserWarning, match=r"of 20 different rows of inputs 2 are left in float32(;| \()") as said:
        gp.fit(x, data(20)[1])
    assert any("float64 keeps more of them different" in str(each.message) for each in said) == told


def test_inputs_whose_range_overflows_are_scaled_too():
    x, y = data()
    huge = (2 * (x - x.min(0)) / (x.max(0) - x.min(0)) - 1) * 1.7e308
    gp = apviz.GaussianProcess(hyperparameters=GIVEN, **EXACT).fit(huge, y)
    np.testing.assert_allclose(gp.predict(huge), fitted().predict(x), rtol=1e-6)


def test_a_deviation_is_that_of_the_function_unless_noise_is_requested():
    gp = fitted()
    for how in ("return_std", "return_cov"):
        of_function = gp.predict(held_out(), **{how: True}, include_noise=False)[1]
        np.testing.assert_array_equal(gp.predict(held_out(), **{how: True})[1], of_function)
