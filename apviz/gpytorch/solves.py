"""The solves of GPyTorch's models inside a context: their solvers, probes, seeds and warnings."""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from gpytorch import settings as gpytorch_settings

# the category of GPyTorch's own solver warnings, so that a user's filter also holds here; exported by no other module
from gpytorch.utils.warnings import NumericalWarning
from torch import Tensor

from apviz.gp.prediction.variances import to_tolerance
from apviz.gp.training.fast_products import VALUE_ERROR, with_fast_products
from apviz.gp.training.log_determinant import LogDeterminant, lanczos_log_determinant
from apviz.gp.training.probes import Probes, draw, rademacher
from apviz.kernels import Kernel
from apviz.memory import require_memory
from apviz.operators import CountingOperator, Operator
from apviz.preconditioners import Whitening, whitening_of
from apviz.settings import require, require_whole
from apviz.solvers import Cholesky, Hook, Prepared, Solution, Solver, StopReason, attempt
from apviz.solvers.cholesky import Factored
from apviz.solvers.choosing.automatic import CHOLESKY_ROWS
from apviz.system import KernelSystem

log = logging.getLogger("apviz")

LogDeterminantMethod = Literal["auto", "lanczos", "skip"]
LOG_DETERMINANTS = ("auto", "lanczos", "skip")
# modules of optimisers that compare values of the loss at different parameters;
# BoTorch's Adam is one, because it stops when values no longer fall
COMPARING_OPTIMISERS = ("scipy.optimize", "torch.optim.lbfgs", "botorch.optim.core")
# default relative residual of a solve whose value such an optimiser compares
VALUE_TOL = 1e-4
# growth of the number of Lanczos steps for log det K at which its whitening is computed again; largest number of kept
# whitenings, one per model
WORN, MOST_WHITENINGS = 2, 8
# columns of K⁻¹ in one batched solve
INVERSE_COLUMNS = 512

SKIPPED = (
    "the value of the marginal log likelihood leaves out log det K, which these solvers do not estimate; its "
    "gradients are right, so gradient-based training works. Do not compare values (early stopping, line searches, "
    "restarts): watch the noise instead, which settles with the training, or pass log_determinant='lanczos' for "
    "an estimate, which takes a few dozen products with K a step"
)


@dataclass(frozen=True, eq=False)
class Solved:
    """The solved system of a training step.

    Args:
        operator: K.
        w: (n, 1) K⁻¹(y − m).
        left, right: (n, p), with tr(K⁻¹∂K) ≈ tr(leftᵀ ∂K right); p is 0 if no gradient is needed. Right is None if
            left is K⁻¹ itself.
        inv_quad, log_determinant: 0-d, parts of the value; log_determinant is 0 if it is left out.
    """

    operator: Operator
    w: Tensor
    left: Tensor
    right: Tensor | None
    inv_quad: Tensor
    log_determinant: Tensor


class Solves:
    """The solver settings of a context, as in `alternating_projection`, and the number of training solves."""

    def __init__(
        self,
        solver: Solver,
        hooks: Sequence[Hook] = (),
        variance_solver: Solver | None = None,
        probes: int | Tensor | None = None,
        log_determinant: LogDeterminantMethod = "auto",
        operator: str = "auto",
        dataset: str = "",
        seed: int = 0,
    ) -> None:
        for name, given in (("solver", solver), ("variance_solver", variance_solver)):
            taken = isinstance(given, Solver) or (name == "variance_solver" and given is None)
            require(taken, name, given, "a solver, such as apviz.Automatic()")
        if isinstance(probes, Tensor):
            require(probes.ndim == 2, "the shape of probes", tuple(probes.shape), "(n, l)")
        elif probes is not None:
            require_whole("probes", probes, 1)
        accepted = f"one of {', '.join(LOG_DETERMINANTS)}"
        require(log_determinant in LOG_DETERMINANTS, "log_determinant", log_determinant, accepted)
        require_whole("seed", seed, 0)
        self.solver, self.hooks, self.variance_solver = solver, list(hooks), variance_solver
        self.probes, self.log_determinant = probes, log_determinant
        self.operator, self.dataset, self.seed = operator, dataset, seed
        self.calls = 0
        self._warned = False
        self._factors_all: dict[int, bool] = {}
        self._whitenings: dict[Hashable, tuple[Whitening, int]] = {}

    def train(
        self, x: Tensor, kernel: Kernel, noise: Tensor, residual: Tensor, wants_gradient: bool, model: Hashable = None
    ) -> Solved:
        """Run the batched solve of a training step, with σ² 0-d or (n,)."""
        self.calls += 1
        system = self._system(x, kernel, noise, residual)
        comparing = _comparing()
        small = comparing is not None and system.n <= CHOLESKY_ROWS
        if self.log_determinant == "auto" and (small or self._factors_all_of(system)):
            return self._exactly(system, wants_gradient, comparing)
        by_lanczos = self.log_determinant == "lanczos" or (self.log_determinant == "auto" and comparing is not None)
        if not by_lanczos or gpytorch_settings.skip_logdet_forward.on():
            return self._without_log_determinant(system, wants_gradient, comparing)
        solver = to_tolerance(self.solver, VALUE_TOL) if self.log_determinant == "auto" else self.solver
        w, y = self._solve(system, solver, system.b[:, :0], None), system.b
        # the error of yᵀw is yᵀK⁻¹r, that of (2y − Kw)ᵀw only rᵀK⁻¹r
        inv_quad = torch.sum((2 * y - system.operator.matmul(w)) * w, dtype=torch.float64)
        probes = self._given(system) or rademacher(system.n, self._count, self.seed, system.x)  # the same in every call
        found = self._log_determinant(system, probes.z, wants_gradient, model)
        left, right = found.left.to(w), found.right.to(w)
        return Solved(system.operator, w, left, right, inv_quad, found.value)

    def _log_determinant(
        self, system: KernelSystem, z: Tensor, wants_gradient: bool, model: Hashable
    ) -> LogDeterminant:
        """Return log det K with the whitening of an earlier step, so that values and gradients stay of one function.

        A whitening that takes twice its initial number of Lanczos steps is replaced at the next call.
        """
        key = (model, system.n)
        whitening, when_new = self._whitenings.pop(key, (None, None))
        if whitening is None:
            whitening = whitening_of(system.operator, self.seed)
        operator = with_fast_products(CountingOperator(system.operator), VALUE_ERROR)
        found = lanczos_log_determinant(operator, z.to(operator.x), wants_gradient, whitening)
        when_new = found.steps if when_new is None else when_new
        if found.steps <= WORN * when_new:
            self._whitenings[key] = whitening, when_new
            while len(self._whitenings) > MOST_WHITENINGS:
                self._whitenings.pop(next(iter(self._whitenings)))
        if not isinstance(self.probes, Tensor):  # given probes are not random, and have no standard error
            log.info(
                "log det K is known to ± %.2g nats a row (standard error over %d probes; %d products with K)",
                float(found.standard_error) / system.n, z.shape[1], found.steps,
            )  # fmt: skip
        return found

    def inverse(self, x: Tensor, kernel: Kernel, noise: Tensor, residual: Tensor) -> tuple[Operator, Tensor]:
        """Return K and K⁻¹, (n, n): from its factor if the solver computes one or n is small, else by n solves."""
        system = self._system(x, kernel, noise, residual)
        n = system.n
        what = f"leave-one-out of n = {n:,} rows needs K⁻¹ and two more such matrices, which need"
        require_memory(4 * n**2 * system.x.element_size(), system.device, what, "use ExactMarginalLogLikelihood")
        if n <= CHOLESKY_ROWS or self._factors_all_of(system):
            return system.operator, torch.cholesky_inverse(self._factored(system)[1].factor)
        solver = to_tolerance(self.solver, VALUE_TOL)
        prepared = solver.prepare(system.operator, INVERSE_COLUMNS)
        found = system.x.new_empty(n, n)
        for start in range(0, n, INVERSE_COLUMNS):
            columns = slice(start, min(start + INVERSE_COLUMNS, n))
            unit = system.x.new_zeros(n, columns.stop - start)
            unit[columns].fill_diagonal_(1.0)
            solution = attempt(system.with_right_hand_sides(unit), solver, self.hooks, prepared=prepared)
            report(solution, solver)
            found[:, columns] = solution.weights
        return system.operator, found.add_(found.T.clone()).div_(2)

    def _system(self, x: Tensor, kernel: Kernel, noise: Tensor, residual: Tensor) -> KernelSystem:
        return KernelSystem(
            x, residual, kernel, noise=noise, operator=self.operator, dtype=x.dtype, device=x.device,
            dataset=self.dataset,
        )  # fmt: skip

    def _factored(self, system: KernelSystem) -> tuple[Solver, Factored]:
        solver = self.solver if self._factors_all_of(system) else Cholesky()
        prepared = solver.prepare(system.operator)
        assert isinstance(prepared, Factored)  # the callers checked it
        return solver, prepared

    def _exactly(self, system: KernelSystem, wants_gradient: bool, comparing: str | None) -> Solved:
        """Return value and gradient from the Cholesky factor of K."""
        solver, prepared = self._factored(system)
        w, factor = self._solve(system, solver, system.b[:, :0], None, prepared), prepared.factor
        log_determinant = 2.0 * factor.diagonal().double().log().sum()
        if gpytorch_settings.skip_logdet_forward.on():
            log_determinant = self._left_out(system, comparing)
        left, right = (torch.cholesky_inverse(factor), None) if wants_gradient else (w[:, :0], w[:, :0])
        return Solved(system.operator, w, left, right, _inv_quad(system, w), log_determinant)

    def _without_log_determinant(self, system: KernelSystem, wants_gradient: bool, comparing: str | None) -> Solved:
        log_determinant = self._left_out(system, comparing)
        # every step draws its own probes, whose errors average out, unless GPyTorch's setting keeps them
        seed = self.seed if gpytorch_settings.deterministic_probes.on() else (self.seed << 20) + self.calls
        prepared, probes = None, Probes(system.b[:, :0], system.b[:, :0])
        if wants_gradient and (given := self._given(system)):
            probes = given
        elif wants_gradient:
            probes, prepared = draw(self.solver, system.operator, self._count, seed)
        weights = self._solve(system, self.solver, probes.z, seed, prepared)
        w, right = weights[:, :1], probes.dual_of(weights) / max(1, probes.z.shape[1])
        return Solved(system.operator, w, weights[:, 1:], right, _inv_quad(system, w), log_determinant)

    def _solve(
        self, system: KernelSystem, solver: Solver, z: Tensor, seed: int | None, prepared: Prepared | None = None
    ) -> Tensor:
        """Return K⁻¹[y − m, Z], (n, l+1)."""
        whole = system.with_right_hand_sides(torch.cat([system.b, z], dim=1), seed=seed)
        solution = attempt(whole, solver, self.hooks, prepared=prepared)
        report(solution, solver)
        return solution.weights.to(system.b)

    def _left_out(self, system: KernelSystem, comparing: str | None) -> Tensor:
        """Return 0 instead of log det K, with one warning."""
        skipped = gpytorch_settings.skip_logdet_forward.on()
        if comparing:
            how = "gpytorch.settings.skip_logdet_forward is on" if skipped else "log_determinant is 'skip'"
            raise ValueError(
                f"{comparing} compares values of the loss, but these leave out log det K ({how}), so it would minimise "
                "another function; use log_determinant='auto' or 'lanczos', or an optimiser that uses gradients only, "
                "such as torch.optim.Adam"
            )
        if not (skipped or self._warned):
            self._warned = True
            warnings.warn(SKIPPED, stacklevel=2)
        zero: Tensor = system.x.new_zeros(())
        return zero

    def _factors_all_of(self, system: KernelSystem) -> bool:
        """Test whether the solver takes Cholesky of all of K; cached per n, because choosing takes time."""
        if system.n not in self._factors_all:
            self._factors_all[system.n] = isinstance(self.solver.resolve(system.operator)[0], Cholesky)
        return self._factors_all[system.n]

    @property
    def _count(self) -> int:
        if isinstance(self.probes, int):
            return self.probes
        count = gpytorch_settings.num_trace_samples.value()
        require_whole("gpytorch.settings.num_trace_samples", count, 1)
        return int(count)

    def _given(self, system: KernelSystem) -> Probes | None:
        if not isinstance(self.probes, Tensor):
            return None
        if len(self.probes) != system.n:
            raise ValueError(f"probes has {len(self.probes)} rows, the model has {system.n} training points")
        z = self.probes.detach().to(system.x)
        return Probes(z, z)


def _inv_quad(system: KernelSystem, w: Tensor) -> Tensor:
    return torch.sum(system.b * w, dtype=torch.float64)


def _comparing() -> str | None:
    """Return the module of the calling optimiser if it compares values of the loss, else None."""
    frame = sys._getframe()
    while frame is not None:
        name = str(frame.f_globals.get("__name__"))
        if name.startswith(COMPARING_OPTIMISERS):
            return name
        frame = frame.f_back  # type: ignore[assignment]
    return None


def report(solution: Solution, solver: Solver) -> None:
    """Warn about a solve that did not converge, and raise for one that diverged."""
    if solution.stop_reason is StopReason.DIVERGED:
        raise RuntimeError(f"the solve by {solver.method.name} {solution.stop_message}")
    if not solution.converged:
        warnings.warn(
            f"the solve by {solver.method.name} has not converged: mean relative residual {solution.residual:.2e}, "
            f"tolerance {getattr(solver, 'tol', 0.0):g}, after {solution.epochs} epochs; it {solution.stop_message}",
            NumericalWarning,
            stacklevel=2,
        )
