"""What all solvers share: settings apart from state, the run that hooks look at, and every way a solve can end."""

from __future__ import annotations

import logging
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from apviz.operators import CountingOperator
from apviz.partitions import Partition
from apviz.solvers.checks import Checks
from apviz.solvers.clock import Clock
from apviz.solvers.interface import Solution, StopReason
from apviz.solvers.stopping import ExactResidual
from apviz.system import KernelSystem

log = logging.getLogger("apviz")


@dataclass(frozen=True)
class Update:
    """One projection, or one iteration of a Krylov method. Tensors stay on the device: reading one stalls a GPU.

    Args:
        number: from 1.
        block: the block projected onto, −1 for all rows at once.
        energy_decrease: 0-d float64 tensor, the decrease of h.
        squared_residual: (l+1,) float64 tensor of ‖r_i‖²/‖b_i‖².
        mark: a reading of the run's clock.
    """

    number: int
    epoch: int
    block: int
    work: float
    energy_decrease: Tensor
    squared_residual: Tensor
    mark: tuple[Any, float]


@dataclass(frozen=True)
class Epoch:
    """The state after an epoch; number 0 is the state before the first update. Everything is on the host.

    Args:
        residual_per_rhs: (l+1,) float64, recomputed from B − KW where `drift` is not NaN.
        residual: their mean.
        checked_residual: its mean, recomputed; NaN if not recomputed in this epoch.
        drift: ‖R − (B − KW)‖_F/‖B‖_F before the recomputation; NaN if not recomputed.
        block_norms: (m,) ‖R_I‖_F, or None where there are no blocks.
        measured: what the hooks' `measure` returned.
    """

    number: int
    work: float
    seconds: float
    residual: float
    residual_per_rhs: Tensor
    checked_residual: float
    drift: float
    energy: float
    block_norms: Tensor | None
    measured: Mapping[str, float]


class Hook:
    """An object told about a solve. It observes, may call `run.request_stop(why)`, and never changes the numbers."""

    def on_start(self, run: Run) -> None:
        """Before the first update; set-up is done."""

    def on_update(self, update: Update) -> None:
        """After every update."""

    def measure(self, run: Run) -> Mapping[str, float]:
        """Numbers to attach to an epoch before any hook is told about it; its time is not the solve's."""
        return {}

    def on_epoch(self, epoch: Epoch) -> None:
        """After every epoch, and once before the first as epoch 0."""

    def on_stop(self, solution: Solution) -> None:
        """The solve ended by itself."""

    def on_abandon(self, error: BaseException) -> None:
        """The solve ended by an exception or Ctrl-C, which is raised after this."""


@dataclass(frozen=True)
class Solver(ABC):
    """Settings of a solver; the state of a solve lives in its `Run`."""

    name: ClassVar[str]

    @property
    @abstractmethod
    def label(self) -> str:
        """The method in a few words, for tables and legends."""

    def resolve(self, system: KernelSystem) -> tuple[Solver, Mapping[str, str]]:
        """The same solver with a value for every setting that says `auto`, and why each was chosen."""
        return self, {}

    @abstractmethod
    def run(self, run: Run) -> StopReason:
        """Solves; leaves the weights in the run."""


@dataclass(frozen=True)
class Limits:
    """When a run may end: below `tol` after `minimum` epochs, at the latest after `maximum`; how often R is checked."""

    tol: float
    minimum: int
    maximum: int
    check_every: int


def column_inner(a: Tensor, b: Tensor) -> Tensor:
    """aᵢᵀbᵢ of every column accumulated in float64: (n, p), (n, p) to (p,)."""
    return torch.sum(a * b, 0, dtype=torch.float64)


def column_squares(r: Tensor) -> Tensor:
    """‖rᵢ‖² of every column in float64, (p,): no square underflows, and no sum rounds."""
    norms: Tensor = torch.linalg.vector_norm(r, dim=0, dtype=torch.float64)
    return norms.square()


class Run:
    """One solve in progress: what a solver reports to, and what hooks may look at.

    Solvers work on right-hand sides whose largest entries lie between 1 and 2: each is divided by its own power of
    two, which is exact, so that no norm can underflow or overflow and B times a power of two is solved alike. What
    solvers report is in these units, what hooks and users see is in the user's.

    Attributes:
        system, solver: what is solved, with which settings; none of them says `auto` any more.
        choices: what `auto` chose, by setting, with the reason.
        operator: counts the kernel entries; a solver asks nothing of the system's operator behind its back.
        partition, factors: of alternating projection, else None.
        preconditioner: r ↦ P⁻¹r for r: (n, p), of conjugate gradients, else None.
        share: (l+1,) float64, the square of each unit ÷ that of the largest.
    """

    def __init__(
        self,
        system: KernelSystem,
        solver: Solver,
        hooks: Iterable[Hook],
        initial: Tensor | None,
        choices: Mapping[str, str] | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.system, self.solver, self.hooks, self.choices = system, solver, list(hooks), dict(choices or {})
        self.clock = clock or Clock(system.device)
        self.operator = CountingOperator(system.operator)
        self._units = _powers_of_two(system.b)
        b = self.b
        self._norms = torch.linalg.vector_norm(b, dim=0, dtype=torch.float64).cpu()
        is_zero = self._norms == 0
        self._norms[is_zero] = 1.0
        self.share = (self._units / self._units.max()).square()
        self.initial_weights = None
        if initial is not None:
            # where b is zero, so is the solution
            self.initial_weights = (initial.double() / self._units).masked_fill_(is_zero.to(initial.device), 0.0).to(b)
        self.partition: Partition | None = None
        self.factors: Any = None
        self.preconditioner: Callable[[Tensor], Tensor] | None = None
        self.epoch_number = self.update_number = 0
        self.setup_work = self.setup_seconds = 0.0
        self.stop_message = ""
        #: whether any hook listens to updates; if not, what only they need is not computed
        self.records_updates = any(type(hook).on_update is not Hook.on_update for hook in self.hooks)
        self._weights: Callable[[], Tensor] = lambda: torch.zeros_like(system.b)
        self._residual_vectors = b
        self._exact: ExactResidual | None = None
        self._decrease = torch.zeros((), dtype=torch.float64, device=system.device)
        self._stop_requested: str | None = None
        self._first_energy = self._last_energy = self._first_residual = 0.0
        self.residual_per_rhs = torch.ones_like(self._norms)
        self._tol = float(getattr(solver, "tol", math.inf))
        self._checks = Checks(system.dtype)

    @property
    def b(self) -> Tensor:
        """(n, l+1) the right-hand sides in the units of the solve; a copy."""
        b: Tensor = (self.system.b.double() / self._units).to(self.system.b)
        return b

    @property
    def rhs_norms(self) -> Tensor:
        """(l+1,) float64 ‖b_i‖ on the host, with 1 in place of 0; a copy."""
        norms: Tensor = self._norms * self._units.cpu()
        return norms

    @property
    def weights(self) -> Tensor:
        """(n, l+1) the weights so far, in the user's order and units; a copy."""
        return self._in_users_units(self._weights())

    @property
    def residual_vectors(self) -> Tensor:
        """(n, l+1) R as the recursion has it, in the user's order and units; a copy."""
        return self._in_users_units(_user(self, self._residual_vectors))

    @property
    def initial_energy(self) -> float:
        return self._energy_in_users_units(self._first_energy)

    @property
    def energy(self) -> float:
        """h(W) after the last epoch; NaN where |B| is so small or large that float64 does not hold its square."""
        return self._energy_in_users_units(self._last_energy)

    @property
    def work(self) -> float:
        return self.operator.work

    @property
    def residual(self) -> float:
        return float(self.residual_per_rhs.mean())

    def seconds(self) -> float:
        return self.clock.seconds(self.clock.mark())

    def request_stop(self, why: str) -> None:
        """Asks the solve to stop after the current update."""
        self._stop_requested = why

    @property
    def must_stop(self) -> bool:
        return self._stop_requested is not None

    # --- what a solver calls ------------------------------------------------------------------------------------

    def start(self, weights: Callable[[], Tensor], r: Tensor, block_norms: Tensor | None) -> None:
        """Set-up is done. r: (n, l+1), updated in place from now on; block_norms: (m, l+1) squared, or None."""
        self._weights, self._residual_vectors = weights, r
        self.setup_work, self.setup_seconds = self.work, self.seconds()
        by_column = column_inner(self._weights(), self.b + _user(self, r))
        self._first_energy = self._last_energy = -0.5 * float((by_column * self.share).sum())
        self._exact = ExactResidual(self.operator)  # before hooks can reach what it is made from
        for hook in self.hooks:
            hook.on_start(self)
        self._report_epoch(column_squares(r), block_norms, math.nan, math.nan)
        self._first_residual = self.residual

    def updated(self, block: int, energy_decrease: Tensor, squared_residual: Tensor | None) -> None:
        """An update is done, with its (l+1,) float64 decreases of h, one a right-hand side.

        The squared norms of the residual, (l+1,), may be None where `records_updates` is false.
        """
        self.update_number += 1
        decrease = (energy_decrease * self.share).sum()
        self._decrease += decrease
        if squared_residual is None or not self.records_updates:
            return
        update = Update(
            self.update_number, self.epoch_number + 1, block, self.work,
            decrease * self._energy_unit, squared_residual / self._norms.to(squared_residual.device).square(),
            self.clock.mark(),
        )  # fmt: skip
        for hook in self.hooks:
            hook.on_update(update)

    def claims(self, squared_residual: Tensor, tol: float) -> bool:
        """Whether the recursion's (l+1,) squared norms are below the tolerance. Reads from the device."""
        return self._mean_relative(squared_residual) < self._checks.aim(tol)

    def end_epoch(
        self,
        squared_residual: Tensor,
        block_norms: Callable[[], Tensor | None],
        recompute: Callable[[], tuple[Tensor, Tensor]],
        adopt: Callable[[Tensor, bool], None] | None,
        limits: Limits,
    ) -> StopReason | None:
        """Ends an epoch; returns why the solve is over, or None.

        Args:
            squared_residual: (l+1,) squared norms by the recursion.
            recompute: `fresh_residual` of the solver's B and W.
            adopt: told B − KW and whether the recursion had claimed convergence; may make it the recursion's. None:
                there is no recursion, which could have drifted.
        """
        self.epoch_number += 1
        claimed = self._mean_relative(squared_residual)
        checked = drift = math.nan
        last = self.epoch_number >= limits.maximum
        aim = limits.tol if last else self._checks.aim(limits.tol)
        claims = claimed < aim and self.epoch_number >= limits.minimum
        if math.isfinite(claimed) and (claims or self.epoch_number % limits.check_every == 0):
            fresh, squared_residual = recompute()
            checked = self._mean_relative(squared_residual)
            if adopt is not None:
                drift = self._relative(self._residual_vectors - fresh)
                adopt(fresh, claims)
        self._report_epoch(squared_residual, block_norms(), checked, drift)
        if not math.isfinite(self.residual) or self.residual > 1e4 * max(1.0, self._first_residual):
            return StopReason.DIVERGED
        if checked < limits.tol and self.epoch_number >= limits.minimum:
            return StopReason.CONVERGED
        if checked >= limits.tol:
            self._checks.add(claimed if claims else None, checked, self._last_energy)
            if stagnation := self._checks.stagnation():
                self.stop_message = stagnation
                return StopReason.STAGNATED
        if self.must_stop:
            self.stop_message = f"stopped: {self._stop_requested}"
            return StopReason.STOPPED
        return StopReason.MAX_EPOCHS if last else None

    def stopped_inside_epoch(self, squared_residual: Tensor, block_norms: Tensor | None) -> StopReason:
        """A hook asked to stop: records where the solve is, as a last and incomplete epoch."""
        self.epoch_number += 1
        self._report_epoch(squared_residual, block_norms, math.nan, math.nan)
        self.stop_message = f"stopped: {self._stop_requested}"
        return StopReason.STOPPED

    def fresh_residual(self, b: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
        """B − KW, (n, l+1), and its (l+1,) squared norms, by which alone a solve may have converged.

        Where n is small all of it is in float64. Else it is in the operator's dtype, and its norms are corrected by
        what float64 finds on some rows (`ExactResidual`).

        Args:
            b, w: (n, l+1) in the solver's order of rows.
        """
        assert self._exact is not None  # start made it
        if self._exact.is_small:
            return self._exact.residual(b, w)
        fresh = b - self.operator.matmul(w)
        return fresh, self._exact.corrected(b, w, fresh, column_squares(fresh))

    # --- inside ---------------------------------------------------------------------------------------------------

    def _mean_relative(self, squared: Tensor) -> float:
        return float((squared.double().cpu().sqrt() / self._norms).mean())

    def _relative(self, a: Tensor) -> float:
        """‖A‖_F/‖B‖_F in the user's units."""
        of_b = (self._norms.square() * self.share.cpu()).sum()
        return math.sqrt(float((column_squares(a) * self.share).sum()) / float(of_b))

    @property
    def _energy_unit(self) -> float:
        """The factor from energies here to the user's; NaN where float64 does not hold it."""
        largest = float(self._units.max())
        return largest**2 if 1e-150 < largest < 1e150 else math.nan

    def _energy_in_users_units(self, energy: float) -> float:
        return energy * self._energy_unit if energy else 0.0

    def _in_users_units(self, a: Tensor) -> Tensor:
        return (a.double() * self._units).to(a)

    def _report_epoch(self, squared: Tensor, block_norms: Tensor | None, checked: float, drift: float) -> None:
        """The one transfer from the device in an epoch."""
        self.residual_per_rhs = squared.double().cpu().sqrt() / self._norms
        self._last_energy = self._first_energy - float(self._decrease)
        norms = None
        if block_norms is not None:
            norms = (block_norms.double() * self.share).sum(1).sqrt().cpu() * float(self._units.max())
        seconds = self.seconds()
        measured: dict[str, float] = {}
        with self.clock.pause():
            for hook in self.hooks:
                measured |= hook.measure(self)
        epoch = Epoch(
            self.epoch_number, self.work, seconds, self.residual, self.residual_per_rhs, checked, drift,
            self.energy, norms, measured,
        )  # fmt: skip
        for hook in self.hooks:
            hook.on_epoch(epoch)

    def solution(self, reason: StopReason) -> Solution:
        weights = self.weights
        reason = self._holds(weights, reason)
        return Solution(
            weights=weights[:, 0] if self.system.single_column else weights,
            stop_reason=reason,
            stop_message=self.stop_message or reason.value,
            residual=self.residual,
            residual_per_rhs=self.residual_per_rhs,
            epochs=self.epoch_number,
            work=self.work,
            seconds=self.seconds(),
            setup_work=self.setup_work,
            setup_seconds=self.setup_seconds,
            energy=self.energy,
        )

    def _holds(self, weights: Tensor, reason: StopReason) -> StopReason:
        """The reason, unless weights in the user's units are beyond their dtype, or so small that digits are lost."""
        dtype, largest = self.system.dtype, float(self.system.b.abs().max())
        if not torch.isfinite(weights).all() and torch.isfinite(self._weights()).all():
            self.stop_message = (
                f"diverged: the weights of right-hand sides up to {largest:.1e} are beyond {dtype}; divide B, or use "
                "float64"
            )
            return StopReason.DIVERGED
        kept, order = (weights.double() / self._units).to(weights), self.partition.order if self.partition else ...
        if reason is not StopReason.CONVERGED or torch.equal(kept, self._weights()):
            return reason
        _, squared = self.fresh_residual(self.b[order], kept[order])
        self.residual_per_rhs = squared.cpu().sqrt() / self._norms
        if self.residual < self._tol:
            return reason
        self.stop_message = (
            f"stagnated: the weights of right-hand sides up to {largest:.1e} are so small that {dtype} loses their "
            f"digits, and a residual of {self.residual:.2e} is left; multiply B, or use float64"
        )
        return StopReason.STAGNATED


def _powers_of_two(b: Tensor) -> Tensor:
    """(l+1,) float64: for each column of b: (n, l+1) the power of two at or below its largest entry.

    A column of zeros takes that of the largest of the others, beside which it then weighs nothing; or 1.
    """
    largest = b.abs().amax(0).double()
    largest = torch.where(largest > 0, largest, largest.max() if bool(largest.any()) else 1.0)
    return torch.ldexp(torch.ones_like(largest), torch.frexp(largest).exponent - 1)


def _user(run: Run, r: Tensor) -> Tensor:
    """Rows of `r` from the stored order of the partition to the user's."""
    if run.partition is None or run.partition.is_identity:
        return r
    restored = torch.empty_like(r)
    restored[run.partition.order] = r
    return restored


def solve(
    system: KernelSystem, solver: Solver, hooks: Iterable[Hook] = (), initial_weights: Tensor | None = None
) -> Solution:
    """Solves K W = B.

    Args:
        initial_weights: W to start from, of the shape of B; costs one product with K (1.0 work).

    Raises:
        ValueError: initial weights of another shape, or settings that do not fit the system.
        NotPositiveDefinite: a block, or K, has no Cholesky factor even with jitter.

    Ctrl-C and errors are passed on after every hook was told, so nothing recorded is lost.
    """
    if initial_weights is not None:
        initial_weights = torch.as_tensor(initial_weights).to(system.b)
        given = tuple(initial_weights.shape)
        if initial_weights.ndim == 1:
            initial_weights = initial_weights[:, None]
        if initial_weights.shape != system.b.shape:
            raise ValueError(f"initial_weights must have the shape of b, {tuple(system.b.shape)}, got {given}")
        if not torch.isfinite(initial_weights).all():
            raise ValueError("initial_weights has NaN or infinite values; start from None (zeros) instead")
    # ten epochs is what the paper's training solves take at least
    system.operator.settle(10.0 * system.n**2, system.b.shape[1])
    clock = Clock(system.device)  # choosing is part of the solve's time
    solver, choices = solver.resolve(system)
    run = Run(system, solver, hooks, initial_weights, choices, clock)
    try:
        reason = solver.run(run)
        solution = run.solution(reason)
    except BaseException as error:
        for hook in run.hooks:
            hook.on_abandon(error)
        raise
    for hook in run.hooks:
        hook.on_stop(solution)
    log.debug("%s: %s, residual %.2e after %.2f work", solver.label, reason, solution.residual, solution.work)
    return solution
