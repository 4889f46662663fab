"""Predictions of GPyTorch models inside the context, against GPyTorch by Cholesky."""

from __future__ import annotations

import contextlib
import copy
import math

import gpytorch
import numpy as np
import pytest
import torch
from test_gpytorch_examples import EXAMPLES, ExactGP, Example, exactly, example, kernels, simple

import apviz
from tests.device import DEVICE

TIGHT = {"block_size": 40, "tol": 1e-8}
alternating_projection = apviz.gpytorch.alternating_projection


def reference(make):
    e = make()
    with exactly():
        found = e.predict()
        return found.mean, found.variance, found.covariance_matrix, found.log_prob(found.mean)


@EXAMPLES
def test_mean_variance_and_covariance_agree_with_gpytorch(make):
    mean, variance, covariance, density = reference(make)
    with alternating_projection(**TIGHT):
        found = make().predict()
        np.testing.assert_allclose(found.mean, mean, atol=1e-6)
        np.testing.assert_allclose(found.variance, variance, atol=1e-6)
        np.testing.assert_allclose(found.stddev, variance.sqrt(), atol=1e-6)
        lower, upper = found.confidence_region()
        np.testing.assert_allclose(upper - lower, 4 * variance.sqrt(), atol=1e-6)
        np.testing.assert_allclose(found.covariance_matrix, covariance, atol=1e-6)
        np.testing.assert_allclose(found.log_prob(mean), density, atol=1e-4)
        assert found.rsample(torch.Size([3])).shape == (3, 20)


@EXAMPLES
def test_the_latent_function_is_predicted_without_noise(make):
    e = make()
    with exactly():
        e.predict()
        with torch.no_grad():
            theirs = e.model(e.test_x).variance
    e.model.prediction_strategy = None
    with alternating_projection(**TIGHT), torch.no_grad():
        np.testing.assert_allclose(e.model(e.test_x).variance, theirs, atol=1e-6)


def test_a_variance_from_a_solve_that_stops_early_is_not_too_small():
    e = simple()
    with exactly():
        theirs = e.predict().variance
    e.model.prediction_strategy = None
    with alternating_projection(block_size=20, tol=0.3):
        assert (e.predict().variance >= theirs - 1e-12).all()


def test_code_with_fast_pred_var_runs_unchanged():
    _, variance, _, _ = reference(simple)
    with alternating_projection(**TIGHT), gpytorch.settings.fast_pred_var():
        np.testing.assert_allclose(simple().predict().variance, variance, atol=1e-6)


def test_float32_predictions_are_accurate_and_in_float32():
    with exactly():
        theirs = example(100).predict()
        mean, variance = theirs.mean, theirs.variance
    with alternating_projection(block_size=40, tol=1e-5):
        ours = example(100, dtype=torch.float32).predict()
        assert ours.mean.dtype == ours.variance.dtype == torch.float32
        np.testing.assert_allclose(ours.mean, mean, atol=1e-3)
        np.testing.assert_allclose(ours.variance, variance, atol=1e-3)


def test_unused_variances_are_not_solved_for_and_nothing_is_solved_twice():
    e, recorder = simple(), apviz.Recorder()
    with alternating_projection(block_size=40, hooks=[recorder]):
        e.predict().mean  # noqa: B018
        e.predict().mean  # noqa: B018
        assert len(recorder.traces) == 1
        found = e.predict()
        found.variance, found.stddev, found.confidence_region()
        assert len(recorder.traces) == 2


def test_new_data_or_hyperparameters_cause_a_new_solve():
    e = simple()
    with alternating_projection(**TIGHT):
        e.predict()
        e.model.set_train_data(e.x + 0.1, e.y)
        moved = e.predict().mean
        e.likelihood.noise = 1.0
        noisy = e.predict().mean
    other = simple()
    other.model.set_train_data(other.x + 0.1, other.y)
    with exactly():
        np.testing.assert_allclose(moved, other.predict().mean, atol=1e-6)
        other.model.prediction_strategy = None
        other.likelihood.noise = 1.0
        np.testing.assert_allclose(noisy, other.predict().mean, atol=1e-6)


class Weighted(gpytorch.kernels.Kernel):
    """A kernel with weights of the inputs that are not parameters."""

    has_lengthscale = True

    def __init__(self):
        super().__init__()
        self.register_buffer("weights", torch.ones(1, dtype=torch.float64))

    def forward(self, x1, x2, **params):
        return gpytorch.kernels.RBFKernel.forward(self, x1 * self.weights, x2 * self.weights, **params)


@pytest.mark.filterwarnings("ignore:apviz does not implement all of the kernel")
@pytest.mark.parametrize("how", ["train", "load_state_dict"])
def test_a_prediction_is_solved_again_whenever_gpytorch_clears_its_caches(how):
    found = []
    for context in (exactly(), alternating_projection(**TIGHT)):
        e = example(50, 1, Weighted())
        with context:
            e.predict()
            if how == "train":
                e.model.train()
                e.model.covar_module.weights.fill_(3.0)
            else:
                weights = torch.full((1,), 3.0, dtype=torch.float64)
                e.model.load_state_dict({**e.model.state_dict(), "covar_module.weights": weights})
            found.append(e.predict().mean)
    np.testing.assert_allclose(*found, atol=1e-6)


def test_settings_that_skip_variances_or_data_are_respected():
    e = simple()
    with alternating_projection(block_size=40):
        with gpytorch.settings.skip_posterior_variances():
            e.model.eval()
            with torch.no_grad():
                assert (e.model(e.test_x).lazy_covariance_matrix.to_dense() == 0).all()
        with gpytorch.settings.prior_mode():
            assert (e.predict().mean == 0).all()


def test_after_the_context_gpytorch_predicts_bitwise_as_without_it():
    e, fresh = simple(), simple()
    with alternating_projection(block_size=40, tol=0.5):
        e.predict().variance  # noqa: B018
    with exactly():
        ours, theirs = e.predict(), fresh.predict()
        assert torch.equal(ours.mean, theirs.mean)
        assert torch.equal(ours.variance, theirs.variance)


def test_a_distribution_created_inside_the_context_works_outside():
    _, variance, _, _ = reference(simple)
    with alternating_projection(**TIGHT):
        found = simple().predict()
    np.testing.assert_allclose(found.variance, variance, atol=1e-6)


def test_a_covariance_whose_solve_does_not_converge_warns():
    with alternating_projection(block_size=10, tol=1e-9, max_epochs=1), pytest.warns(match="not converged"):
        simple().predict().covariance_matrix  # noqa: B018


def tutorial(dtype=torch.float64):
    """Train GPyTorch's "Simple GP Regression": 100 points of sin(2πx) with noise, 50 Adam steps, 51 test points."""
    torch.manual_seed(0)
    x = torch.linspace(0, 1, 100, dtype=torch.float64)
    y = torch.sin(x * (2 * math.pi)) + torch.randn(x.size(), dtype=torch.float64) * math.sqrt(0.04)
    x, y, z = (values.to(DEVICE) for values in (x, y, torch.linspace(0, 1, 51, dtype=torch.float64)))
    e = Example(ExactGP(x, y, gpytorch.likelihoods.GaussianLikelihood()).to(DEVICE, torch.float64), x, y, z)
    with exactly():
        e.train(50)
    e.model.to(dtype)
    return Example(e.model, x.to(dtype), y.to(dtype), e.test_x.to(dtype))


def latent(e):
    e.model.eval()
    with torch.no_grad():
        return e.model(e.test_x)


BOTH = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
SOLVERS = pytest.mark.parametrize("settings", [{}, {"tol": 1e-2}, {"block_size": 20}], ids=str)


@pytest.mark.parametrize(
    ("settings", "dtype"),
    [
        ({}, torch.float64), ({"tol": 1e-2}, torch.float64), ({"block_size": 20}, torch.float32),
        *(
            pytest.param(settings, dtype, marks=pytest.mark.slow)
            for settings, dtype in [
                ({}, torch.float32), ({"tol": 1e-2}, torch.float32), ({"block_size": 20}, torch.float64),
            ]
        ),
    ],
    ids=str,
)  # fmt: skip
def test_covariance_and_variance_of_one_distribution_agree_with_each_other_and_with_gpytorch(settings, dtype):
    reference = tutorial()
    with exactly():
        exact = latent(reference).covariance_matrix
    first, second, third = (tutorial(dtype) for _ in range(3))
    with alternating_projection(**settings):
        found = latent(first)
        covariance, variance = latent(second).covariance_matrix.double(), found.variance.double()
        assert torch.equal(found.covariance_matrix.diagonal(), found.variance)
        again = latent(third)
        assert torch.equal(again.covariance_matrix.diagonal(), again.variance)
    ratio = covariance.diagonal() / variance
    assert ((ratio > 1 / 1.001) & (ratio < 1.001)).all()
    # float32 resolves k(x, x) − cᵀK⁻¹c to about 1e-6 for a variance near 1e-3
    scale, tol = exact.diagonal().max(), 1e-3 if dtype is torch.float64 else 5e-3
    assert ((covariance - exact).abs() < tol * scale).all()
    assert ((variance / exact.diagonal() < 1 + 2 * tol) & (variance / exact.diagonal() > 1 - 2 * tol)).all()


@SOLVERS
def test_samples_have_the_deviations_of_the_distribution(settings):
    with exactly():
        exact = latent(tutorial()).stddev
    e = tutorial()
    with alternating_projection(**settings):
        torch.manual_seed(0)
        drawn = latent(e).rsample(torch.Size([20_000])).std(0)
    np.testing.assert_allclose(drawn / exact, 1.0, atol=0.03)


TAKEN = {
    "mean": lambda p: p.mean,
    "variance": lambda p: p.variance,
    "stddev": lambda p: p.stddev,
    "covariance": lambda p: p.covariance_matrix,
    "part": lambda p: p[2:7].covariance_matrix,
    "samples": lambda p: p.rsample(torch.Size([2]), base_samples=torch.linspace(-1, 1, 40).to(p.mean).reshape(2, 20)),
    "density": lambda p: p.log_prob(torch.zeros_like(p.mean)),
}


def weighted(values):
    return (values * torch.linspace(-1, 2, values.numel()).to(values).reshape(values.shape)).sum()


@pytest.mark.parametrize("take", TAKEN.values(), ids=TAKEN.keys())
@pytest.mark.parametrize("noisy", [False, True], ids=["latent", "observed"])
def test_gradients_of_predictions_agree_with_cholesky(take, noisy):
    found = []
    # without this setting, gradients of GPyTorch omit the dependence of the means on K⁻¹
    for context in (contextlib.nullcontext, lambda: alternating_projection(solver=apviz.Automatic(tol=1e-9))):
        e = simple()
        e.model.train()
        e.model.eval()
        e.likelihood.eval()
        z = e.test_x.clone().requires_grad_()
        with context(), gpytorch.settings.detach_test_caches(False):
            predicted = e.likelihood(e.model(z)) if noisy else e.model(z)
            weighted(take(predicted)).backward()
        found.append({name: p.grad for name, p in e.model.named_parameters()} | {"z": z.grad})
    for name, expected in found[0].items():
        if expected is None:
            assert found[1][name] is None or not found[1][name].any()
        else:
            torch.testing.assert_close(found[1][name], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("batch", [(3,), (2, 3)], ids=str)
@pytest.mark.parametrize("q", [1, 4])
def test_predictions_and_gradients_for_batches_of_test_inputs_agree_with_gpytorch(batch, q):
    found = []
    inputs = torch.rand(*batch, q, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).to(DEVICE)
    for context in (contextlib.nullcontext, lambda: alternating_projection(solver=apviz.Automatic(tol=1e-9))):
        e = simple()
        e.model.train()
        e.model.eval()
        z = inputs[..., : e.x.shape[1]].clone().requires_grad_()
        with context():
            predicted = e.model(z)
            mean, variance, covariance = predicted.mean, predicted.variance, predicted.covariance_matrix
            gradients = [
                torch.autograd.grad(weighted(v), z, retain_graph=True)[0] for v in (mean, variance, covariance)
            ]
            found.append([v.detach() for v in (mean, variance, covariance)] + gradients)
    for ours, theirs in zip(found[1], found[0], strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


TWICE = {
    "RBF": lambda: kernels.RBFKernel(ard_num_dims=2),
    "Matérn-5/2": lambda: kernels.MaternKernel(2.5),
    "rational quadratic": lambda: kernels.RQKernel(),
    "sum": lambda: kernels.RBFKernel() + kernels.ScaleKernel(kernels.PeriodicKernel(active_dims=[0])),
    "product with a polynomial": lambda: kernels.RBFKernel() * kernels.PolynomialKernel(2),
    "by its own code": lambda: kernels.AdditiveKernel(
        kernels.RBFKernel(), kernels.ArcKernel(kernels.MaternKernel(2.5))
    ),
}


@pytest.mark.parametrize("name", ["mean", "variance", "covariance"])
@pytest.mark.parametrize("kernel", TWICE.values(), ids=TWICE.keys())
def test_second_derivatives_in_test_inputs_agree_with_cholesky(kernel, name):
    found, take = [], TAKEN[name]
    for context in (exactly, lambda: alternating_projection(solver=apviz.Automatic(tol=1e-10))):
        e = example(40, 2, kernels.ScaleKernel(kernel()))
        e.model.eval()
        z = e.test_x[:3].clone().requires_grad_()
        with context():
            (first,) = torch.autograd.grad(weighted(take(e.model(z))), z, create_graph=True)
            (second,) = torch.autograd.grad(weighted(first), z)
            found.append((first.detach(), second))
    for ours, theirs in zip(found[1], found[0], strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6 * float(theirs.abs().max()))


def test_second_derivatives_are_continuous_at_a_training_input():
    e = example(40, 2, kernels.ScaleKernel(kernels.MaternKernel(2.5)))
    e.model.eval()
    found = []
    for step in (0.0, 1e-7):
        z = (e.x[:1] + step).clone().requires_grad_()
        with alternating_projection(solver=apviz.Automatic(tol=1e-10)):
            (first,) = torch.autograd.grad(e.model(z).mean.sum(), z, create_graph=True)
            found.append(torch.autograd.grad(first.sum(), z)[0])
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-4)
    assert found[0].abs().max() > 1e-3


def test_a_second_derivative_in_the_model_raises():
    e = simple()
    e.model.eval()
    parameters = list(e.model.parameters())
    with alternating_projection(**TIGHT):
        for take in (TAKEN["mean"], TAKEN["variance"]):
            first = torch.autograd.grad(take(e.model(e.test_x)).sum(), parameters, create_graph=True, allow_unused=True)
            with pytest.raises(RuntimeError, match="twice in test inputs, but only once in the model"):
                sum(each.sum() for each in first if each is not None).backward()
            with torch.no_grad():
                assert not take(e.model(e.test_x)).requires_grad


def test_a_variance_solver_is_used_for_variance_and_covariance():
    e, recorder = simple(), apviz.Recorder()
    with alternating_projection(block_size=40, variance_solver=apviz.ConjugateGradient(tol=1e-9), hooks=[recorder]):
        found = latent(e)
        found.variance, latent(copy.deepcopy(e)).covariance_matrix
    labels = [trace.method_name for trace in recorder.traces]
    assert labels.count("CG") == 2 and len(labels) == 4


PARTS = {
    "slice": lambda p: p[3:7],
    "head": lambda p: p[:10],
    "tail": lambda p: p[-4:],
    "ellipsis": lambda p: p[..., 2:4],
    "step": lambda p: p[1::3],
    "all": lambda p: p[:],
    "part of a part": lambda p: p[3:17][2:9],
    "positions": lambda p: p[torch.tensor([1, 5, 3, 3])],
    "list": lambda p: p[[4, 2]],
    "expand": lambda p: p.expand(torch.Size([3])),
    "unsqueeze": lambda p: p.unsqueeze(0),
}


@pytest.mark.parametrize("noisy", [False, True])
@pytest.mark.parametrize("take", PARTS.values(), ids=PARTS)
def test_a_part_of_a_prediction_agrees_with_gpytorch_and_with_the_whole(take, noisy):
    e = simple()

    def predicted():
        return e.predict() if noisy else latent(e)

    with exactly():
        theirs = take(predicted())
        mean, variance, covariance = theirs.mean, theirs.variance, theirs.covariance_matrix
    e.model.prediction_strategy = None
    with alternating_projection(**TIGHT), torch.no_grad():
        part = take(predicted())
        np.testing.assert_allclose(part.variance, variance, atol=1e-6)
        np.testing.assert_allclose(take(predicted()).covariance_matrix, covariance, atol=1e-6)
        np.testing.assert_allclose(part.mean, mean, atol=1e-6)
        assert part.rsample(torch.Size([2])).shape == (2, *mean.shape)
    # so loose that another solve gives other numbers
    with alternating_projection(block_size=20, tol=0.1), torch.no_grad():
        whole = predicted()
        np.testing.assert_allclose(take(whole).variance, take(whole).covariance_matrix.diagonal(dim1=-2, dim2=-1))
        if mean.ndim == 1:
            rows = take(torch.arange(20))
            assert torch.equal(take(whole).variance, whole.variance[rows])
            assert torch.equal(take(whole).covariance_matrix, whole.covariance_matrix[rows][:, rows])


def test_the_variances_of_a_part_need_no_covariance_and_are_solved_once(monkeypatch):
    monkeypatch.setattr(apviz.gp.prediction.posterior.Posterior, "covariance", None)
    recorder = apviz.Recorder()
    with alternating_projection(block_size=40, hooks=[recorder]), torch.no_grad():
        found = latent(simple())
        found[:3].variance, found[3:9].stddev, found.variance
    assert len(recorder.traces) == 2


def test_entries_of_the_covariance_equal_those_of_the_whole():
    with alternating_projection(**TIGHT), torch.no_grad():
        lazy = latent(simple()).lazy_covariance_matrix
        whole, rows, columns = lazy.to_dense(), torch.tensor([1, 4, 2]), torch.tensor([0, 4, 7])
        assert torch.equal(lazy[rows, columns], whole[rows, columns])
        assert torch.equal(lazy[rows, rows], whole[rows, rows])
        assert torch.equal(lazy[2], whole[2]) and lazy[2, 3] == whole[2, 3]
        assert torch.equal(lazy[2:5, 1:3].to_dense(), whole[2:5, 1:3])
        assert torch.equal(lazy[rows, 1:3].to_dense(), whole[rows, 1:3])
        assert torch.equal(lazy.unsqueeze(0).to_dense(), whole[None])
        assert torch.equal(lazy.expand(3, 20, 20).to_dense(), whole.expand(3, 20, 20))
        assert torch.equal(lazy.repeat(2, 1, 1).to_dense(), whole.repeat(2, 1, 1))


@pytest.mark.parametrize("noisy", [False, True])
def test_an_index_that_gpytorch_rejects_too_is_named(noisy):
    e = simple()
    with alternating_projection(block_size=40), torch.no_grad():
        found = e.predict() if noisy else latent(e)
        with pytest.raises(IndexError, match=r"indexed with a mask; it takes .* such as mask.nonzero\(\)\[:, 0\]"):
            found[torch.arange(20) > 15]
        with pytest.raises(IndexError, match=r"indexed with None; .* unsqueeze\(0\)"):
            found[None]


def test_a_fantasy_model_has_old_and_new_data_and_uses_gpytorch_if_that_predicted_before():
    e, x, y = simple(), *(torch.rand(shape, dtype=torch.float64, device=DEVICE) for shape in ((3, 1), (3,)))
    with alternating_projection(**TIGHT), torch.no_grad():
        latent(e).mean  # noqa: B018
        fantasy = e.model.get_fantasy_model(x, y)(e.test_x).mean
        e.model.set_train_data(torch.cat([e.x, x]), torch.cat([e.y, y]), strict=False)
        ours = latent(e).mean
    np.testing.assert_allclose(fantasy, ours, atol=1e-6)
    other = simple()
    with exactly(), torch.no_grad():
        latent(other).mean  # noqa: B018
        theirs = Example(other.model.get_fantasy_model(x, y), None, None, other.test_x)
        np.testing.assert_allclose(ours, latent(theirs).mean, atol=1e-6)
        with alternating_projection(**TIGHT):
            fantasy = other.model.get_fantasy_model(x, y)
            np.testing.assert_allclose(fantasy(other.test_x).mean, ours, atol=1e-6)
