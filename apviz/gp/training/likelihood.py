"""Log marginal likelihood and its gradient: exact by a Cholesky factor, or estimated by Lanczos."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from apviz.duplicates import DistinctRows
from apviz.factors import NotPositiveDefinite
from apviz.gp.prediction.variances import to_tolerance
from apviz.gp.training.fast_products import VALUE_ERROR, with_fast_products
from apviz.gp.training.gradient import Gradient, gradient_of
from apviz.gp.training.log_determinant import lanczos_log_determinant
from apviz.gp.training.probes import rademacher
from apviz.hyperparameters import Hyperparameters
from apviz.operators import CountingOperator, Noise
from apviz.preconditioners import Whitening
from apviz.solvers import Cholesky, Hook, NotConverged, Solution, Solver, attempt
from apviz.solvers.cholesky import Factored
from apviz.system import KernelSystem

# relative residual of the solve for an estimated value; the value's error is of second order in it
VALUE_TOL = 1e-4
# relative residual of the solve with the factor of K
EXACT_TOL = 1e-4
# If the factor's diagonal exceeds K's by more than this relative amount, jitter was added.
JITTERED = 1e-9


@dataclass(frozen=True, eq=False)
class MarginalLikelihood:
    """The log marginal likelihood of targets: log p(y) = −½(y − m)ᵀK⁻¹(y − m) − ½ log det K − ½n log 2π.

    Args:
        value: in nats.
        standard_error: standard error of the value; 0 if it is exact.
        gradient: gradient of ℓ, the negative value up to a constant; None if it was not requested.
        solution: result of the solve for K⁻¹(y − m).
        work: total work, in kernel entries ÷ n².
    """

    value: float
    standard_error: float
    gradient: Gradient | None
    solution: Solution
    work: float

    def of_all(self, rows: DistinctRows, noise: float) -> MarginalLikelihood:
        """Return the likelihood of all rows at σ² = `noise`, if this is that of the merged rows."""
        gradient = None if self.gradient is None else self.gradient.of_all(rows, noise)
        return replace(self, value=self.value + rows.log_density(noise), gradient=gradient)


def exact_marginal_likelihood(
    x: Tensor,
    y: Tensor,
    hyperparameters: Hyperparameters,
    *,
    noises: Noise | None = None,
    with_gradient: bool = True,
    hooks: Iterable[Hook] = (),
    dataset: str = "",
) -> MarginalLikelihood:
    """Compute the log marginal likelihood by a Cholesky factor of K in float64: O(n³) time, five n × n arrays.

    ∂ℓ/∂θ = ½ tr((K⁻¹ − wwᵀ) ∂K/∂θ) with w = K⁻¹(y − m) (Rasmussen & Williams, equation 5.9).

    Args:
        x, y: (n, d) inputs and (n,) targets, or (n, p) of p outputs, whose likelihoods are added.
        noises: (n,) σ² of each row; None: that of the hyperparameters.

    Raises:
        NotPositiveDefinite: K in float64 has no Cholesky factor without jitter.
        MemoryError: K does not fit the free memory.
    """
    h, n = hyperparameters, len(x)
    system = KernelSystem(
        x, y.double() - h.mean, h.build_kernel(), noise=h.noise if noises is None else noises, operator="dense",
        dtype=torch.float64, device=x.device, dataset=dataset,
    )  # fmt: skip
    solver = Cholesky(tol=EXACT_TOL)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="the matrix needed a jitter")  # raises below
        prepared = solver.prepare(system.operator)
    assert isinstance(prepared, Factored)
    factor, first = prepared.factor, system.operator.diagonal()[0]
    if factor[0, 0].square() > (1 + JITTERED) * first:
        raise NotPositiveDefinite(
            f"K with noise {h.noise:.3g} has no Cholesky factor in float64 without jitter, so its likelihood cannot be "
            "computed; use a larger noise_floor"
        )
    solution = attempt(system, solver, hooks, prepared=prepared)
    w = solution.weights[:, None] if solution.weights.ndim == 1 else solution.weights
    outputs = w.shape[1]
    value = _value(torch.sum(system.b * w), outputs * 2.0 * factor.diagonal().log().sum(), outputs * n)
    gradient, operator = None, CountingOperator(system.operator)
    if with_gradient:
        m = torch.cholesky_inverse(factor).addmm_(w, w.T, beta=outputs, alpha=-1.0).mul_(0.5)
        gradient = gradient_of(w, operator.weighted_derivatives(m))
    return MarginalLikelihood(value, 0.0, gradient, solution, solution.work + operator.work)


def estimated_marginal_likelihood(
    system: KernelSystem, solver: Solver, probes: int, seed: int, *, with_gradient: bool = True,
    whitening: Whitening | None = None,
) -> MarginalLikelihood:  # fmt: skip
    """Estimate the log marginal likelihood of a system, without a factor of K.

    The quadratic form comes from a solve, with an error of second order in its residual. log det K comes from
    stochastic Lanczos quadrature (`lanczos_log_determinant`), with the standard error of its probes. With the same
    whitening, value and gradient belong to one function. For many rows of up to three inputs, products are those of
    `fast_products.py`, whose effect on log det K is estimated, not bounded, and not part of the standard error.

    Args:
        system: system with the targets minus the mean, (n,) or (n, p); the likelihoods of p outputs are added.
        solver: solver; its tolerance is lowered to 1e-4 if it is larger.
        whitening: whitening by a matrix near K.
    """
    solution = attempt(system, to_tolerance(solver, VALUE_TOL), ())
    if not solution.converged:
        end = f"(residual {solution.residual:.2e} after {solution.epochs} epochs): it {solution.stop_message}"
        warnings.warn(NotConverged(f"the solve for a likelihood did not converge {end}", solution), stacklevel=2)
    operator = with_fast_products(CountingOperator(system.operator), VALUE_ERROR)
    w, y = solution.weights.to(operator.x).reshape(system.n, -1), system.b
    outputs = w.shape[1]
    inv_quad = torch.sum((2 * y - operator.matmul(w)) * w, dtype=torch.float64)
    z = rademacher(system.n, probes, seed, operator.x).z
    found = lanczos_log_determinant(operator, z, with_gradient, whitening)
    gradient = None
    if with_gradient:
        left, right = torch.cat([w, found.left], 1), torch.cat([-0.5 * w, 0.5 * outputs * found.right], 1)
        gradient = gradient_of(w, operator.bilinear_derivatives(left, right))
    value = _value(inv_quad, outputs * found.value, outputs * system.n)
    error = 0.5 * outputs * float(found.standard_error)
    return MarginalLikelihood(value, error, gradient, solution, solution.work + operator.work)


def _value(inv_quad: Tensor, log_determinant: Tensor, n: int) -> float:
    return -0.5 * (float(inv_quad) + float(log_determinant) + n * math.log(2 * math.pi))
