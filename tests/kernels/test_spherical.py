"""The spherical kernel: its formula in every engine, derivatives, and where it is a covariance."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import apviz
from apviz.operators import native

KERNEL = apviz.Spherical(lengthscale=(0.5, 0.8), outputscale=2.0)


def rows(n: int, d: int = 2, seed: int = 0) -> torch.Tensor:
    return torch.rand(n, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def textbook(x: np.ndarray) -> np.ndarray:
    r = np.linalg.norm((x[:, None] - x[None]) / (0.5, 0.8), axis=2)
    return 2.0 * np.where(r < 1, 1 - 1.5 * r + 0.5 * r**3, 0.0)


def test_its_values_are_the_formula():
    x = rows(50)
    np.testing.assert_allclose(KERNEL(x).numpy(), textbook(x.numpy()), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize(("dtype", "error"), [(torch.float32, 1e-4), (torch.float64, 1e-11)])
def test_the_compiled_engine_multiplies_by_it(dtype, error):
    x, v = rows(300), rows(300, 2, seed=1)
    system = apviz.KernelSystem(x, v, KERNEL, noise=0.1, operator="tiled", dtype=dtype, device="cpu")
    with native.kept(compiled=True):
        found = system.operator.matmul(v.to(dtype)).numpy()
    np.testing.assert_allclose(found, textbook(x.numpy()) @ v.numpy() + 0.1 * v.numpy(), rtol=error)


@pytest.mark.parametrize("operator", ["dense", "tiled"])
def test_its_derivatives_are_difference_quotients(operator):
    x, a = rows(80), rows(80, 1, seed=1)
    system = apviz.KernelSystem(x, a, KERNEL, noise=0.1, operator=operator, device="cpu")
    found = system.operator.bilinear_derivatives(a, a).kernel["lengthscale"]
    for place in range(2):
        step = 1e-6 * np.eye(2)[place]
        more, less = (
            float(a.T @ apviz.Spherical(lengthscale=(0.5, 0.8) + sign * step, outputscale=2.0)(x) @ a)
            for sign in (1, -1)
        )
        assert float(found[place]) == pytest.approx((more - less) / 2e-6, rel=1e-5)


def test_it_is_a_covariance_of_three_inputs_and_refused_for_four():
    assert torch.linalg.eigvalsh(apviz.Spherical()(rows(150, 3))).min() > 0
    with pytest.raises(ValueError, match="a covariance of up to 3 inputs, got 4"):
        apviz.Spherical()(rows(5, 4))
    apviz.Spherical().on([0, 1, 3])(rows(5, 4))
