"""Problems that were once reported as "Nothing is wrong"; GPyTorch itself shows each of them."""

from __future__ import annotations

import gpytorch
import numpy as np
import pytest
import torch

import apviz
from apviz.analysis import Limit
from apviz.gpytorch.rescue.remedies import off_by
from tests.gpytorch.rescue.models import model_of, on, rbf, waves
from tests.gpytorch.test_gpytorch_examples import ExactGP

diagnose = apviz.gpytorch.diagnose
pytestmark = pytest.mark.filterwarnings("ignore:the value of the marginal", "ignore:Very small noise")


def test_negative_variances_are_reported_and_the_change_fixes_them():
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0, 1, 300))[:, None]
    noise = 10 ** (-6 * rng.uniform(size=300))
    y = np.sin(6 * x[:, 0]) + np.sqrt(noise) * rng.standard_normal(300)
    x, y, noise = (torch.tensor(each).float() for each in (x, y, noise))
    model = ExactGP(x, y, gpytorch.likelihoods.FixedNoiseGaussianLikelihood(noise), kernel=rbf(0.5)).float()
    z = torch.linspace(0, 1, 100)[:, None]

    def negative():
        with torch.no_grad():
            return int((model.eval()(z).lazy_covariance_matrix.diagonal() < 0).sum())

    with gpytorch.settings.fast_pred_var():
        count = negative()
        found = diagnose(model.train(), test_inputs=z)
    assert count > 0 and found.limit is Limit.VARIANCES and f"{count} of 100 variances of f are negative" in str(found)
    assert found.change == {"fast_pred_var": False} and found.after.negative == 0
    model.train()
    assert negative() == 0


def test_test_rows_far_from_all_training_rows_are_named():
    x, y = waves()
    model, far = model_of(x, y, 0.01, rbf(0.3)), on(torch.linspace(15, 18, 30, dtype=torch.float64))
    with torch.no_grad():
        mean = model.eval()(far).mean
    assert (mean == model.mean_module(far)).all()
    found = diagnose(model.train(), test_inputs=far)
    assert found.limit is Limit.EXTRAPOLATION and not found.change
    assert diagnose(model.train(), test_inputs=on(torch.linspace(0, 1, 30, dtype=torch.float64))).limit is Limit.NOTHING


def test_a_third_of_the_test_rows_far_from_all_training_rows_is_mentioned():
    x, y = waves()
    near, far = torch.linspace(0, 1, 20, dtype=torch.float64), torch.linspace(15, 18, 10, dtype=torch.float64)
    model = model_of(x, y, 0.01, rbf(0.3))
    found = diagnose(model, test_inputs=on(torch.cat([near, far])))
    assert "10 of 30 test rows correlate by less than 0.02 with every training row" in str(found)
    assert "test rows" not in str(diagnose(model, test_inputs=on(near)))


def test_rows_five_lengthscales_apart_are_named():
    x, y = waves()
    x = 5 * 0.3 * np.arange(200.0)
    found = diagnose(model_of(x, y, 0.01, rbf(0.3)))
    assert found.limit is Limit.INDEPENDENT and "is 4e-06" in found.evidence


def test_targets_sixty_times_the_prior_are_named():
    x, y = waves()
    assert diagnose(model_of(x, 60 * (y - y.mean()) / y.std(), 0.01, rbf(0.3))).limit is Limit.SCALE


def test_noise_at_its_floor_while_the_likelihood_rises_is_named():
    x, _ = waves(100)
    model = ExactGP(
        torch.tensor(x), torch.tensor(np.sin(6 * x)), gpytorch.likelihoods.GaussianLikelihood(), kernel=rbf(0.3)
    ).double()
    model.likelihood.noise = 1.02e-4

    def likelihood(noise):
        k = model.covar_module(model.train_inputs[0]).to_dense().detach() + noise * torch.eye(100)
        mean = torch.zeros(100, dtype=torch.float64)
        return float(torch.distributions.MultivariateNormal(mean, k).log_prob(model.train_targets))

    assert likelihood(0.5e-4) > likelihood(1.02e-4) + 0.5
    found = diagnose(model)
    assert found.limit is Limit.FLOOR and found.change == {"noise_floor": 1e-5}


def test_a_collapsed_lengthscale_is_not_blamed_on_the_inputs():
    x, y = waves()
    model = model_of(x, y, 0.01, rbf(0.3))
    model.covar_module.base_kernel.raw_lengthscale.data.fill_(-391.0)
    found = diagnose(model)
    assert found.limit is Limit.COLLAPSED and "The lengthscale has collapsed" in found.evidence


def test_a_training_that_settled_is_left_alone():
    x, y = waves()
    losses = [504.5, -1958.9, -2062.8, -2067.0, -2063.0]
    assert diagnose(model_of(x, y, 0.01, rbf(0.3)), losses=losses).limit is Limit.NOTHING


def test_variances_of_a_healthy_model_are_off_by_under_a_thousandth_not_by_a_factor():
    x, y = waves()
    found = diagnose(model_of(x, y, 0.01, rbf(0.3)))
    assert "Variances with the noise are off by under 0.1%." in found.evidence and "factor" not in str(found)


@pytest.mark.parametrize(
    ("ratio", "said"),
    [(1.0, "under 0.1%"), (1.0004, "under 0.1%"), (1.13, "up to 13.0%"), (2.0, "a factor of up to 2"),
     (25.52, "a factor of up to 25.5")],
)  # fmt: skip
def test_a_ratio_of_variances_is_a_percentage_below_two_and_a_factor_from_there_on(ratio, said):
    assert off_by(ratio) == said
