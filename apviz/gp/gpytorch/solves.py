"""The solves that GPyTorch's models ask for inside a context: with which solver, probes and seeds, and how they end."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from gpytorch import settings as gpytorch_settings
from gpytorch.utils.warnings import NumericalWarning
from linear_operator.functions._inv_quad_logdet import StochasticLQ, lanczos_tridiag_to_diag
from linear_operator.utils import linear_cg as batched_lanczos
from torch import Tensor

from apviz.gp.probes import Probes, draw, rademacher
from apviz.kernels import Kernel
from apviz.operators import CountingOperator, Operator
from apviz.settings import require, require_whole
from apviz.solvers import Hook, Solution, Solver, StopReason, solve
from apviz.system import KernelSystem

LogDeterminant = Literal["skip", "lanczos"]
LOG_DETERMINANTS = ("skip", "lanczos")

SKIPPED = (
    "the value of the marginal log likelihood leaves out log det K, which these solvers do not estimate; its "
    "gradients are right, so training is. Watch the noise instead, which settles when the training does, or pass "
    "log_determinant='lanczos' for an estimate, at some twenty products with K a step"
)


@dataclass(frozen=True, eq=False)
class Solved:
    """K and what was solved with it: weights (n, l+1) = K⁻¹[y − m, Z], dual (n, l) = P⁻¹Z; l may be 0."""

    operator: Operator
    weights: Tensor
    dual: Tensor


class Solves:
    """What a context was asked to solve with, and how often it did.

    Args:
        solver: any solver of apviz.
        hooks: told about every solve.
        probes: l, or (n, l) probes with E[ZZᵀ]/l = I; None: GPyTorch's `num_trace_samples`.
        log_determinant: `skip` leaves it out of the value, as GPyTorch's `skip_logdet_forward`; `lanczos` estimates it.
        operator, dataset: as of `KernelSystem`.
        seed: of the probes, which differ from call to call.
    """

    def __init__(
        self,
        solver: Solver,
        hooks: Sequence[Hook] = (),
        probes: int | Tensor | None = None,
        log_determinant: LogDeterminant = "skip",
        operator: str = "auto",
        dataset: str = "",
        seed: int = 0,
    ) -> None:
        require(isinstance(solver, Solver), "solver", solver, "a solver, such as apviz.Automatic()")
        if isinstance(probes, Tensor):
            require(probes.ndim == 2, "the shape of probes", tuple(probes.shape), "(n, l)")
        elif probes is not None:
            require_whole("probes", probes, 1)
        accepted = f"one of {', '.join(LOG_DETERMINANTS)}"
        require(log_determinant in LOG_DETERMINANTS, "log_determinant", log_determinant, accepted)
        require_whole("seed", seed, 0)
        self.solver, self.hooks, self.probes, self.log_determinant = solver, list(hooks), probes, log_determinant
        self.operator, self.dataset, self.seed = operator, dataset, seed
        self.calls = 0
        self._said = False

    def train(self, x: Tensor, kernel: Kernel, noise: float, residual: Tensor, with_probes: bool) -> Solved:
        """The batched solve of a training step; residual: (n, 1) y − m.

        Raises:
            RuntimeError: the solve diverged.
        """
        self.calls += 1
        system = KernelSystem(x, residual, kernel, noise, self.operator, x.dtype, x.device, dataset=self.dataset)
        solver, probes = self.solver, Probes(residual[:, :0], residual[:, :0], "none")
        if with_probes:
            probes, solver = self._draw(system)
        system = KernelSystem(
            system.x, torch.cat([system.b, probes.z], dim=1), kernel, noise, system.operator, x.dtype, x.device,
            dataset=self.dataset, seed=self._call_seed,
        )  # fmt: skip
        solution = solve(system, solver, self.hooks)
        report(solution, solver)
        return Solved(system.operator, solution.weights, probes.dual)

    def log_determinant_of(self, operator: Operator) -> Tensor:
        """log det K for the value of the loss, 0-d: an estimate, or 0 where it is left out, which is said once."""
        if gpytorch_settings.skip_logdet_forward.on():
            return operator.x.new_zeros(())
        if self.log_determinant == "skip":
            if not self._said:
                self._said = True
                warnings.warn(SKIPPED, stacklevel=2)
            return operator.x.new_zeros(())
        z = rademacher(operator.n, self._count, self._call_seed, operator.x).z
        return lanczos_log_determinant(operator, z, gpytorch_settings.max_lanczos_quadrature_iterations.value())

    @property
    def _count(self) -> int:
        if isinstance(self.probes, Tensor):
            return self.probes.shape[1]
        count = gpytorch_settings.num_trace_samples.value() if self.probes is None else self.probes
        require_whole("gpytorch.settings.num_trace_samples", count, 1)
        return int(count)

    @property
    def _call_seed(self) -> int:
        return (self.seed << 20) + self.calls

    def _draw(self, system: KernelSystem) -> tuple[Probes, Solver]:
        if not isinstance(self.probes, Tensor):
            return draw(self.solver, CountingOperator(system.operator), self._count, self._call_seed)
        if len(self.probes) != system.n:
            raise ValueError(f"probes has {len(self.probes)} rows, the model has {system.n} training points")
        z = self.probes.detach().to(system.x)
        return Probes(z, z, "given"), self.solver


def lanczos_log_determinant(operator: Operator, z: Tensor, steps: int) -> Tensor:
    """log det K by stochastic Lanczos quadrature (Ubaru, Chen & Saad, 2017), as GPyTorch has it; z: (n, l) ±1.

    An estimate with two errors: the variance of the probes, and a bias that falls with the steps, one product with K
    each; the more ill-conditioned K, the larger it is.
    """
    steps = min(steps, operator.n)
    # one more than is used: a step that meets the tolerance, here every step, is not added to T, and is not warned of
    _, t = batched_lanczos(
        operator.matmul, z, n_tridiag=z.shape[1], tolerance=float("inf"), max_iter=steps + 1, max_tridiag_iter=steps
    )
    eigenvalues, eigenvectors = lanczos_tridiag_to_diag(t)
    (found,) = StochasticLQ().to_dense(torch.Size((operator.n, operator.n)), eigenvalues, eigenvectors, [torch.log])
    estimate: Tensor = found
    return estimate


def report(solution: Solution, solver: Solver) -> None:
    """Warns about a solve that did not converge.

    Raises:
        RuntimeError: it diverged.
    """
    if solution.stop_reason is StopReason.DIVERGED:
        raise RuntimeError(f"the solve by {solver.label} {solution.stop_message}")
    if not solution.converged:
        warnings.warn(
            f"the solve by {solver.label} is not converged: mean relative residual {solution.residual:.2e}, tolerance "
            f"{getattr(solver, 'tol', 0.0):g}, after {solution.epochs} epochs; {solution.stop_message}",
            NumericalWarning,
            stacklevel=2,
        )
