"""Training GPyTorch models inside the context, against GPyTorch by Cholesky."""

from __future__ import annotations

import math
import warnings

import gpytorch
import numpy as np
import pytest
import torch
from gpytorch.lazy import LazyEvaluatedKernelTensor
from gpytorch.utils.warnings import NumericalWarning
from test_gpytorch_examples import EXAMPLES, ard, close, exact_probes, exactly, example, simple

import apviz
from tests.device import DEVICE

kernels, means = gpytorch.kernels, gpytorch.means
pytestmark = pytest.mark.filterwarnings("ignore:the value of the marginal log likelihood leaves out")


def tight(n, **settings):
    """Return solves to 1e-10 and exact probes, so that nothing is random."""
    return apviz.gpytorch.alternating_projection(block_size=40, tol=1e-10, probes=exact_probes(n), **settings)


@EXAMPLES
def test_training_gives_the_hyperparameters_of_gpytorch(make):
    with exactly():
        theirs = make().train()
    e = make()
    with tight(len(e.x)):
        ours = e.train()
    close(ours, theirs, atol=1e-7)


@EXAMPLES
def test_the_gradients_of_both_terms_agree_with_gpytorch(make):
    def terms(e):
        e.model.train()
        covariance = e.likelihood(e.model(e.x)).lazy_covariance_matrix.evaluate_kernel()
        residual = (e.y - e.model.mean_module(e.x))[:, None]
        return covariance.inv_quad_logdet(residual, logdet=True)

    for i in (0, 1):
        e = make()
        with exactly():
            theirs = gradients_of(e, terms(e)[i])
        with tight(len(e.x)):
            ours = gradients_of(e, terms(e)[i])
        close(ours, theirs, rtol=1e-7, atol=1e-7)


def gradients_of(e, value):
    found = torch.autograd.grad(value, list(e.model.parameters()), allow_unused=True)
    names = [name for name, _ in e.model.named_parameters()]
    return {n: torch.zeros(()) if g is None else g.sum() for n, g in zip(names, found, strict=True)}


def test_the_mean_of_gradients_with_random_probes_equals_the_gradient():
    e = example(40, 2, kernels.ScaleKernel(kernels.MaternKernel(1.5, ard_num_dims=2)))
    with exactly():
        theirs = e.gradients()
    samples = []
    with apviz.gpytorch.alternating_projection(solver=apviz.Cholesky(), probes=4, log_determinant="skip"):
        for _ in range(100):
            samples.append(e.gradients())
    for name, exact in theirs.items():
        drawn = torch.stack([s[name] for s in samples])
        assert (drawn.std(0) > 0).all() or "mean" in name
        error = drawn.std(0) / math.sqrt(len(samples))
        assert ((drawn.mean(0) - exact).abs() <= 4 * error + 1e-12).all(), name


@pytest.mark.parametrize("mean", [means.ZeroMean(), means.ConstantMean(), means.LinearMean(2)])
def test_gradients_flow_into_any_mean_module(mean):
    e = example(60, 2, mean=mean)
    with exactly():
        theirs = e.gradients()
    with tight(60):
        close(e.gradients(), theirs, atol=1e-8)


@pytest.mark.parametrize(
    "kernel",
    [
        kernels.ScaleKernel(kernels.MaternKernel(0.5)),
        kernels.ScaleKernel(kernels.MaternKernel(1.5)),
        kernels.ScaleKernel(kernels.MaternKernel(2.5, ard_num_dims=2)),
        kernels.ScaleKernel(kernels.RBFKernel(ard_num_dims=2)),
        kernels.RBFKernel(),
        kernels.MaternKernel(2.5),
        kernels.ScaleKernel(kernels.RBFKernel(active_dims=[1])),
        kernels.ScaleKernel(kernels.keops.MaternKernel(1.5, ard_num_dims=2)),
        kernels.keops.RBFKernel(),
    ],
    ids=lambda kernel: repr(kernel).split("\n")[0][:12],
)
def test_every_supported_kernel_has_the_gradients_and_predictions_of_gpytorch(kernel):
    e = example(60, 2, kernel)
    with exactly():
        theirs, there = e.gradients(), e.predict()
        mean, variance = there.mean, there.variance
    e.model.prediction_strategy = None
    with tight(60):
        close(e.gradients(), theirs, atol=1e-7)
        here = e.predict()
        np.testing.assert_allclose(here.mean, mean, atol=1e-7)
        np.testing.assert_allclose(here.variance, variance, atol=1e-7)


def test_float32_is_close_to_float64():
    e = example(100, 2, dtype=torch.float32)
    with exactly():
        theirs = example(100, 2).gradients()
    with apviz.gpytorch.alternating_projection(block_size=40, tol=1e-5, probes=exact_probes(100)):
        ours = e.gradients()
    assert all(g.dtype == torch.float32 for g in ours.values())
    close(ours, theirs, rtol=1e-3, atol=1e-5)


def test_priors_on_hyperparameters_are_included():
    gamma = gpytorch.priors.GammaPrior(3.0, 6.0)
    e = example(50, 1, kernels.ScaleKernel(kernels.RBFKernel(lengthscale_prior=gamma), outputscale_prior=gamma))
    with exactly():
        theirs = e.gradients()
    with tight(50):
        close(e.gradients(), theirs, atol=1e-8)


def test_the_value_without_the_log_determinant_warns_once():
    e = simple()
    with torch.no_grad():
        k = e.likelihood(e.model(e.x)).covariance_matrix
    quadratic = float(e.y @ torch.linalg.solve(k, e.y))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with tight(100):
            losses = [e.loss().item(), e.loss().item()]
    np.testing.assert_allclose(losses, (quadratic + 100 * math.log(2 * math.pi)) / 200, rtol=1e-9)
    said = [str(w.message) for w in caught if "log det K" in str(w.message)]
    assert len(said) == 1
    assert "log_determinant='lanczos'" in said[0]


def test_skipping_the_log_determinant_on_request_does_not_warn():
    with warnings.catch_warnings(), gpytorch.settings.skip_logdet_forward(), tight(100):
        warnings.simplefilter("error")
        simple().loss()


def test_the_value_by_lanczos_is_close_to_the_loss():
    e = ard()
    with exactly():
        theirs = e.loss().item()
    with tight(150, log_determinant="lanczos"):
        ours = e.loss().item()
    np.testing.assert_allclose(ours, theirs, atol=0.02)


@EXAMPLES
def test_if_k_is_factored_value_and_gradient_equal_those_of_gpytorch_without_probes(make):
    e = make()
    with exactly():
        theirs, gradients = e.loss().item(), e.gradients()
    for settings in ({}, {"solver": apviz.Cholesky()}):
        with warnings.catch_warnings(), apviz.gpytorch.alternating_projection(**settings):
            warnings.simplefilter("error")
            np.testing.assert_allclose(e.loss().item(), theirs, rtol=1e-10)
            close(e.gradients(), gradients, atol=1e-10)


def test_the_gradient_of_the_value_by_lanczos_agrees_with_differences_and_is_repeatable():
    e = ard()
    with apviz.gpytorch.alternating_projection(block_size=40, tol=1e-10, log_determinant="lanczos"):
        gradients, value = e.gradients(), e.loss().item()
        assert e.loss().item() == value
        close(e.gradients(), gradients, rtol=0)
        for name, p in e.model.named_parameters():
            flat, found = p.data.view(-1), gradients[name].view(-1)
            for i in range(len(flat)):
                start, values = flat[i].item(), []
                for step in (1e-4, -1e-4):
                    flat[i] = start + step
                    values.append(e.loss().item())
                flat[i] = start
                np.testing.assert_allclose((values[0] - values[1]) / 2e-4, found[i], atol=1e-6, err_msg=name)


def test_deterministic_probes_of_gpytorch_are_kept_from_step_to_step():
    e = simple()
    with gpytorch.settings.deterministic_probes(), apviz.gpytorch.alternating_projection(block_size=50, tol=1e-10):
        first, second = e.gradients(), e.gradients()
    close(first, second, rtol=0)


@pytest.mark.parametrize("settings", [{}, {"block_size": 50}, {"block_size": 50, "log_determinant": "lanczos"}])
def test_second_derivatives_raise_if_they_would_be_wrong(settings):
    e = simple()
    parameters = list(e.model.parameters())
    with apviz.gpytorch.alternating_projection(**settings):
        first = torch.autograd.grad(e.loss(), parameters, create_graph=True)
        plain = torch.autograd.grad(e.loss(), parameters) if not settings else first
        for a, b in zip(first, plain, strict=True):
            torch.testing.assert_close(a.detach(), b.detach())
        for g in first:
            with pytest.raises(RuntimeError, match="no second derivatives of the marginal log likelihood"):
                torch.autograd.grad(g.sum(), parameters, allow_unused=True, retain_graph=True)


def test_a_seed_determines_a_training_and_its_steps_draw_different_probes():
    def trained(seed):
        e = simple()
        with apviz.gpytorch.alternating_projection(block_size=50, seed=seed):
            return e.train(3)

    close(trained(1), trained(1), rtol=0)
    assert any((trained(1)[name] != value).any() for name, value in trained(2).items())
    e = simple()
    with apviz.gpytorch.alternating_projection(block_size=50, tol=1e-10):
        first, second = e.gradients(), e.gradients()
    assert any((first[name] != second[name]).any() for name in first)


def test_the_number_of_probes_follows_gpytorch_and_every_solve_is_recorded():
    e, recorder = simple(), apviz.Recorder()
    with gpytorch.settings.num_trace_samples(7), apviz.gpytorch.alternating_projection(block_size=50, hooks=[recorder]):
        e.gradients()
        e.gradients()
    with apviz.gpytorch.alternating_projection(block_size=50, hooks=[recorder], probes=3, dataset="sine"):
        e.gradients()
        with torch.no_grad():
            e.loss()
    assert [t.attrs["right_hand_sides"] for t in recorder.traces] == [8, 8, 4, 1]
    assert recorder.traces[0].attrs["seed"] != recorder.traces[1].attrs["seed"]
    assert recorder.trace.attrs["dataset"] == "sine"


def test_another_solver_trains_with_probes_of_its_preconditioner():
    e = example(80, 1, kernels.ScaleKernel(kernels.MaternKernel(2.5)))
    with exactly():
        theirs = e.gradients()
    solver = apviz.ConjugateGradient(preconditioner=apviz.PivotedCholesky(rank=30), tol=1e-8)
    with apviz.gpytorch.alternating_projection(solver=solver, probes=200):
        ours = e.gradients()
    close(ours, theirs, atol=2e-3)


def test_the_matrix_is_never_evaluated(monkeypatch):
    def evaluated(*_):
        raise AssertionError("n × n entries were asked for")

    e = simple()
    with apviz.gpytorch.alternating_projection(block_size=50):
        monkeypatch.setattr(LazyEvaluatedKernelTensor, "evaluate_kernel", evaluated)
        monkeypatch.setattr(LazyEvaluatedKernelTensor, "to_dense", evaluated)
        e.gradients()
        prediction = e.predict()
        assert torch.isfinite(prediction.mean).all() and (prediction.variance > 0).all()


def test_a_solve_that_does_not_converge_warns_with_its_residual_and_advice():
    with (
        apviz.gpytorch.alternating_projection(block_size=10, tol=1e-9, max_epochs=1),
        pytest.warns(
            NumericalWarning, match=r"has not converged: mean relative residual \d.*, tolerance 1e-09.*raise it"
        ),
    ):
        simple().gradients()


def test_probes_of_another_number_of_rows_are_rejected():
    with (
        apviz.gpytorch.alternating_projection(block_size=50, probes=torch.ones(7, 2)),
        pytest.raises(ValueError, match="probes has 7 rows, the model has 100 training points"),
    ):
        simple().gradients()


def test_jitter_added_to_the_marginal_acts_as_noise():
    def loss(e):
        e.model.train()
        return -e.likelihood(e.model(e.x)).add_jitter(0.05).log_prob(e.y)

    e, recorder = simple(), apviz.Recorder()
    with exactly():
        value = loss(e)
        theirs = e.gradients(value)
    with apviz.gpytorch.alternating_projection(solver=apviz.Cholesky(), hooks=[recorder]):
        ours = loss(e)
        close(e.gradients(ours), theirs, rtol=1e-8, atol=1e-8)
    assert float(ours.detach()) == pytest.approx(float(value.detach()), rel=1e-10) and len(recorder.traces) == 1


def test_noises_added_to_the_marginal_act_as_noise_per_row():
    e, added = simple(), torch.linspace(0.1, 1, 100, dtype=torch.float64, device=DEVICE)

    def density():
        marginal = e.likelihood(e.model.train()(e.x))
        more = marginal.lazy_covariance_matrix.add_diagonal(added)
        return float(type(marginal)(marginal.mean, more).log_prob(e.y).detach())

    with exactly():
        expected = density()
    with apviz.gpytorch.alternating_projection(solver=apviz.Cholesky()):
        assert density() == pytest.approx(expected, rel=1e-10)
