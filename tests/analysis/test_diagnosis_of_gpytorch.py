"""Diagnoses of solves by GPyTorch's CG."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import apviz
from apviz.analysis.diagnosis import Limit, diagnose


def trained_by_gpytorch(kernel, tol, n=300, noise=0.05):
    """Return the trace of GPyTorch's CG in one step of a training."""
    gpytorch = pytest.importorskip("gpytorch")
    torch.manual_seed(0)  # for its probes
    rng = np.random.default_rng(0)
    x = torch.tensor(rng.uniform(-1, 1, (n, 2)))
    y = torch.sin(5 * x[:, 0]) + 0.3 * torch.tensor(rng.standard_normal(n))

    class Model(gpytorch.models.ExactGP):
        def __init__(self):
            super().__init__(x, y, gpytorch.likelihoods.GaussianLikelihood())
            self.mean_module, self.covar_module = gpytorch.means.ConstantMean(), kernel(gpytorch.kernels)

        def forward(self, z):
            return gpytorch.distributions.MultivariateNormal(self.mean_module(z), self.covar_module(z))

    model = Model().double()
    model.likelihood.noise = noise
    recorder, settings = apviz.Recorder(), gpytorch.settings
    mll = gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)
    by_cg = settings.max_cholesky_size(1), settings.max_preconditioner_size(0), settings.cg_tolerance(tol)
    with apviz.gpytorch.record_cg(recorder), by_cg[0], by_cg[1], by_cg[2]:
        (-mll(model(x), y)).backward()
    return recorder.trace


def scaled(name, lengthscale, **settings):
    def make(kernels):
        base = getattr(kernels, name)(**settings)
        base.lengthscale = lengthscale
        return kernels.ScaleKernel(base)

    return make


def test_the_minimum_iterations_of_gpytorch_are_not_mistaken_for_ill_conditioning():
    trace = trained_by_gpytorch(scaled("RBFKernel", 0.3), tol=1.0, noise=0.7)
    assert trace.converged and float(trace["epoch"]["work"][-1]) > 20
    found = diagnose(trace)
    assert found.limit is Limit.NOTHING
    assert "require at least 21" in found.evidence and "tolerance of 1 asks for almost nothing" in found.evidence


def test_a_gpytorch_solve_that_converged_at_a_tolerance_of_one_is_warned_about_it():
    trace = trained_by_gpytorch(scaled("MaternKernel", 0.1, nu=0.5), tol=1.0, n=900, noise=1e-4)
    assert trace.converged and float(trace["epoch"]["residual"][-1]) > 0.1
    found = diagnose(trace)
    assert found.limit is Limit.LOOSE and found.change == {"tol": 0.01}
    assert "tolerance of 1" in found.evidence and "gpytorch.settings.cg_tolerance(0.01)" in found.advice


@pytest.mark.filterwarnings("ignore:CG terminated")
def test_advice_for_gpytorch_uses_its_own_settings():
    slow = trained_by_gpytorch(scaled("RBFKernel", 0.3), tol=1e-3, noise=1e-2)
    assert "apviz.gpytorch.alternating_projection()" in diagnose(slow).advice
    slow.attrs["stop_reason"], slow.attrs["dtype"] = "stagnated", "float32"
    assert "model.double()" in diagnose(slow).advice
    rough = trained_by_gpytorch(scaled("MaternKernel", 0.1, nu=0.5), tol=1e-4, noise=0.5)
    rough.attrs["stop_reason"] = "max_epochs"
    rough.tree["epoch"] = rough["epoch"].isel(epoch=slice(0, 5))
    found = diagnose(rough)
    assert found.limit is Limit.CAP and f"max_cg_iterations({found.change['max_epochs']})" in found.advice


@pytest.mark.filterwarnings("ignore:CG terminated")
@pytest.mark.parametrize("tol", [1.0, 1e-8])
def test_a_recorded_kernel_that_apviz_lacks_is_diagnosed_without_its_kappa(tol):
    trace = trained_by_gpytorch(scaled("PeriodicKernel", 0.3), tol)
    assert math.isnan(float(trace["spectrum"]["kappa"]))
    found = diagnose(trace)
    assert "nan" not in found.evidence + found.advice and found.limit is not Limit.CONDITIONING
