"""What is said about the accuracy of predictions holds, by dense algebra in float64."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest
import scipy.linalg
import torch
from scipy.spatial.distance import cdist

import apviz
from apviz.gp.prediction.posterior import Posterior
from apviz.gp.prediction.prediction_accuracy import PointErrors, PredictionAccuracy, together
from tests.device import DEVICE
from tests.gp.test_accuracy_of_predictions import LENGTHSCALE, dense
from tests.textbook import CORRELATIONS

SOLVERS = {
    "stopped early": apviz.AlternatingProjection(block_size=60, tol=1e-9, max_epochs=2),
    "conjugate gradients": apviz.ConjugateGradient(tol=1e-2),
    "overlapping": apviz.solvers.overlapping(tol=1e-2),
    "chosen": None,
}


def posterior_of(p, solver=None, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Posterior(p.x, p.y, p.h, solver, device=DEVICE, **settings)


def off(posterior, p):
    return np.abs(posterior.mean(p.z).cpu().numpy() - p.mean) / p.sd


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", list(SOLVERS))
def test_bounds_at_points_contain_the_errors_of_mean_and_deviation(name, dtype):
    p = dense(400, 0.1, "matern32")
    posterior = posterior_of(p, SOLVERS[name], dtype=dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sd = posterior.variance(p.z).sqrt().cpu().numpy()
    errors = posterior.variance_solves[0].errors
    assert (off(posterior, p) <= errors.mean.numpy() + 1e-6).all()
    ratio = sd / p.sd - 1
    assert (ratio <= errors.sd().numpy() + 1e-6).all()
    assert (ratio >= -1e-6).all()


def test_adding_the_known_error_corrects_the_mean():
    p = dense(400, 0.1, "matern32")
    posterior = posterior_of(p, SOLVERS["conjugate gradients"], variance_solver=apviz.Cholesky())
    posterior.variance(p.z)
    known = posterior.variance_solves[0].errors.known.numpy()
    mean = posterior.mean(p.z).cpu().numpy()
    assert np.abs(mean - p.mean).max() > 1e-3
    assert np.abs(mean + known - p.mean).max() < 1e-7


@pytest.mark.parametrize("name", list(SOLVERS))
def test_an_accuracy_is_that_of_the_predictions(name):
    p = dense(400, 0.1, "matern32")
    posterior = posterior_of(p, SOLVERS[name])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = posterior.accuracy(p.z, count=len(p.z))
    truth = np.quantile(off(posterior, p), 0.95, method="inverted_cdf")
    assert truth <= found.mean_error() + 1e-6
    assert found.mean_error() <= 1.2 * truth + 1e-6


def test_rows_with_their_own_noises_have_their_own_bounds():
    p = dense(300, 0.1)
    rng = np.random.default_rng(1)
    noises = 0.01 * 10 ** rng.uniform(-1, 1, size=300)
    k, c = (CORRELATIONS["rbf"](cdist(p.x, other) / LENGTHSCALE) for other in (p.x, p.z))
    factor = scipy.linalg.cho_factor(k + np.diag(noises))
    mean = c.T @ scipy.linalg.cho_solve(factor, p.y)
    sd = np.sqrt(1 - np.einsum("ij,ij->j", c, scipy.linalg.cho_solve(factor, c)))
    posterior = posterior_of(p, apviz.ConjugateGradient(tol=0.03), noises=noises)
    posterior.variance(p.z)
    errors = posterior.variance_solves[0].errors
    wrong = np.abs(posterior.mean(p.z).cpu().numpy() - mean) / sd
    assert (wrong <= errors.mean.numpy() + 1e-6).all()
    assert (errors.mean.numpy() <= posterior.accuracy(p.z).proven + 1e-6).all()


def test_a_sample_bounds_the_quantile_as_often_as_it_says():
    rng = np.random.default_rng(0)
    population = rng.standard_cauchy(4_000) ** 2
    quantile = np.quantile(population, 0.95)
    held = 0
    for _ in range(1_000):
        sample = rng.choice(population, 64, replace=False)
        held += PredictionAccuracy(sample, sample, len(population), np.inf).mean_error() >= quantile
    assert 930 <= held <= 990


@pytest.mark.parametrize("size", [1, 8, 20, 58])
def test_a_small_sample_is_about_a_smaller_share(size):
    rng = np.random.default_rng(size)
    population = rng.exponential(size=2_000)
    found = [
        PredictionAccuracy(sample, sample, len(population), np.inf)
        for sample in (rng.choice(population, size) for _ in range(600))
    ]
    share = found[0].share()
    assert share < 0.95
    assert np.mean([each.mean_error() >= np.quantile(population, share) for each in found]) >= 0.92
    assert f"{int(100 * share)}% of means" in found[0].sentence


def test_a_sample_of_all_points_needs_no_confidence():
    errors = np.arange(1.0, 101.0)
    found = PredictionAccuracy(errors, errors / 100, 100, np.inf)
    assert found.mean_error() == 95
    assert found.sd_error(share=0.5) == 0.5
    assert "confidence" not in found.sentence and "all test points" in found.sentence


def test_slices_are_taken_together():
    first, second = (
        PredictionAccuracy(np.full(3, at), np.full(3, at), points, 2 * at) for at, points in ((1.0, 3), (2.0, 9))
    )
    both = together([first, second])
    assert (both.sampled, both.points, both.proven) == (4, 12, 4.0)  # 1 of 3 points, 3 of 9


def test_without_samples_the_proven_bound_is_said():
    nothing = np.zeros(0)
    assert (
        PredictionAccuracy(nothing, nothing, 0, 0.05).sentence
        == "No mean is off by more than 0.05 posterior sd (proven by its residual)"
    )
    assert "not known" in PredictionAccuracy(nothing, nothing, 0, np.inf).sentence


@pytest.mark.parametrize("solver", [None, apviz.ConjugateGradient(tol=0.01), apviz.solvers.overlapping(tol=0.01)])
@pytest.mark.parametrize("accuracy", [1.0, 1e-3])
def test_the_accuracy_is_a_stopping_rule_in_addition_to_the_tolerance(solver, accuracy):
    p = dense(2_500 if solver is None else 400, 0.1, "matern32")
    posterior = posterior_of(p, solver, accuracy=accuracy)
    assert posterior.mean_error <= accuracy
    assert posterior.solution.residual <= 0.01
    assert (off(posterior, p) <= accuracy).all()


def test_a_given_solver_has_its_own_tolerance_and_a_warning():
    p = dense(400, 0.1, "matern32")
    with pytest.warns(UserWarning, match="use tol="):
        posterior = Posterior(p.x, p.y, p.h, apviz.ConjugateGradient(tol=0.03), device=DEVICE)
    assert posterior.mean_error > 0.05


@pytest.mark.parametrize("accuracy", [0, -1.0, np.nan, "high"])
def test_an_accuracy_is_positive(accuracy):
    p = dense(30, 0.1)
    with pytest.raises(ValueError, match="accuracy must be a positive number of posterior standard deviations"):
        Posterior(p.x, p.y, p.h, accuracy=accuracy, device=DEVICE)
    with pytest.raises(ValueError, match="accuracy must be a positive number of posterior standard deviations"):
        apviz.GaussianProcess(accuracy=accuracy, device=DEVICE).fit(p.x, p.y)


def test_nothing_can_be_said_about_no_points():
    posterior = posterior_of(dense(30, 0.1))
    with pytest.raises(ValueError, match="at least one test point"):
        posterior.accuracy(np.zeros((0, 2)))
    with pytest.raises(ValueError, match="count"):
        posterior.accuracy(np.zeros((3, 2)), count=0)


def test_the_estimator_says_it_with_every_prediction():
    p = dense(300, 0.1)
    gp = apviz.GaussianProcess(hyperparameters=p.h, scale=False, device=DEVICE).fit(p.x, p.y)
    gp.predict(p.z)
    assert gp.prediction_accuracy_.sampled == 0 and "proven" in str(gp.prediction_accuracy_)
    gp.predict(p.z, return_std=True)
    assert gp.prediction_accuracy_.sampled == gp.prediction_accuracy_.points == len(p.z)
    assert re.match(r"95% of means are within \S+ posterior sd of the exact GP", str(gp.prediction_accuracy_))
    gp.set_params(variance="lanczos").predict(p.z, return_std=True)
    assert gp.prediction_accuracy_.sampled == 0
    assert gp.measure_accuracy(p.z, 5).sampled == 5


def test_slices_keep_errors_in_proportion_to_their_points():
    rng = np.random.default_rng(0)
    held = 0
    for _ in range(300):
        # a large slice with large errors, and a small one that was solved for completely
        many, few = 10 + rng.random(5_000), rng.random(500)
        sample = rng.choice(many, 64, replace=False)
        both = together([PredictionAccuracy(sample, sample, 5_000, np.inf), PredictionAccuracy(few, few, 500, np.inf)])
        assert both.sampled == 64 + 6
        held += both.mean_error() >= np.quantile(np.r_[many, few], 0.95)
    assert held / 300 >= 0.92


def test_a_residual_from_random_rows_is_not_called_a_proof():
    rng = np.random.default_rng(0)
    x, y = rng.random((2_500, 1)), rng.standard_normal(2_500)
    h = apviz.Hyperparameters("matern52", (0.05,), 1.0, 1.0, 0.0)
    posterior = Posterior(x, y, h, apviz.ConjugateGradient(tol=1e-4), operator="fourier", device="cpu")
    posterior.mean(x[:50])
    said = posterior.prediction_accuracy
    sampled = posterior.solution.certificate.kind == "sampled"
    assert ("random rows" in said.how) == sampled
    assert "compared with entries at 64 points" in said.sentence


def test_the_error_of_approximate_products_counts():
    errors = PointErrors(torch.zeros(2), torch.tensor([0.01, 0.02]), torch.tensor([0.1, 0.2]), torch.tensor([0.1, 0.2]))
    found = PredictionAccuracy.of([errors], 2, 0.02, product_error=1e-3)
    np.testing.assert_allclose(found.mean_errors, [0.01 + 1e-2, 0.02 + 5e-3])
    assert found.mean_error() == pytest.approx(0.025)
    other = found.with_means_of(None, 0.005)
    assert other.mean_error() == pytest.approx(0.015) and "compared with entries" in other.how_in_words
