"""What the context does not take of a GPyTorch model: it raises at the first call and names the part."""

from __future__ import annotations

import gpytorch
import numpy as np
import pytest
import torch
from test_gpytorch_examples import ExactGP, exactly, example

import apviz

kernels, likelihoods, means = gpytorch.kernels, gpytorch.likelihoods, gpytorch.means
TAKEN = "apviz takes RBF, Matérn, RQ, periodic, linear, polynomial, constant, cosine"
TWO = torch.Size([2])


class Jittered(ExactGP):
    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x).add_jitter(0.1))


class Learned(ExactGP):
    def __init__(self, *args):
        super().__init__(*args)
        self.features = torch.nn.Linear(2, 2)

    def forward(self, x):
        return super().forward(self.features(x))


class Shifted(ExactGP):
    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x, x + 0.3))


class Multitask(ExactGP):
    def forward(self, x):
        return gpytorch.distributions.MultitaskMultivariateNormal.from_independent_mvns([super().forward(x)] * 2)


class OtherDistance(kernels.RBFKernel):
    def covar_dist(self, *args, **kwargs):
        return 4 * super().covar_dist(*args, **kwargs)


class OtherCall(kernels.MaternKernel):
    def __call__(self, *args, **kwargs):
        return super().__call__(*args, **kwargs)


class OtherScale(kernels.ScaleKernel):
    @property
    def outputscale(self):
        return 2 * super().outputscale


class Named(kernels.RBFKernel):
    """Only made otherwise, with something of its own beside."""

    def __init__(self):
        super().__init__(ard_num_dims=2)
        self.made = "by hand"

    def describe(self):
        return self.made


class Beside:
    """Of plain Python, with the attributes that Python gives a class."""


class Mixed(Named, Beside, kernels.RBFKernel):
    pass


class MixedFirst(Beside, kernels.RBFKernel):
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
            {"kernel": kernels.ScaleKernel(kernels.ArcKernel(kernels.RBFKernel()))},
            TypeError,
            f"covar_module.base_kernel is an ArcKernel; {TAKEN}",
        ),
        (
            {"kernel": OtherDistance()},
            TypeError,
            "covar_module is an OtherDistance, which overrides covar_dist of.*RBF",
        ),
        ({"kernel": OtherCall()}, TypeError, "covar_module is an OtherCall, which overrides __call__ of"),
        ({"kernel": OtherScale(kernels.RBFKernel())}, TypeError, "which overrides outputscale of GPyTorch's ScaleKer"),
        ({"kernel": kernels.ScaleKernel(OtherDistance())}, TypeError, "covar_module.base_kernel is an OtherDistance"),
        ({"kernel": patched()}, TypeError, "covar_module is an RBFKernel, which overrides covar_dist"),
        ({"kernel": kernels.CosineKernel()}, TypeError, "covar_module is a CosineKernel"),
        ({"kernel": kernels.PiecewisePolynomialKernel(q=2)}, TypeError, "covar_module is a PiecewisePolynomialKernel"),
        ({"kernel": kernels.RBFKernel() + OtherDistance()}, TypeError, "covar_module.kernels.1 is an OtherDistance"),
        ({"kernel": kernels.RBFKernelGrad()}, TypeError, "covar_module is an RBFKernelGrad"),
        ({"kernel": kernels.RBFKernel(batch_shape=TWO)}, ValueError, r"covar_module has batch shape \(2,\)"),
        (
            {"likelihood": likelihoods.FixedNoiseGaussianLikelihood(torch.ones(30))},
            TypeError,
            "likelihood is a FixedNoiseGaussianLikelihood; apviz takes a GaussianLikelihood: one noise for all points",
        ),
        (
            {"likelihood": likelihoods.MultitaskGaussianLikelihood(num_tasks=2)},
            TypeError,
            "likelihood is a MultitaskGaussianLikelihood",
        ),
        (
            {"likelihood": likelihoods.GaussianLikelihood(batch_shape=TWO)},
            ValueError,
            r"likelihood.noise has shape \(2, 1\)",
        ),
        ({"model": Jittered}, TypeError, f"that Jittered.forward returned is an AddedDiagLinearOperator.*{TAKEN}"),
        ({"model": Shifted}, ValueError, r"Shifted.forward returned is k\(x, z\) for two sets of inputs, which differ"),
        ({"model": Multitask}, TypeError, "Multitask.forward returned a MultitaskMultivariateNormal"),
    ],
    ids=str,
)
def test_a_part_it_cannot_take_is_named_at_the_first_call(parts, error, message, training):
    e = example(30, 2, **parts)
    e.model.train(training)
    with apviz.gpytorch.alternating_projection(block_size=10), pytest.raises(error, match=message):
        e.model(e.x if training else e.test_x)


def test_a_likelihood_with_its_own_noise_model_is_refused():
    e = example(30, 2)
    e.likelihood.noise_covar = gpytorch.likelihoods.noise_models.FixedGaussianNoise(torch.ones(30))
    with pytest.raises(TypeError, match=r"likelihood.noise_covar is a FixedGaussianNoise|likelihood.noise"):
        apviz.gpytorch.hyperparameters(e.model)


def test_a_likelihood_given_to_the_objective_alone_is_checked_too():
    e = example(30, 2)
    other = likelihoods.FixedNoiseGaussianLikelihood(torch.linspace(0.1, 1, 30, dtype=torch.float64))
    e.model.train()
    with apviz.gpytorch.alternating_projection(block_size=10), pytest.raises(TypeError, match="different noises"):
        gpytorch.mlls.ExactMarginalLogLikelihood(other, e.model)(e.model(e.x), e.y)


def test_batches_of_training_inputs_or_targets_are_refused():
    e = example(30, 2)
    with apviz.gpytorch.alternating_projection(block_size=10):
        e.model.train()
        e.y = torch.stack([e.y, e.y])
        with pytest.raises(ValueError, match="targets have batch dimensions"):
            e.loss()
        e.model.set_train_data(targets=e.y, strict=False)
        with pytest.raises(ValueError, match=r"training targets have shape \(2, 30\)"):
            e.predict()


def test_missing_observations_and_cholesky_on_request_are_refused():
    e = example(30, 2)
    with apviz.gpytorch.alternating_projection(block_size=10):
        with (
            gpytorch.settings.observation_nan_policy("mask"),
            pytest.raises(ValueError, match="observation_nan_policy is 'mask'"),
        ):
            e.loss()
        with (
            gpytorch.settings.fast_computations(log_prob=False),
            pytest.raises(ValueError, match="asks for Cholesky"),
        ):
            e.loss()
        e.y[3] = torch.nan
        with pytest.raises(ValueError, match="NaN or infinite values"):
            e.loss()


def test_learned_features_are_taken_where_nothing_is_learned():
    e = example(40, 2, model=Learned)
    with exactly():
        mean = e.predict().mean
    e.model.prediction_strategy = None
    with torch.no_grad(), apviz.gpytorch.alternating_projection(block_size=20, tol=1e-8):
        np.testing.assert_allclose(e.predict().mean, mean, atol=1e-6)


def test_hyperparameters_are_those_of_the_model_and_solve_to_its_prediction():
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
        ({"kernel": kernels.RBFKernel(active_dims=[0])}, "does not see the training inputs as they are"),
        ({"model": Learned}, "does not see the training inputs as they are"),
    ],
)
def test_a_model_that_hyperparameters_do_not_describe_is_refused(parts, message):
    with pytest.raises(ValueError, match=message):
        apviz.gpytorch.hyperparameters(example(30, 2, **parts).model)


def test_hyperparameters_are_of_an_exact_gp_with_data():
    with pytest.raises(TypeError, match="must be a gpytorch.models.ExactGP, got a Linear"):
        apviz.gpytorch.hyperparameters(torch.nn.Linear(1, 1))
    with pytest.raises(ValueError, match="no training inputs"):
        apviz.gpytorch.hyperparameters(ExactGP(None, None, likelihoods.GaussianLikelihood()))


@pytest.mark.parametrize("make", [Named, Mixed, MixedFirst])
def test_a_kernel_that_a_subclass_only_makes_otherwise_is_taken(make):
    e = example(30, 2, kernel=make())
    with exactly():
        mean = e.predict().mean
    e.model.prediction_strategy = None
    with apviz.gpytorch.alternating_projection():
        np.testing.assert_allclose(e.predict().mean, mean, atol=1e-8)


def test_the_covariance_of_the_inputs_with_a_copy_of_themselves_is_that_of_the_inputs():
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
