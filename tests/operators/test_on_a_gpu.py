"""What a GPU computes, against dense float64 on the processor; `make test-gpu` runs these where there is one."""

from __future__ import annotations

import pytest
import torch

import apviz
from apviz.operators import make_operator
from apviz.solvers import attempt
from apviz.solvers.automatic import overlapping

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU, or this PyTorch knows none"),
]

KERNELS = [
    apviz.Matern12(lengthscale=0.4), apviz.Matern32(lengthscale=0.4), apviz.Matern52(lengthscale=0.4),
    apviz.RBF(lengthscale=0.4), apviz.Matern32(lengthscale=0.4) + 0.3 * apviz.RBF(lengthscale=1.5),
]  # fmt: skip
SOLVERS = {
    "paper": apviz.AlternatingProjection(block_size=500),
    "overlapping": overlapping(fallback_rank=0),
    "skeletons": overlapping(block_size=300, skeleton_rank=40, fallback_rank=0),
    "CG": apviz.ConjugateGradient(preconditioner=apviz.PivotedCholesky(rank=50)),
    "automatic": apviz.Automatic(),
}


def points(n: int, d: int = 3) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.rand(n, d, generator=generator), torch.randn(n, 5, generator=generator)


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
@pytest.mark.parametrize("name", ["tiled", "fused", "fused-tf32x3"])
@pytest.mark.parametrize("n", [1, 63, 64, 1000])
def test_a_product_is_that_of_dense_float64(kernel, name, n):
    x, v = points(n)
    exact = make_operator("dense", x.double(), kernel, 0.1).matmul(v.double())
    found = make_operator(name, x.cuda(), kernel, 0.1).matmul(v.cuda())
    torch.testing.assert_close(found.cpu().double(), exact, rtol=1e-4, atol=1e-4 * float(exact.abs().max()))


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
@pytest.mark.parametrize("name", ["tiled", "fused"])
def test_derivatives_are_those_of_dense_float64(kernel, name):
    x, v = points(500)
    exact = make_operator("dense", x.double(), kernel, 0.1).bilinear_derivatives(v.double(), v.double())
    found = make_operator(name, x.cuda(), kernel, 0.1).bilinear_derivatives(v.cuda(), v.cuda())
    for key, value in exact.kernel.items():
        torch.testing.assert_close(found.kernel[key].cpu(), value, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", SOLVERS)
def test_a_solve_ends_where_the_processors_does(name):
    x, b = points(6000)
    kernel, weights = apviz.Matern52(lengthscale=0.4), {}
    for device in ("cpu", "cuda"):
        system = apviz.KernelSystem(x, b, kernel, noise=0.1, device=device)
        solution = attempt(system, SOLVERS[name])
        assert solution.converged
        weights[device] = solution.weights.cpu()
    k = make_operator("tiled", x.double(), kernel, 0.1)
    for found in weights.values():
        left = b.double() - k.matmul(found)
        assert float((left.norm(dim=0) / b.double().norm(dim=0)).mean()) < 1.01e-2
