"""Odd inputs, targets and settings of Gaussian processes: each is used, or rejected with its name."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import apviz
from apviz import gp
from apviz.operators import CountingOperator
from tests.device import DEVICE

X = np.random.default_rng(0).uniform(-1, 1, (30, 2))
Y = np.sin(5 * X).sum(1)
H = apviz.Hyperparameters("matern52", (0.6,), 1.0, 0.1)


@pytest.fixture(scope="module")
def posterior():
    return apviz.Posterior(X, Y, H, device=DEVICE)


def test_test_inputs_in_another_byte_order_or_as_lists_give_the_same_means(posterior):
    expected = posterior.mean(X[:3])
    for given in (X[:3].astype(">f8"), X[:3].tolist(), torch.from_numpy(X[:3]).requires_grad_(), X[2::-1][::-1]):
        assert torch.equal(posterior.mean(given), expected)
    with pytest.raises(TypeError, match="x_star must be numbers"):
        posterior.mean([[1.0], [1.0, 2.0]])


@pytest.mark.parametrize("name", ["solver", "variance_solver"])
@pytest.mark.parametrize("odd", [True, "cg", [1.0], torch.tensor([0.5, 0.2]), apviz.Automatic])
def test_an_object_that_is_not_a_solver_is_rejected_by_name(name, odd):
    with pytest.raises(TypeError, match=f"{name} must be a solver"):
        apviz.Posterior(X, Y, H, device=DEVICE, **{name: odd})


@pytest.mark.parametrize("mean", [np.inf, np.nan, 10**400, "0", None, True])
def test_a_prior_mean_that_is_not_finite_is_rejected(mean):
    with pytest.raises(ValueError, match="the mean of hyperparameters must be a finite number"):
        apviz.Posterior(X, Y, apviz.Hyperparameters("rbf", (0.6,), 1.0, 0.1, mean=mean), device=DEVICE)


def test_targets_of_another_length_than_x_are_rejected_as_y():
    for make in (lambda y: apviz.Posterior(X, y, H, device=DEVICE), lambda y: apviz.Training(X, y, device=DEVICE)):
        with pytest.raises(ValueError, match=r"y must have shape \(n,\).* for each row of x, got \(29,\)"):
            make(Y[:29])


@pytest.mark.parametrize("ranks", [[], 3, np.array("a"), [0.5], [np.nan]])
def test_invalid_ranks_are_rejected_by_name(posterior, ranks):
    with pytest.raises(ValueError, match="ranks"):
        posterior.variance_by_rank(X[:2], ranks)
    with pytest.raises(ValueError, match="ranks"):
        apviz.LanczosInverse(CountingOperator(posterior.system.operator)).explained(torch.from_numpy(X[:2]), ranks)


def test_more_samples_or_probes_than_fit_in_memory_are_rejected_with_a_message(posterior):
    with pytest.raises(MemoryError, match="samples need"):
        posterior.samples(2**50)
    with pytest.raises(MemoryError, match="probes need"):
        apviz.rademacher(2**40, 100, 0, torch.zeros(1))


@pytest.mark.parametrize("given", [{"n": 0}, {"count": 1.5}, {"seed": "0"}, {"like": 2}])
def test_invalid_arguments_of_probes_are_rejected_by_name(given):
    with pytest.raises((ValueError, TypeError), match=f"{next(iter(given))} must be"):
        apviz.rademacher(**{"n": 5, "count": 2, "seed": 0, "like": torch.zeros(1)} | given)


def test_metrics_accept_negative_strides_and_reject_values_that_are_not_finite():
    assert gp.rmse(Y[::-1], Y[::-1] + 2.0) == pytest.approx(2.0)
    with pytest.raises(ValueError, match="y has 1 NaN or infinite values"):
        gp.rmse(Y[:2], [np.nan, 1.0])


def test_targets_in_bfloat16_are_accepted():
    targets = torch.from_numpy(Y).bfloat16()
    found = apviz.GaussianProcess(hyperparameters=H, device=DEVICE).fit(X, targets)
    expected = apviz.GaussianProcess(hyperparameters=H, device=DEVICE).fit(X, targets.double().numpy())
    np.testing.assert_allclose(found.predict(X[:3]), expected.predict(X[:3]))


@pytest.mark.parametrize("restarts", [10**400, 10_001, -1, "many"])
def test_invalid_numbers_of_restarts_are_rejected_before_any_fit(restarts):
    with pytest.raises(ValueError, match="n_restarts must be a whole number, at least 0, at most 10000"):
        apviz.GaussianProcess(n_restarts=restarts, device=DEVICE).fit(X, Y)


def test_a_training_rejects_invalid_initial_values_settings_and_paths_by_name():
    with pytest.raises(TypeError, match="initial must be apviz.Hyperparameters"):
        apviz.Training(X, Y, initial={"noise": 1.0}, device=DEVICE)
    with pytest.raises(TypeError, match="settings must be apviz.TrainingSettings"):
        apviz.Training(X, Y, {"steps": 3}, device=DEVICE)
    with pytest.raises(ValueError, match="path must be a path with a name"):
        apviz.Training(X, Y, path="", device=DEVICE)


def test_an_error_about_a_failed_step_states_a_step_size_that_is_too_large():
    settings = apviz.TrainingSettings(steps=2, probes=3, step_size=1e12)
    with pytest.raises(
        apviz.TrainingError,
        match=r"training step 1: it led to invalid hyperparameters .*; step_size = 1e\+12 is too large",
    ):
        apviz.Training(X, Y, settings, device=DEVICE).run()


def test_a_sparse_tensor_is_rejected_by_name_and_theta_may_require_a_gradient(posterior):
    with pytest.raises(TypeError, match="x_star must be a dense tensor of real numbers"):
        posterior.mean(torch.from_numpy(X).to_sparse())
    model = apviz.GaussianProcess(hyperparameters=H, device=DEVICE).fit(X, Y)
    theta = torch.tensor(model.theta_, requires_grad=True)
    assert model.log_marginal_likelihood(theta) == model.log_marginal_likelihood()
    with pytest.raises(TypeError, match="theta must be numbers"):
        model.log_marginal_likelihood(["a"])


def test_an_impossible_path_is_rejected():
    with pytest.raises(ValueError, match="path must be that of a file"):
        apviz.GaussianProcess.load("a\0b")


def test_missing_targets_in_an_object_array_are_rejected_as_y():
    with pytest.raises(ValueError, match="y has 30 NaN or infinite values"):
        apviz.GaussianProcess(device=DEVICE).fit(X, np.full(30, None))


@pytest.mark.parametrize("of", [list, tuple, lambda rows: [list(row) for row in rows], lambda rows: rows])
def test_fit_and_predict_reject_masked_values(of):
    x, y = np.ma.masked_greater(X, np.quantile(X, 0.9)), np.ma.masked_greater(Y, np.quantile(Y, 0.9))
    gp = apviz.GaussianProcess(hyperparameters=H, device=DEVICE)
    with pytest.raises(TypeError, match="X has masked values, which are missing"):
        gp.fit(of(x), Y)
    with pytest.raises(TypeError, match="y has masked values"):
        gp.fit(X, list(y))
    fitted = gp.fit(of(np.ma.masked_invalid(X)), Y)
    for ask in (fitted.predict, fitted.sample_y, fitted.posterior_.mean):
        with pytest.raises(TypeError, match="(X|x_star) has masked values"):
            ask(of(x))


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning", "ignore::DeprecationWarning")
def test_tracing_predictions_with_torch_jit_is_rejected(posterior):
    with pytest.raises(RuntimeError, match="torch.jit.trace records"):
        torch.jit.trace(posterior.mean, torch.from_numpy(X[:3]), check_trace=False)
