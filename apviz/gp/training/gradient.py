"""Stochastic gradient of a training step: the system to solve, and the gradient from its weights.

One batched solve serves both terms of the gradient (paper, section 2).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from apviz.duplicates import DistinctRows
from apviz.gp.training.fast_products import GRADIENT_ERROR, with_fast_products
from apviz.gp.training.probes import Probes, draw, pathwise
from apviz.hyperparameters import Hyperparameters
from apviz.operators import CountingOperator, Noise
from apviz.operators.derivatives import KernelDerivatives
from apviz.solvers import Prepared, Solver
from apviz.system import KernelSystem

#: estimator of the trace in a gradient: probes from the law that suits the solver, or from N(0, K), or K⁻¹ itself
Estimator = Literal["standard", "pathwise", "exact"]
ESTIMATORS = ("standard", "pathwise", "exact")


@dataclass(frozen=True, eq=False)
class StepSystem:
    """The system of a training step, its probes and the solver's set-up.

    Args:
        system: the right-hand sides are the targets minus the mean, then the probes.
        prepared: the solver's set-up if the probes were drawn from its preconditioner, else None.
    """

    system: KernelSystem
    probes: Probes
    prepared: Prepared | None


def step_system(
    x: Tensor,
    y: Tensor,
    hyperparameters: Hyperparameters,
    solver: Solver,
    probes: int,
    seed: int,
    *,
    operator: str = "auto",
    dataset: str = "",
    dtype: torch.dtype | None = None,
    estimator: Estimator = "standard",
    noises: Noise | None = None,
) -> StepSystem:
    """Build the system of a training step (paper, section 5.1), with own noises of rows, (n,), if they are given."""
    h, dtype = hyperparameters, dtype or x.dtype
    targets = KernelSystem(
        x, y.double() - h.mean, h.build_kernel(), noise=h.noise if noises is None else noises, operator=operator,
        dtype=dtype, device=x.device,
    )  # fmt: skip
    if estimator == "pathwise":
        drawn, prepared = pathwise(targets.operator, probes, seed), None
    else:
        drawn, prepared = draw(solver, targets.operator, probes, seed)
    system = KernelSystem(
        x, torch.cat([targets.b, drawn.z], dim=1), targets.kernel, noise=targets.operator.noise_of(),
        operator=targets.operator, dtype=targets.dtype, device=targets.device, dataset=dataset, seed=seed,
    )  # fmt: skip
    return StepSystem(system, drawn, prepared)


@dataclass(frozen=True, eq=False)
class Gradient:
    """Derivatives ∂ℓ/∂θ of ℓ = ½((y − m)ᵀK⁻¹(y − m) + log det K), in nats per unit of θ.

    Args:
        mean, noise: derivatives in m and σ²; in σ² (n,) float64 if every row has its own.
        kernel: derivatives in each hyperparameter of the kernel, by name, (numbers,) float64.
    """

    mean: float
    noise: float | Tensor
    kernel: Mapping[str, Tensor]

    def of_all(self, rows: DistinctRows, noise: float) -> Gradient:
        """Return the gradient of all rows at σ² = `noise`, if this is that of the merged rows."""
        return replace(self, noise=rows.noise_derivative(torch.as_tensor(self.noise, dtype=torch.float64), noise))


def gradient_of(weights: Tensor, found: KernelDerivatives) -> Gradient:
    """Return the gradient from K⁻¹(y − m), (n,) or (n, p), and the derivatives in kernel and noise."""
    noise = found.noise.double().cpu()
    kernel = {name: each.cpu() for name, each in found.kernel.items()}
    return Gradient(-float(weights.sum(dtype=torch.float64)), noise if noise.ndim else float(noise), kernel)


def marginal_likelihood_gradient(operator: CountingOperator, weights: Tensor, dual: Tensor) -> Gradient:
    """Estimate ∂ℓ/∂θ in one pass over the entries of K (1.0 work), without an n × n array.

    For many rows of up to three inputs, by sums over the frequencies of a Fourier series and near neighbours instead,
    where that is faster (`apviz.gp.training.fast_products`).

    ∂ℓ/∂θ = −½ w₀ᵀ ∂K w₀ + ½ tr(K⁻¹∂K), and the trace is the mean over probes of (K⁻¹zᵢ)ᵀ ∂K (P⁻¹zᵢ). The estimate is
    unbiased if the solves are exact, and exact with the n probes √n·eᵢ. For p outputs the ℓ are added.

    Args:
        weights: (n, p+l), K⁻¹ times the targets minus the mean, then times the probes.
        dual: (n, l), P⁻¹ times the probes, from `apviz.gp.training.probes.Probes.dual_of`.

    Raises:
        ValueError: the shapes do not match, or there are no probes.

    Examples:
        >>> import torch, apviz
        >>> from apviz.gp import marginal_likelihood_gradient
        >>> from apviz.operators import CountingOperator
        >>> x = torch.linspace(0, 1, 50, dtype=torch.float64)
        >>> z = apviz.rademacher(50, 8, seed=0, like=x).z
        >>> b = torch.cat([x[:, None].sin(), z], dim=1)
        >>> system = apviz.KernelSystem(x, b, apviz.RBF(lengthscale=0.2), noise=1.0, device="cpu")
        >>> weights = apviz.solve(system, apviz.Cholesky()).weights
        >>> marginal_likelihood_gradient(CountingOperator(system.operator), weights, z).noise > 0  # σ² = 1 is too large
        True
    """
    probes = dual.shape[1] if dual.ndim == 2 else 0
    outputs = weights.shape[1] - probes
    if outputs < 1 or probes < 1 or len(dual) != len(weights):
        raise ValueError(
            f"weights must be (n, p+l) and dual (n, l) with p, l ≥ 1, got {tuple(weights.shape)} and "
            f"{tuple(dual.shape)}"
        )
    right = torch.cat([weights[:, :outputs] * -0.5, dual * (0.5 * outputs / probes)], dim=1)
    fast = with_fast_products(operator, GRADIENT_ERROR)
    return gradient_of(weights[:, :outputs], fast.bilinear_derivatives(weights.to(fast.x), right.to(fast.x)))
