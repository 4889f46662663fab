"""Unsupported parts of a GPyTorch model: the context raises at the first call and names the part."""

from __future__ import annotations

import warnings

import gpytorch
import numpy as np
import pytest
import torch
from test_gpytorch_examples import ExactGP, exactly, example

import apviz
from tests.device import DEVICE

kernels, likelihoods, means = gpytorch.kernels, gpytorch.likelihoods, gpytorch.means
TWO = torch.Size([2])


class Learned(ExactGP):
    def __init__(self, *args):
        super().__init__(*args)
        self.features = torch.nn.Linear(2, 2)

    def forward(self, x):
        return super().forward(self.features(x))


class Shifted(ExactGP):
    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x, x + 0.3))


class TaskByTask(ExactGP):
    def forward(self, x):
        return gpytorch.distributions.MultitaskMultivariateNormal.from_independent_mvns([super().forward(x)] * 2)


class Centred(kernels.RBFKernel):
    """A kernel of inputs minus their mean: every entry depends on all rows."""

    def forward(self, x1, x2, **params):
        return super().forward(2 * x1 / x1.max(), x2, **params)


class Named(kernels.RBFKernel):
    """An RBF kernel with another constructor and an attribute of its own."""

    def __init__(self):
        super().__init__(ard_num_dims=2)
        self.made = "by hand"

    def describe(self):
        return self.made


class PlainMixin:
    """A mixin in plain Python, with the attributes that Python gives a class."""


class Mixed(Named, PlainMixin, kernels.RBFKernel):
    pass


class MixedFirst(PlainMixin, kernels.RBFKernel):
    pass


def patched():
    kernel = kernels.RBFKernel()
    kernel.covar_dist = lambda *args, **kwargs: None
    return kernel


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(
    ("parts", "error", "message"),
    [
        (
            {"kernel": patched()},
            TypeError,
            "covar_module, an RBFKernel; its own code evaluates it, and fails",
        ),
        ({"kernel": Centred()}, TypeError, "covar_module, a Centred;.*entries depend on rows other than their own two"),
        ({"kernel": kernels.CosineKernel()}, TypeError, "covar_module is a CosineKernel of 2 inputs, which is not pos"),
        (
            {"kernel": kernels.InducingPointKernel(kernels.RBFKernel(), torch.ones(3, 2), None)},
            TypeError,
            "covar_module is an InducingPointKernel, a low-rank approximation.*covar_module.base_kernel",
        ),
        (
            {"likelihood": likelihoods.MultitaskGaussianLikelihood(num_tasks=2)},
            TypeError,
            "Multitask.*of several outputs",
        ),
        (
            {"likelihood": likelihoods.GaussianLikelihood(batch_shape=TWO)},
            ValueError,
            r"the likelihood's noise has batch shape \(2,\), and its model \(\)",
        ),
        ({"model": Shifted}, ValueError, r"Shifted.forward returned is k\(x, z\) between two different sets of inputs"),
        ({"model": TaskByTask}, TypeError, "TaskByTask.forward returned outputs one after the other"),
    ],
    ids=str,
)
def test_an_unsupported_part_is_named_at_the_first_call(parts, error, message, training):
    e = example(30, 2, **parts)
    e.model.train(training)
    with apviz.gpytorch.alternating_projection(block_size=10), pytest.raises(error, match=message):
        e.loss() if training else e.predict()


def test_a_likelihood_given_only_to_the_objective_is_used():
    e = example(30, 2)
    other = likelihoods.FixedNoiseGaussianLikelihood(torch.linspace(0.1, 1, 30, dtype=torch.float64, device=DEVICE))
    e.model.train()
    with exactly():
        expected = gpytorch.mlls.ExactMarginalLogLikelihood(other, e.model)(e.model(e.x), e.y).item()
    with apviz.gpytorch.alternating_projection(solver=apviz.Cholesky()):
        found = gpytorch.mlls.ExactMarginalLogLikelihood(other, e.model)(e.model(e.x), e.y).item()
    assert found == pytest.approx(expected, rel=1e-10)


def test_targets_of_another_batch_than_the_model_are_rejected():
    e = example(30, 2)
    with apviz.gpytorch.alternating_projection(block_size=10):
        e.model.train()
        e.y = torch.stack([e.y, e.y])
        with pytest.raises(ValueError, match=r"the targets' difference from the mean has batch shape \(2,\)"):
            e.loss()
        e.model.set_train_data(targets=e.y, strict=False)
        with pytest.raises(ValueError, match=r"training targets has batch shape \(2,\), and its model \(\)"):
            e.predict()
        e.model.set_train_data(targets=e.y[0, :7], strict=False)
        with pytest.raises(ValueError, match=r"training targets have shape \(7,\)"):
            e.predict()


def test_a_kernel_evaluated_by_user_code_warns_once_with_the_ratio():
    class Twice(kernels.RBFKernel):
        def forward(self, *args, **params):
            return 2 * super().forward(*args, **params)

    said = r"covar_module, a Twice: GPyTorch's code evaluates it tile by tile, which takes \d+ times as long per entry"
    with apviz.gpytorch.alternating_projection():
        with pytest.warns(UserWarning, match=said):
            example(30, 2, kernel=Twice()).loss()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            example(30, 2, kernel=Twice()).loss()


def test_missing_observations_and_requested_cholesky_raise():
    e = example(30, 2)
    with apviz.gpytorch.alternating_projection(block_size=10):
        with (
            gpytorch.settings.observation_nan_policy("mask"),
            pytest.raises(ValueError, match="observation_nan_policy is 'mask'"),
        ):
            e.loss()
        with (
            gpytorch.settings.fast_computations(log_prob=False),
            pytest.raises(ValueError, match="requests Cholesky"),
        ):
            e.loss()
        e.y[3] = torch.nan
        with pytest.raises(ValueError, match="NaN or infinite values"):
            e.loss()


def test_learned_features_are_accepted_if_nothing_is_learned():
    e = example(40, 2, model=Learned)
    with exactly():
        mean = e.predict().mean
    e.model.prediction_strategy = None
    with torch.no_grad(), apviz.gpytorch.alternating_projection(block_size=20, tol=1e-8):
        np.testing.assert_allclose(e.predict().mean, mean, atol=1e-6)


def test_hyperparameters_of_a_model_reproduce_its_prediction():
    e = example(50, 2, kernels.ScaleKernel(kernels.MaternKernel(1.5, ard_num_dims=2)))
    e.model.covar_module.base_kernel.lengthscale = torch.tensor([0.3, 0.7])
    e.model.covar_module.outputscale, e.likelihood.noise, e.model.mean_module.constant = 1.4, 0.05, torch.tensor(0.2)
    h = apviz.gpytorch.hyperparameters(e.model)
    assert (h.kernel, h.provenance) == ("matern32", "GPyTorch ExactGP")
    np.testing.assert_allclose([*h.lengthscale, h.outputscale, h.noise, h.mean], [0.3, 0.7, 1.4, 0.05, 0.2], rtol=1e-6)
    system = apviz.KernelSystem(e.x, e.y - h.mean, h.build_kernel(), noise=h.noise, dtype=torch.float64)
    weights = apviz.solve(system, apviz.Cholesky()).weights
    with exactly():
        theirs = e.predict().mean
    np.testing.assert_allclose(h.build_kernel()(e.test_x, e.x) @ weights + h.mean, theirs, atol=1e-8)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"mean": means.LinearMean(2)}, "prior mean is not constant"),
        ({"kernel": kernels.RBFKernel(active_dims=[0])}, "does not get the training inputs unchanged"),
        ({"model": Learned}, "does not get the training inputs unchanged"),
        (
            {"kernel": kernels.RBFKernel(batch_shape=TWO)},
            r"a batch of 2 models; hyperparameters\(\) takes a single model",
        ),
        (
            {"likelihood": likelihoods.FixedNoiseGaussianLikelihood(torch.linspace(0.1, 1, 30))},
            r"every row has its own noise; use apviz.KernelSystem\(noise=…\)",
        ),
    ],
)
def test_a_model_that_hyperparameters_cannot_describe_is_rejected(parts, message):
    with pytest.raises(ValueError, match=message):
        apviz.gpytorch.hyperparameters(example(30, 2, **parts).model)


def test_hyperparameters_need_an_exact_gp_with_data():
    with pytest.raises(TypeError, match="must be a gpytorch.models.ExactGP, got a Linear"):
        apviz.gpytorch.hyperparameters(torch.nn.Linear(1, 1))
    with pytest.raises(ValueError, match="no training inputs"):
        apviz.gpytorch.hyperparameters(ExactGP(None, None, likelihoods.GaussianLikelihood()))


@pytest.mark.parametrize("make", [Named, Mixed, MixedFirst])
def test_a_subclass_with_another_constructor_is_accepted(make):
    e = example(30, 2, kernel=make())
    with exactly():
        mean = e.predict().mean
    e.model.prediction_strategy = None
    with apviz.gpytorch.alternating_projection():
        np.testing.assert_allclose(e.predict().mean, mean, atol=1e-8)


def test_the_covariance_with_a_copy_of_the_inputs_equals_that_of_the_inputs():
    class Copied(ExactGP):
        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x, x.clone()))

    e = example(30, 2, model=Copied)
    with exactly():
        mean = e.predict().mean
    e.model.prediction_strategy = None
    with apviz.gpytorch.alternating_projection(solver=apviz.Cholesky()):
        np.testing.assert_allclose(e.predict().mean, mean, atol=1e-8)
        with pytest.raises(ValueError, match="differ"):
            example(30, 2, model=Shifted).loss()
