"""The average information matrix of a likelihood: its curvature, from a product a hyperparameter and one solve.

AI = ½ QᵀK⁻¹Q with the columns qⱼ = (∂K/∂θⱼ) K⁻¹(y − m). If K is linear in θ, it is the mean of the observed and the
expected information (Gilmour, Thompson & Cullis, Biometrics 51, 1995, equation 7). Both contain a trace; AI does not.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from apviz.duplicates import DistinctRows
from apviz.gp.training.fast_products import GRADIENT_ERROR, with_fast_products
from apviz.gp.training.parametrisation import Parametrisation
from apviz.kernels import Kernel
from apviz.operators import CountingOperator, make_operator
from apviz.solvers import Prepared, Solver, attempt
from apviz.system import KernelSystem

# Step of the forward differences in raw parameters, which are logarithms: 2% of a lengthscale. They are right to a few
# percent, and rounding in float32 adds less. A Newton step needs no more.
DIFFERENCE = 0.02


def average_information(
    operator: CountingOperator, weights: Tensor, raw: Tensor, parametrisation: Parametrisation, solver: Solver,
    rows: DistinctRows, prepared: Prepared | None = None,
) -> tuple[Tensor, float]:  # fmt: skip
    """Compute the average information of ℓ in the raw parameters: (2 + p, 2 + p) float64, and the work of its solve.

    It takes 1 + p products of one column, which `operator` counts, and a solve for 2 + p right-hand sides. Mean and
    kernel share no information, as expected. For several outputs the matrices are added.

    Args:
        operator: K at the raw vector, of the merged rows.
        weights: (n, o), K⁻¹ times the targets of o outputs minus the mean.
        raw: (2 + p,) float64.
        solver: solves to its own tolerance or limit.
        rows: the merged rows; their scatter within groups tells about the noise.
        prepared: the solver's set-up for this K; None: it is made.

    Raises:
        RuntimeError: the matrix is not finite.
    """
    outputs, n = weights.shape[1], operator.n
    q = torch.stack([torch.ones_like(weights), *_derivatives(operator, weights, raw, parametrisation)], dim=1)
    found = KernelSystem(
        operator.given, q.flatten(1).double(), operator.kernel, noise=operator.noise_of(),
        operator=operator.uncounted, dtype=operator.x.dtype, device=operator.x.device,
    )  # fmt: skip
    solution = attempt(found, solver, prepared=prepared)
    solved = solution.weights.to(q).reshape(q.shape)
    ai = 0.5 * torch.einsum("nio,njo->ij", q.double(), solved.double()).cpu()
    ai = 0.5 * (ai + ai.T)
    ai[0, 1:] = ai[1:, 0] = 0.0
    ai[0, 0] *= 2.0
    noise, place = parametrisation.hyperparameters(raw).noise, Parametrisation.NOISE
    ai[place, place] += 0.5 * (rows.n - n) * outputs * (_slope_of_noise(raw, parametrisation) / noise) ** 2
    if not torch.isfinite(ai).all():
        raise RuntimeError("the information is not finite; use a larger noise_floor, or float64")
    return ai, solution.work


def _derivatives(
    operator: CountingOperator, weights: Tensor, raw: Tensor, parametrisation: Parametrisation
) -> Iterator[Tensor]:
    """Yield ∂K/∂raw times weights: (n, o), for noise and kernel, by forward differences."""
    noise = parametrisation.hyperparameters(raw).noise
    shares = torch.as_tensor(operator.noise_of(), dtype=torch.float64).reshape(-1, 1).to(weights) / noise
    yield _slope_of_noise(raw, parametrisation) * shares * weights
    # each entry is used once: storing all of them takes longer than products by tiles
    name = "tiled" if operator.name == "dense" else operator.name

    def product(kernel: Kernel) -> Tensor:
        found = make_operator(name, operator.given, kernel, operator.noise_of(), operator.x.dtype)
        found.fix_engine(10.0 * operator.n**2, weights.shape[1])
        return _product(operator.of(found), weights)

    here = product(operator.kernel) if operator.name == "dense" else _product(operator, weights)
    for place in range(Parametrisation.NOISE + 1, len(raw)):
        moved = raw.clone()
        moved[place] += DIFFERENCE
        there = product(parametrisation.hyperparameters(moved).build_kernel())
        yield (there - here).to(weights) / DIFFERENCE


def _product(operator: CountingOperator, weights: Tensor) -> Tensor:
    """Return K times weights: (n, o); for many rows of few inputs in float64, by Fourier series."""
    fast = with_fast_products(operator, GRADIENT_ERROR)
    return fast.matmul(weights.to(fast.x))


def _slope_of_noise(raw: Tensor, parametrisation: Parametrisation) -> float:
    """Return ∂σ²/∂raw."""
    moved = raw.clone()
    moved[Parametrisation.NOISE] += DIFFERENCE
    return (parametrisation.hyperparameters(moved).noise - parametrisation.hyperparameters(raw).noise) / DIFFERENCE
