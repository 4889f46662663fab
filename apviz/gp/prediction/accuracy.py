"""Error that a solve leaves in predictions, and the tolerance, dtype and solver that a posterior needs.

The mean at x* is off by zᵀr, where z = K⁻¹k(X, x*) and r = y − μ − KW is the residual of the weights. Let D be the
noise variances of the rows. The posterior variance of f(x*) is Var(f(x*) − zᵀf(X)) + zᵀDz, where the first term is a
variance of the prior. It is therefore at least zᵀDz. By Cauchy–Schwarz, **no predicted mean is off by more than
‖D^-½ r‖ posterior standard deviations**, for any x*. With one noise for all rows the bound is ‖r‖/σ. It is proven, and
needs no test points.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from apviz import distributed
from apviz.memory import free_memory
from apviz.operators import Noise, Operator
from apviz.settings import require_number
from apviz.solvers import Automatic, Cholesky, Hook, NotConverged, Prepared, Run, Solution, Solver
from apviz.solvers.cholesky import Factored
from apviz.solvers.choosing.costs import FACTOR_ARRAYS, usual_work
from apviz.system import KernelSystem

#: default of the largest error that a solve may leave in a predicted mean, in posterior standard deviations
ACCURACY = 0.05
# range of relative residuals for the mean: float64 reaches no less than the first
LEAST_TOL, LARGEST_TOL = 1e-15, 1e-2
# Float32 rounds the eigenvalues of K by about ROUNDINGS · ε √n k(x, x). That may be up to ROUNDING_SHARE of σ².
ROUNDINGS, ROUNDING_SHARE = 8.0, 0.1
# A factorisation in float64 of n rows costs about n ÷ ROWS_PER_WORK work, where 1.0 work is n² kernel entries. It is
# not measured, so that the same data give the same predictions.
ROWS_PER_WORK = 300
# If a factorisation fits, it replaces a solve after CAP_OF_FACTORS times its cost in epochs, at least LEAST_CAP.
CAP_OF_FACTORS, LEAST_CAP = 3, 100
# Share of the free memory that a factorisation may use.
FACTOR_SHARE = 0.45


def weighted_norms(r: Tensor, noises: Noise) -> Tensor:
    """Compute ‖D^-½ r‖ for each column of r: (n, c), D one σ² or (n,), so that no square under- or overflows."""
    noises = torch.as_tensor(noises, dtype=torch.float64, device=r.device)
    scaled = r.double() / noises.sqrt().reshape(-1, 1)
    unit = scaled.abs().amax(0).clamp_min(torch.finfo(torch.float64).tiny)
    norms: Tensor = torch.linalg.vector_norm(scaled / unit, dim=0) * unit
    return norms.cpu()


def mean_tolerance(system: KernelSystem, accuracy: float) -> float:
    """Return the relative residual of y − μ, at most 1e-2, at which no mean is off by more than `accuracy`."""
    wanted = accuracy / max(float(weighted_norms(system.given_b, system.noise)), accuracy)
    return min(max(wanted, LEAST_TOL), LARGEST_TOL)


def mean_error(system: KernelSystem, solution: Solution, double: Operator) -> float:
    """Bound the error of every mean, in posterior standard deviations. Costs 1.0 work if not converged."""
    b = system.given_b.double()
    if solution.converged and system.operator.noises is None:  # a converged residual was measured in float64
        return solution.residual * float(weighted_norms(b, system.noise))
    r = b - double.matmul(solution.weights.to(b).reshape(-1, 1))
    found = float(weighted_norms(r, system.operator.noise_of()))
    return found if math.isfinite(found) else math.inf


def require_accuracy(accuracy: float | None) -> None:
    """Check the largest error of a mean that a user gave, in posterior standard deviations, or None."""
    if accuracy is not None:
        require_number(
            "accuracy", accuracy, 0.0, "a positive number of posterior standard deviations, or None", strictly=True
        )


def warning_of(system: KernelSystem, solution: Solution, error: float, accuracy: float) -> UserWarning | None:
    """Return a warning if the mean's solve did not converge or its error may exceed `accuracy`, else None."""
    off = f"predicted means may be off by up to {error:.2g} posterior standard deviations"
    if not solution.converged:
        end = f"residual {solution.residual:.2e} after {solution.epochs} epochs"
        message = f"the solve for the mean did not converge ({end}): {off}; it {solution.stop_message}"
        return NotConverged(message, solution)
    if error <= accuracy:
        return None
    needed = 0.95 * mean_tolerance(system, accuracy)  # rounding to two digits must not exceed the tolerance
    return UserWarning(
        f"{off}: their solve ended at a residual of {solution.residual:.1e}; use tol={needed:.1e}, or no solver, to "
        f"stay below {accuracy:g}"
    )


class FactorKeeper(Hook):
    """A hook that keeps the Cholesky factor of K, if a solve computes one, for later solves."""

    factored: Prepared | None = None

    def on_start(self, run: Run) -> None:
        if isinstance(run.prepared, Factored):
            self.factored = run.prepared


def ways(
    system: KernelSystem, solver: Solver | None, dtype_is_free: bool, accuracy: float
) -> Iterator[tuple[torch.dtype, Solver]]:
    """Yield dtypes and solvers for the mean, in the order to try until one reaches `accuracy`.

    Args:
        system: the system of the mean, in float64 if the dtype is free.
        solver: the user's solver. None: choose one that reaches the tolerance of `mean_tolerance`.
        dtype_is_free: whether float32 may be used if it is as accurate and faster.
    """
    tol = mean_tolerance(system, accuracy)
    enough, is_cheap = _float32_is_enough(system), _factor_is_cheap(system, tol)
    dtypes = [torch.float32, torch.float64] if dtype_is_free and enough and not is_cheap else [system.dtype]
    if solver is not None:
        yield from ((dtype, solver) for dtype in dtypes)
    elif is_cheap and (enough or system.dtype is torch.float64):
        yield system.dtype, Cholesky(tol=tol)
    else:
        fits = dtypes[-1] is torch.float64 and _factor_fits(system)
        cap = max(LEAST_CAP, CAP_OF_FACTORS * system.n // ROWS_PER_WORK) if fits else Automatic().max_epochs
        yield from ((dtype, Automatic(tol=tol, max_epochs=cap)) for dtype in dtypes)
        if fits:
            yield torch.float64, Cholesky(tol=tol)


def _float32_is_enough(system: KernelSystem) -> bool:
    """Return whether rounding K to float32 is far below the noise, so that refinement reaches any tolerance."""
    rounding = ROUNDINGS * torch.finfo(torch.float32).eps * math.sqrt(system.n) * system.operator.largest_signal
    return rounding <= ROUNDING_SHARE * system.noise


def _factor_is_cheap(system: KernelSystem, tol: float) -> bool:
    """Return whether a Cholesky factor of K in float64 fits and costs no more than projections usually do."""
    return system.n <= ROWS_PER_WORK * usual_work(system.n, tol) and _factor_fits(system)


def _factor_fits(system: KernelSystem) -> bool:
    """Return whether a Cholesky factor of K in float64 fits the free memory. Ranks of a job never factor K."""
    needed = FACTOR_ARRAYS * system.n**2 * torch.finfo(torch.float64).bits / 8
    return distributed.current() is None and needed <= FACTOR_SHARE * free_memory(system.device)
