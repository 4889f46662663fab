"""Standard deviations given near rows are those of dense algebra to what is said; `auto` takes them for many points."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch

import apviz
from apviz.gp.prediction import neighbour_variances, variance_methods
from apviz.gp.prediction.posterior import Posterior
from tests.device import DEVICE
from tests.gp.test_accuracy_of_predictions import dense


@pytest.fixture(autouse=True)
def as_long_as_it_takes(monkeypatch):
    monkeypatch.setattr(variance_methods, "SAMPLE_SECONDS", np.inf)


def posterior_of(p, **settings):
    return Posterior(p.x, p.y, p.h, apviz.solvers.overlapping(tol=1e-5), device=DEVICE, **settings)


def few_rows(monkeypatch, settled):
    monkeypatch.setattr(neighbour_variances, "ROWS", (40, 80))
    monkeypatch.setattr(neighbour_variances, "INSIDE", 10)
    monkeypatch.setattr(neighbour_variances, "SETTLED", settled)


def test_they_are_as_accurate_as_is_said():
    p = dense(600, 0.3, "matern32", m=200)
    posterior = posterior_of(p)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sd = posterior.variance(p.z, "neighbours").sqrt().cpu().numpy()
    said = posterior.prediction_accuracy
    assert (said.sampled, said.points) == (64, 200)
    ratio = sd / p.sd - 1
    assert ratio.min() > -1e-6 and np.quantile(ratio, 0.95) <= said.sd_error() + 1e-6
    assert said.sd_error() < 0.05


def test_a_sample_judges_the_variances_that_were_predicted(monkeypatch):
    few_rows(monkeypatch, settled=1e6)
    monkeypatch.setattr(neighbour_variances, "INSIDE", 10**6)  # all points are one group; those of the sample alone too
    p = dense(400, 1.0, "matern32", m=200)
    posterior = posterior_of(p)
    with pytest.warns(UserWarning, match="may be too large"):
        sd = posterior.variance(p.z, "neighbours").sqrt().cpu().numpy()
    sampled = torch.randperm(200, generator=torch.Generator().manual_seed(0))[:64].numpy()
    found = posterior.prediction_accuracy.sd_errors
    np.testing.assert_allclose(found, (sd / p.sd - 1)[sampled], atol=1e-3)


def test_points_in_random_order_make_as_many_groups_as_sorted_ones(monkeypatch):
    few_rows(monkeypatch, settled=0.02)
    monkeypatch.setattr(variance_methods, "CHUNK", 20)
    p, groups = dense(600, 0.3, "matern32", m=200), []
    of_group = neighbour_variances.NeighbourVariances._of_group
    monkeypatch.setattr(
        neighbour_variances.NeighbourVariances, "_of_group", lambda *a: groups.append(len(a[2])) or of_group(*a)
    )
    posterior, counts = posterior_of(p), []
    for order in (np.argsort(p.z[:, 0]), np.random.default_rng(0).permutation(200)):
        groups.clear()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            posterior.variance(p.z[order], "neighbours")
        counts.append(len(groups))
    assert counts[0] == counts[1] > 5


def test_points_that_have_not_settled_are_solved_for(monkeypatch):
    few_rows(monkeypatch, settled=1e-4)
    p = dense(400, 0.3, "matern32", m=100)
    posterior = posterior_of(p)
    sd = posterior.variance(p.z, "neighbours").sqrt().cpu().numpy()
    solved = sum(len(each.excess) for each in posterior.variance_solves)
    assert solved > 50
    assert np.quantile(sd / p.sd - 1, 0.95) < 0.01


def test_too_few_rows_warn_with_what_a_sample_shows(monkeypatch):
    few_rows(monkeypatch, settled=1e6)
    p = dense(400, 1.0, "rbf", m=100)
    posterior = posterior_of(p)
    with pytest.warns(UserWarning, match="given near rows may be too large.*method 'solves'"):
        sd = posterior.variance(p.z, "neighbours").sqrt().cpu().numpy()
    assert np.quantile(sd / p.sd - 1, 0.95) <= posterior.prediction_accuracy.sd_error()


def test_auto_takes_them_for_many_points_of_many_rows_without_a_factor(monkeypatch):
    p = dense(300, 0.3, "matern32", m=50)
    posterior = posterior_of(p)
    posterior.variance(p.z, "auto")
    assert posterior.prediction_accuracy.sampled == 50  # all were solved for
    monkeypatch.setattr(variance_methods, "MANY_POINTS", 50)
    monkeypatch.setattr(variance_methods, "MANY_ROWS", 200)
    monkeypatch.setattr(variance_methods, "SAMPLE", 20)
    posterior.variance(p.z, "auto")
    assert posterior.prediction_accuracy.sampled == 20
    with_factor = Posterior(p.x, p.y, p.h, apviz.Cholesky(), device=DEVICE)
    with_factor.variance(p.z, "auto")
    assert with_factor.prediction_accuracy.sampled == 50


def test_the_estimator_says_what_a_sample_shows():
    p = dense(600, 0.3, "matern32", m=200)
    solver = apviz.solvers.overlapping(tol=1e-5)
    gp = apviz.GaussianProcess(hyperparameters=p.h, scale=False, variance="neighbours", solver=solver, device=DEVICE)
    _, sd = gp.fit(p.x, p.y).predict(p.z, return_std=True)
    assert np.quantile(sd / p.sd - 1, 0.95) < 0.05
    assert "64 of 200 test points, 95% confidence" in str(gp.prediction_accuracy_)


def test_no_points_have_no_variances():
    posterior = posterior_of(dense(30, 0.3))
    assert len(posterior.variance(np.zeros((0, 2)), "neighbours")) == 0


def test_an_unknown_method_is_refused_with_the_known_ones():
    posterior = posterior_of(dense(30, 0.3))
    with pytest.raises(ValueError, match="method must be one of solves, lanczos, neighbours, auto"):
        posterior.variance(np.zeros((1, 2)), "love")
