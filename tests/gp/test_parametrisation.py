"""Raw parameters of any kernel: conversion in both directions, the chain rule, and fixed parameters."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import apviz
from apviz.gp.training.gradient import Gradient
from apviz.gp.training.parametrisation import Parametrisation

KERNELS = {
    "by ARD": apviz.Matern52(lengthscale=(0.3, 0.7), outputscale=1.7),
    "sum": 2.0 * apviz.RBF(lengthscale=0.4).on(0) + apviz.Periodic(lengthscale=0.5, period=0.9).on(1),
    "product": apviz.RationalQuadratic(alpha=0.6) * apviz.Linear(lengthscale=2.0),
    "scaled": 3.0
    * (apviz.Matern32(lengthscale=0.5) * apviz.Cosine(period=0.8).on(1) + apviz.Constant(outputscale=0.2)),
    "of groups": apviz.Groups(factor=[[1.0], [-2.0]], variances=[0.5, 0.0]).on(1) * apviz.Matern52().on(0),
    "spectral": apviz.SpectralMixture(weights=[1.0, 0.5], means=[0.0, 2.0], scales=[0.1, 0.3]).on(0),
}


@pytest.mark.parametrize("transform", ["softplus", "log"])
@pytest.mark.parametrize("name", KERNELS)
def test_raw_parameters_map_back_to_their_hyperparameters(name, transform):
    kernel = KERNELS[name]
    of = Parametrisation(kernel, 1e-4, transform=transform)
    h = apviz.Hyperparameters.of(kernel, 0.05, -0.3)
    again = of.hyperparameters(of.raw(h))
    assert (again.mean, again.noise) == (pytest.approx(-0.3), pytest.approx(0.05))
    for value, expected in zip(again.build_kernel().numbers.values(), kernel.numbers.values(), strict=True):
        assert value == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("transform", ["softplus", "log"])
@pytest.mark.parametrize("name", KERNELS)
def test_the_chain_rule_agrees_with_differences(name, transform):
    """The function of θ is the sum of cᵢ θᵢ, whose gradient is known."""
    kernel, rng = KERNELS[name], np.random.default_rng(0)
    of = Parametrisation(kernel, 1e-4, transform=transform)
    raw = of.raw(apviz.Hyperparameters.of(kernel, 0.05, -0.3))
    weights = {key: np.atleast_1d(rng.standard_normal(np.size(v))) for key, v in kernel.hyperparameters.items()}

    def value(raw):
        h = of.hyperparameters(raw)
        found = h.build_kernel().hyperparameters
        return 0.7 * h.mean - 1.3 * h.noise + sum(weights[key] @ np.atleast_1d(found[key]) for key in weights)

    found = of.chain(raw, Gradient(0.7, -1.3, {key: torch.tensor(v) for key, v in weights.items()}))
    step = 1e-6 * torch.eye(len(raw), dtype=torch.float64)
    expected = [(value(raw + each) - value(raw - each)) / 2e-6 for each in step]
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8)


def test_parameters_of_any_sign_are_not_transformed_and_zeros_stay_zero():
    of = Parametrisation(KERNELS["of groups"], 0.0)
    assert of.names == (
        "mean", "noise", "0.outputscale", "0.factor[0]", "0.factor[1]", "0.variances[0]", "1.outputscale",
        "1.lengthscale",
    )  # fmt: skip
    raw = of.raw(apviz.Hyperparameters.of(KERNELS["of groups"], 0.1))
    assert raw[3:5].tolist() == [1.0, -2.0]
    moved = of.hyperparameters(raw - 0.4).build_kernel().hyperparameters
    assert moved["0.factor"] == (pytest.approx(0.6), pytest.approx(-2.4)) and moved["0.variances"][1] == 0.0


def test_fixed_parameters_do_not_change():
    of = Parametrisation(apviz.RationalQuadratic(alpha=0.3), 0.0, frozenset({"alpha"}))
    assert "alpha" not in of.names
    assert of.hyperparameters(of.zeros() + 1.0).build_kernel().alpha == 0.3
    assert "alpha" in Parametrisation(apviz.RationalQuadratic(alpha=0.3), 0.0).names


def test_bounds_allow_a_factor_of_1e5_and_let_the_noise_approach_its_floor():
    of = Parametrisation(apviz.RBF(lengthscale=1e3), 1e-2, transform="log")
    start = of.raw(apviz.Hyperparameters.of(apviz.RBF(lengthscale=1e3), 0.05))
    bounds = dict(zip(of.names, of.bounds(start), strict=True))
    assert bounds["mean"] == (None, None)
    np.testing.assert_allclose(np.exp(bounds["lengthscale"]), [1e-5, 1e8])
    assert math.exp(bounds["noise"][0]) == pytest.approx(1e-5)


def test_a_start_with_other_hyperparameters_is_rejected_with_the_list_of_trained_ones():
    of = Parametrisation(apviz.Periodic(), 0.0)
    with pytest.raises(ValueError, match="has the hyperparameters outputscale, lengthscale, but period is trained too"):
        of.raw(apviz.Hyperparameters.of(apviz.RBF(), 0.1))
    with pytest.raises(ValueError, match="the initial kernel has 2 lengthscales, but 1 are trained"):
        of.raw(apviz.Hyperparameters.of(apviz.Periodic(lengthscale=(0.1, 0.2)), 0.1))
