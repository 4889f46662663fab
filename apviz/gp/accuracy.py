"""What a solve does to predictions, and so the tolerance, the dtype and the solver that a posterior needs.

The mean at x* is off by zᵀr, where z = K⁻¹k(X, x*) and r = y − μ − KW is the residual of the weights. With D the noises
of the rows, the posterior variance of f(x*) is Var(f(x*) − zᵀf(X)) + zᵀDz, where the first is the prior's, so it is at
least zᵀDz. By Cauchy and Schwarz, **no predicted mean is off by more than ‖D^-½ r‖ posterior standard deviations**,
wherever x* is. With one noise for all rows that is ‖r‖/σ: measured without a single test point, and certain.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from apviz import distributed
from apviz.memory import free_memory
from apviz.operators import Noise, Operator
from apviz.solvers import Automatic, Cholesky, Hook, NotConverged, Prepared, Run, Solution, Solver
from apviz.solvers.automatic import USUAL_WORK, WORK_PER_DIGIT
from apviz.solvers.cholesky import Factored
from apviz.system import KernelSystem

#: what a solve may leave as error of any predicted mean, in posterior standard deviations
MEAN_ERROR = 0.1
# relative residuals of the mean: the least that float64 can reach, and the largest that is aimed at
LEAST_TOL, LARGEST_TOL = 1e-15, 1e-2
# float32 rounds the eigenvalues of K by about this multiple of ε √n k(x, x), and this may be the given share of σ²
ROUNDINGS, ROUNDING_SHARE = 8.0, 0.1
# rows at which a factorisation in float64 takes as long as n² kernel entries; it grows with n, in this unit
ROWS_PER_WORK = 300
# epochs before a factorisation that fits is made instead: this multiple of its cost, but at least these
CAP_OF_FACTORS, LEAST_CAP = 3, 100
# of the free memory, what a factorisation may take; it holds three n × n arrays
FACTOR_SHARE, FACTOR_ARRAYS = 0.45, 3


def weighted_norms(r: Tensor, noises: Noise) -> Tensor:
    """Computes ‖D^-½ r‖ per column of r: (n, c), D the noises; in units in which no square underflows or overflows."""
    noises = torch.as_tensor(noises, dtype=torch.float64, device=r.device)
    scaled = r.double() / noises.sqrt().reshape(-1, 1)
    unit = scaled.abs().amax(0).clamp_min(torch.finfo(torch.float64).tiny)
    norms: Tensor = torch.linalg.vector_norm(scaled / unit, dim=0) * unit
    return norms.cpu()


def mean_tolerance(system: KernelSystem) -> float:
    """Returns the relative residual of y − μ, up to 1e-2, at which no mean is off by more than `MEAN_ERROR`."""
    wanted = MEAN_ERROR / max(float(weighted_norms(system.given_b, system.noise)), MEAN_ERROR)
    return min(max(wanted, LEAST_TOL), LARGEST_TOL)


def mean_error(system: KernelSystem, solution: Solution, double: Operator) -> float:
    """Returns the bound on the error of every mean, in posterior standard deviations: 1.0 work where not converged.

    Args:
        double: K in float64.
    """
    b = system.given_b.double()
    if solution.converged and system.operator.noises is None:  # then the residual is that of a pass in float64
        return solution.residual * float(weighted_norms(b, system.noise))
    r = b - double.matmul(solution.weights.to(b).reshape(-1, 1))
    found = float(weighted_norms(r, system.operator.noise_of()))
    return found if math.isfinite(found) else math.inf


def warning_of(system: KernelSystem, solution: Solution, error: float) -> UserWarning | None:
    """Makes the warning of a mean that is not converged, or may be off by more than `MEAN_ERROR`."""
    off = f"predicted means may be off by up to {error:.2g} posterior standard deviations"
    if not solution.converged:
        end = f"residual {solution.residual:.2e} after {solution.epochs} epochs"
        message = f"the mean's solve is not converged, {end}: {off}; {solution.stop_message}"
        return NotConverged(message, solution)
    if error <= MEAN_ERROR:
        return None
    needed = 0.95 * mean_tolerance(system)  # which the two digits shown do not exceed
    return UserWarning(
        f"{off}: their solve ended at a residual of {solution.residual:.1e}; take tol={needed:.1e}, or leave the "
        f"solver out, for at most {MEAN_ERROR}"
    )


class FactorKeeper(Hook):
    """Keeps the factor of all of K, where a solve makes one, for the solves that follow."""

    factored: Prepared | None = None

    def on_start(self, run: Run) -> None:
        if isinstance(run.prepared, Factored):
            self.factored = run.prepared


def ways(system: KernelSystem, solver: Solver | None, dtype_is_free: bool) -> Iterator[tuple[torch.dtype, Solver]]:
    """Yields dtypes and solvers for the mean: the first to try, then what to try where it missed `MEAN_ERROR`.

    Args:
        system: of the mean, in float64 where the dtype is free.
        solver: what was asked for; None: one that reaches the tolerance that means need.
        dtype_is_free: whether float32 may be taken where that is no less exact and saves time.
    """
    tol = mean_tolerance(system)
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
    """Whether rounding K to float32 is far below the noise, so that a recursion in it is refined to any digit."""
    rounding = ROUNDINGS * torch.finfo(torch.float32).eps * math.sqrt(system.n) * system.operator.largest_signal
    return rounding <= ROUNDING_SHARE * system.noise


def _factor_is_cheap(system: KernelSystem, tol: float) -> bool:
    """Whether a Cholesky factor of K in float64 costs no more than projections usually do, and fits."""
    usual = USUAL_WORK + WORK_PER_DIGIT * math.log10(1 / tol)
    return system.n <= ROWS_PER_WORK * usual and _factor_fits(system)


def _factor_fits(system: KernelSystem) -> bool:
    """Whether a Cholesky factor of K in float64 fits the free memory; ranks of a job share K instead."""
    needed = FACTOR_ARRAYS * system.n**2 * torch.finfo(torch.float64).bits / 8
    return distributed.current() is None and needed <= FACTOR_SHARE * free_memory(system.device)
