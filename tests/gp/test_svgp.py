"""The variational baseline against the exact GP in dense float64."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats
import torch

from apviz.gp.svgp import SVGP, SVGPSettings
from apviz.kernels import KERNELS
from tests.device import DEVICE

SHORT = SVGPSettings(inducing_points=40, batch_size=50, schedule=((25, 0.05), (5, 0.01)))


def data(n=200, d=2, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(size=(n, d))
    return x, np.sin(5 * x).sum(1) + 0.1 * rng.standard_normal(n)


def matern52(x, z, h):
    r = np.sqrt(((x[:, None] - z[None]) ** 2 / np.square(h.lengthscale)).sum(-1)) * math.sqrt(5)
    return h.outputscale * (1 + r + r**2 / 3) * np.exp(-r)


@pytest.fixture(scope="module")
def trained():
    x, y = data()
    svgp = SVGP(x, y, SHORT, dtype=torch.float64, device=DEVICE)
    svgp.run()
    return svgp, x, y


def test_the_bound_is_slightly_below_the_marginal_likelihood(trained):
    svgp, x, y = trained
    h = svgp.hyperparameters
    k = matern52(x, x, h) + h.noise * np.eye(len(x))
    exact = scipy.stats.multivariate_normal.logpdf(y, np.full(len(y), h.mean), k) / len(y)
    assert svgp.elbo[-1] < exact + 0.02  # the mean over the minibatches of an epoch
    assert svgp.elbo[-1] > exact - 0.5


def test_predictions_are_close_to_those_of_the_exact_gp_with_the_same_hyperparameters(trained):
    svgp, x, y = trained
    h = svgp.hyperparameters
    z, _ = data(50, seed=1)
    k, c = matern52(x, x, h) + h.noise * np.eye(len(x)), matern52(x, z, h)
    mean, variance = svgp.predict(z)
    np.testing.assert_allclose(mean, h.mean + c.T @ np.linalg.solve(k, y - h.mean), atol=0.15)
    exact = h.outputscale - (c * np.linalg.solve(k, c)).sum(0)
    np.testing.assert_allclose(variance.sqrt(), np.sqrt(exact), atol=0.1)
    np.testing.assert_allclose(svgp.predict(z, include_noise=True)[1] - variance, h.noise, rtol=1e-6)


def test_the_defaults_are_those_of_the_paper():
    s = SVGPSettings()
    assert (s.kernel, s.inducing_points, s.batch_size, s.ard, s.noise_floor) == ("matern52", 1024, 4096, True, 1e-4)
    assert s.schedule == ((50, 0.01), (150, 0.001))


@pytest.mark.parametrize("kernel", [name for name, kind in KERNELS.items() if kind.gpytorch])
def test_every_kernel_of_gpytorch_trains_with_one_lengthscale_or_one_per_input(kernel):
    x, y = data(60, 3)
    for ard, count in ((True, 3), (False, 1)):
        settings = SVGPSettings(kernel=kernel, inducing_points=10, batch_size=30, schedule=((3, 0.01),), ard=ard)
        svgp = SVGP(x, y, settings, device=DEVICE)
        h = svgp.run()
        assert (h.kernel, len(h.lengthscale)) == (kernel, count)
        assert h.noise > 1e-4
        assert svgp.predict(x)[0].dtype == torch.float64


def test_a_seed_determines_the_training_whatever_the_global_seed():
    x, y = data(60)
    settings = SVGPSettings(inducing_points=10, batch_size=25, schedule=((4, 0.05),), seed=3)
    results = []
    for seed in (0, 1):
        torch.manual_seed(seed)
        before = torch.random.get_rng_state()
        results.append(SVGP(x, y, settings, device=DEVICE).run())
        assert torch.equal(before, torch.random.get_rng_state())
    assert results[0] == results[1]


def test_an_interrupted_training_resumes_where_it_stopped(monkeypatch):
    x, y = data(60)
    settings = SVGPSettings(inducing_points=10, batch_size=25, schedule=((2, 0.05), (3, 0.01)))
    whole = SVGP(x, y, settings, device=DEVICE).run()
    svgp = SVGP(x, y, settings, device=DEVICE)
    epoch = svgp._epoch

    def interrupted(step_size):
        if svgp.epochs_done == 3:
            raise KeyboardInterrupt
        return epoch(step_size)

    monkeypatch.setattr(svgp, "_epoch", interrupted)
    with pytest.raises(KeyboardInterrupt):
        svgp.run()
    svgp.predict(x)
    monkeypatch.undo()
    assert svgp.epochs_done == 3
    assert svgp.run() == whole
    assert svgp.epochs_done == 5


def test_if_there_are_more_inducing_points_than_rows_the_rows_are_used():
    x, y = data(30)
    svgp = SVGP(x, y, SVGPSettings(batch_size=30, schedule=((2, 0.01),)), dtype=torch.float64, device=DEVICE)
    assert "30 inducing points" in svgp.run().provenance


def test_a_bound_that_is_not_finite_stops_the_training_and_names_the_epoch(monkeypatch):
    x, y = data(30)
    svgp = SVGP(x, y, SHORT, device=DEVICE)
    monkeypatch.setattr(svgp, "_epoch", lambda step_size: math.nan)
    with pytest.raises(RuntimeError, match="SVGP epoch 1: the bound is nan"):
        svgp.run()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kernel": "cosine"}, "kernel must be one of"),
        ({"inducing_points": 0}, "inducing_points must be a whole number"),
        ({"batch_size": 0}, "batch_size must be a whole number"),
        ({"schedule": ()}, "schedule must be pairs"),
        ({"schedule": ((0, 0.1),)}, "epochs of schedule must be a whole number"),
        ({"schedule": ((1, 0.0),)}, "step size of schedule must be a positive number"),
        ({"noise_floor": -1.0}, "noise_floor must be a number, at least 0"),
    ],
    ids=str,
)
def test_a_setting_out_of_range_is_rejected(settings, message):
    with pytest.raises(ValueError, match=message):
        SVGPSettings(**settings)


def test_bad_data_are_refused():
    x, y = data(30)
    with pytest.raises(ValueError, match=r"y must have shape \(n,\)"):
        SVGP(x, y[:, None], SHORT)
    with pytest.raises(ValueError, match=r"x_star must have shape \(m, 2\), got \(5, 3\)"):
        SVGP(x, y, SHORT, device=DEVICE).predict(np.zeros((5, 3)))
