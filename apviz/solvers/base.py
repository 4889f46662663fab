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
from apviz.solvers.outcome import Solution, StopReason
from apviz.system import KernelSystem

log = logging.getLogger("apviz")


@dataclass(frozen=True)
class Update:
    """One projection, or one iteration of a Krylov method. Tensors stay on the device: reading one stalls a GPU.

    Args:
        number: from 1.
        block: the block projected onto, −1 for all rows at once.
        energy_decrease: 0-d float64 tensor, the decrease of h.
        squared_residual: (l+1,) tensor of ‖r_i‖².
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


def frobenius_inner(a: Tensor, b: Tensor) -> Tensor:
    """tr(AᵀB) accumulated in float64, a 0-d tensor."""
    return torch.sum(a * b, dtype=torch.float64)


class Run:
    """One solve in progress: what a solver reports to, and what hooks may look at.

    Attributes:
        system, solver: what is solved, with which settings; none of them says `auto` any more.
        choices: what `auto` chose, by setting, with the reason.
        operator: counts the kernel entries; a solver asks nothing of the system's operator behind its back.
        partition, factors: of alternating projection, else None.
        preconditioner: r ↦ P⁻¹r for r: (n, p), of conjugate gradients, else None.
        rhs_norms: (l+1,) float64 ‖b_i‖, with 1 in place of 0.
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
        self.initial_weights = initial
        self.partition: Partition | None = None
        self.factors: Any = None
        self.preconditioner: Callable[[Tensor], Tensor] | None = None
        norms = torch.linalg.vector_norm(system.b.double(), dim=0)
        self.rhs_norms = torch.where(norms > 0, norms, 1.0).cpu()
        self.epoch_number = self.update_number = 0
        self.setup_work = self.setup_seconds = 0.0
        self.stop_message = ""
        #: whether any hook listens to updates; if not, what only they need is not computed
        self.records_updates = any(type(hook).on_update is not Hook.on_update for hook in self.hooks)
        self._weights: Callable[[], Tensor] = lambda: torch.zeros_like(system.b)
        self._residual_vectors = system.b
        self._decrease = torch.zeros((), dtype=torch.float64, device=system.device)
        self._stop_requested: str | None = None
        self.initial_energy = self._energy = self._first_residual = 0.0
        self.residual_per_rhs = torch.ones_like(self.rhs_norms)
        self._checks = Checks(system.dtype)

    @property
    def weights(self) -> Tensor:
        """(n, l+1) the weights so far, in the user's order; copy them to keep them."""
        return self._weights()

    @property
    def residual_vectors(self) -> Tensor:
        """(n, l+1) R as the recursion has it, in the user's order."""
        return _user(self, self._residual_vectors)

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
        self.initial_energy = self._energy = -0.5 * float(
            frobenius_inner(self.weights, self.system.b + self.residual_vectors)
        )
        for hook in self.hooks:
            hook.on_start(self)
        self._report_epoch(torch.linalg.vector_norm(r, dim=0).square(), block_norms, math.nan, math.nan)
        self._first_residual = self.residual

    def updated(self, block: int, energy_decrease: Tensor, squared_residual: Tensor | None) -> None:
        """An update is done; `squared_residual` may be None where `records_updates` is false."""
        self.update_number += 1
        self._decrease += energy_decrease
        if squared_residual is None or not self.records_updates:
            return
        update = Update(
            self.update_number, self.epoch_number + 1, block, self.work, energy_decrease, squared_residual,
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
        recompute: Callable[[bool], tuple[float, Tensor]],
        limits: Limits,
    ) -> StopReason | None:
        """Ends an epoch; returns why the solve is over, or None.

        `recompute(adopt)` computes B − KW, makes it the residual of the recursion if `adopt`, and returns the
        drift ‖R − (B − KW)‖_F and the (l+1,) squared norms of B − KW.
        """
        self.epoch_number += 1
        claimed = self._mean_relative(squared_residual)
        checked = drift = math.nan
        last = self.epoch_number >= limits.maximum
        aim = limits.tol if last else self._checks.aim(limits.tol)
        claims = claimed < aim and self.epoch_number >= limits.minimum
        if math.isfinite(claimed) and (claims or self.epoch_number % limits.check_every == 0):
            distance, squared_residual = recompute(claims)
            drift = distance / float(torch.linalg.vector_norm(self.rhs_norms))
            checked = self._mean_relative(squared_residual)
        self._report_epoch(squared_residual, block_norms(), checked, drift)
        if not math.isfinite(self.residual) or self.residual > 1e4 * max(1.0, self._first_residual):
            return StopReason.DIVERGED
        if checked < limits.tol and self.epoch_number >= limits.minimum:
            return StopReason.CONVERGED
        if checked >= limits.tol:
            self._checks.add(claimed if claims else None, checked, self._energy)
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

    # --- inside ---------------------------------------------------------------------------------------------------

    def _mean_relative(self, squared: Tensor) -> float:
        return float((squared.double().cpu().sqrt() / self.rhs_norms).mean())

    def _report_epoch(self, squared: Tensor, block_norms: Tensor | None, checked: float, drift: float) -> None:
        """The one transfer from the device in an epoch."""
        self.residual_per_rhs = squared.double().cpu().sqrt() / self.rhs_norms
        self._energy = self.initial_energy - float(self._decrease)
        norms = None if block_norms is None else block_norms.double().sum(1).sqrt().cpu()
        seconds = self.seconds()
        measured: dict[str, float] = {}
        with self.clock.pause():
            for hook in self.hooks:
                measured |= hook.measure(self)
        epoch = Epoch(
            self.epoch_number, self.work, seconds, self.residual, self.residual_per_rhs, checked, drift,
            self._energy, norms, measured,
        )  # fmt: skip
        for hook in self.hooks:
            hook.on_epoch(epoch)

    def solution(self, reason: StopReason) -> Solution:
        weights = self.weights
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
            energy=self._energy,
        )


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
