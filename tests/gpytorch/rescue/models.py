"""Small models, their training and prediction by GPyTorch, and the same by NumPy from its kernel in float64."""

from __future__ import annotations

import copy
import warnings

import gpytorch
import numpy as np
import torch

from tests.device import DEVICE
from tests.gpytorch.test_gpytorch_examples import ExactGP, exactly, kernels


def gaussian(noise, floor=1e-9, kind=gpytorch.likelihoods.GaussianLikelihood, **given):
    made = kind(noise_constraint=gpytorch.constraints.GreaterThan(floor), **given)
    made.noise = noise
    return made


def rbf(lengthscale, outputscale=1.0):
    made = kernels.ScaleKernel(kernels.RBFKernel())
    made.base_kernel.lengthscale, made.outputscale = lengthscale, outputscale
    return made


def model_of(x, y, noise, kernel, dtype=torch.float64, mean=None):
    x, y = (torch.as_tensor(v).to(DEVICE, dtype) for v in (x, y))
    return ExactGP(x, y, gaussian(noise), mean, kernel).to(DEVICE, dtype)


def uniform(n, d, seed=0):
    return np.random.default_rng(seed).uniform(-1, 1, (n, d))


def waves(n=200, seed=0):
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(0, 1, n))
    return x, np.sin(6 * x) + 0.1 * rng.standard_normal(n)


def step(model):
    """Do one step of a training; return its loss, its gradients and the warnings."""
    model.train()
    model.likelihood.train()
    model.zero_grad()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.manual_seed(0)
        loss = -gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)(
            model(*model.train_inputs), model.train_targets
        )
        loss.backward()
    gradient = torch.cat([p.grad.double().reshape(-1) for p in model.parameters()])
    return float(loss.detach()), gradient, [str(w.message) for w in caught]


def on(values):
    """Return a copy on the device of the tests."""
    return values.to(DEVICE)


def predict(model, z):
    """Return mean, variance with noise, unclamped variance of f, and the warnings."""
    model.eval()
    model.likelihood.eval()
    with warnings.catch_warnings(record=True) as caught, torch.no_grad():
        warnings.simplefilter("always")
        f = model(z)
        found = model.likelihood(f)
        return found.mean, found.variance, f.lazy_covariance_matrix.diagonal(), [str(w.message) for w in caught]


def dense(model, z):
    """Return mean and variance with noise by NumPy, from GPyTorch's kernel in float64."""
    with torch.no_grad(), exactly():
        double = copy.deepcopy(model.train()).double()
        x, y = model.train_inputs[0].double(), model.train_targets.double()
        k = double.covar_module(x).to_dense().numpy()
        c = double.covar_module(x, z.double()).to_dense().numpy()
        own = double.covar_module(z.double()).diagonal(dim1=-1, dim2=-2).numpy()
        mean_x, mean_z = double.mean_module(x).numpy(), double.mean_module(z.double()).numpy()
        noise = float(double.likelihood.noise)
    k += noise * np.eye(len(k))
    solved = np.linalg.solve(k, np.c_[(y.numpy() - mean_x)[:, None], c])
    return mean_z + c.T @ solved[:, 0], own - (c * solved[:, 1:]).sum(0) + noise


def exact_gradient(model):
    double = copy.deepcopy(model.train()).double()
    double.set_train_data(model.train_inputs[0].double(), model.train_targets.double(), strict=False)
    with exactly():
        return step(double)[1]


def far(found, truth):
    """Return the largest error of a mean in predictive deviations, and the largest ratio of variances minus 1."""
    mean, variance = (v.double().numpy() for v in found[:2])
    ratio = variance / truth[1]
    return (np.abs(mean - truth[0]) / np.sqrt(truth[1])).max(), np.maximum(ratio, 1 / ratio).max() - 1


def in_float64(model):
    made = copy.deepcopy(model.train()).double()
    made.set_train_data(model.train_inputs[0].double(), model.train_targets.double(), strict=False)
    return made
