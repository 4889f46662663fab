"""The run of a solve: what a solver reports to and hooks look at."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor

from apviz.factors import BlockFactors
from apviz.operators import CountingOperator
from apviz.operators.counting import Entries
from apviz.partitions import Partition
from apviz.preconditioners.base import Apply
from apviz.solvers.clock import Clock
from apviz.solvers.interface import Cost, Epoch, Hook, Prepared, Solution, StopReason, Update
from apviz.solvers.passes import Measured, Passes
from apviz.solvers.refinement import Limits, Pass, Recursion, Refinement
from apviz.solvers.steps import column_inner, column_squares
from apviz.solvers.units import Units
from apviz.system import KernelSystem

# times the residual at the start, or 1, beyond which a solve has diverged
EXPLODED = 1e4


class Run:
    """A solve in progress: what a solver reports to, and what hooks may look at.

    What solvers work on and report is in units of the run (`apviz.solvers.units`), what hooks and users see in theirs.

    Attributes:
        system, prepared: what is solved, with which settings and set-up; none of the settings says `auto` any more.
        operator: counts the kernel entries, in the order of rows of the solve; a solver asks nothing of the system's
            operator behind its back.
        initial_weights: (n, l+1) float64, in the user's order and the units of the run, or None.
    """

    def __init__(
        self,
        system: KernelSystem,
        prepared: Prepared,
        hooks: Iterable[Hook] = (),
        initial_weights: Tensor | None = None,
        cost: Cost | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.system, self.prepared, self.hooks = system, prepared, list(hooks)
        self.solver, self.choices = prepared.solver, dict(prepared.choices)
        self.clock = clock or Clock(system.device)
        self.clock.add(cost.seconds if cost else 0.0)
        self.operator = CountingOperator(prepared.operator, Entries(cost.entries if cost else 0))
        self._units = Units(system.given_b)
        self.initial_weights = None
        if initial_weights is not None:
            scaled = self._units.of_users(initial_weights)
            # where b is zero, so is the solution
            self.initial_weights = scaled.masked_fill_(self._units.is_zero.to(scaled.device), 0.0)
        self.epoch_number = self.update_number = 0
        self.setup_work = self.setup_seconds = 0.0
        self.stop_message = ""
        #: whether any hook listens to updates; if not, what only they need is not computed
        self.records_updates = any(type(hook).on_update is not Hook.on_update for hook in self.hooks)
        self._passes = Passes(self.operator, self._units, self.clock)  # before hooks can reach what it is made from
        self._stopped_inside = False
        self._base_energy = 0.0  # at the last pass, or the start; what h has fallen by since:
        self._decrease = torch.zeros((), dtype=torch.float64, device=system.device)
        self._measured: Measured | None = None  # of the weights now, if it is
        self._stop_requested: str | None = None
        self._stop_wished: str | None = None
        self._first_energy = self._last_energy = self._first_residual = 0.0
        self._residual_is_measured = False
        self._residual_per_rhs = torch.ones_like(self._units.norms)

    @property
    def partition(self) -> Partition | None:
        """The partition of a method with blocks, else None."""
        return self.prepared.partition

    @property
    def factors(self) -> BlockFactors | None:
        """The factors of the blocks of a method that has some, else None."""
        return self.prepared.factors

    @property
    def preconditioner(self) -> Apply | None:
        """The map r ↦ P⁻¹r of conjugate gradients that have one, else None."""
        return self.prepared.preconditioner

    @property
    def b(self) -> Tensor:
        """The right-hand sides in the units of the solve and the dtype they were given in, (n, l+1); a copy."""
        return self._units.b

    @property
    def rhs_norms(self) -> Tensor:
        """The norms ‖b_i‖, (l+1,) float64 on the host, with 1 in place of 0; a copy."""
        return self._units.rhs_norms

    @property
    def weights(self) -> Tensor:
        """The weights so far, (n, l+1) float64, in the user's order and units; a copy."""
        return self._units.in_users(self.prepared.in_users_order(self._recursion.weights()).double())

    @property
    def residual_vectors(self) -> Tensor:
        """The residual R as the recursion has it, (n, l+1), in the user's order and units; a copy."""
        return self._units.in_users(self.prepared.in_users_order(self._recursion.r))

    @property
    def initial_energy(self) -> float:
        """The energy h(W) before the first update."""
        return self._units.energy_in_users(self._first_energy)

    @property
    def energy(self) -> float:
        """The energy h(W) after the last epoch; NaN where float64 does not hold the square of B."""
        return self._units.energy_in_users(self._last_energy)

    @property
    def work(self) -> float:
        """The kernel entries ÷ n² so far, with those of the set-up where it was made for this solve."""
        return self.operator.work

    @property
    def residual_per_rhs(self) -> Tensor:
        """The relative residuals ‖r_i‖/‖b_i‖ after the last epoch, (l+1,) float64 on the host; a copy."""
        return self._residual_per_rhs.clone()

    @property
    def residual(self) -> float:
        """The mean over right-hand sides of ‖r_i‖/‖b_i‖ after the last epoch."""
        return float(self._residual_per_rhs.mean())

    @property
    def residual_is_measured(self) -> bool:
        """Whether the residual after the last epoch is of B − KW in float64; else it is the recursion's."""
        return self._residual_is_measured

    def seconds(self) -> float:
        """Counts the seconds so far, without those that hooks took for their own."""
        return self.clock.seconds(self.clock.mark())

    def request_stop(self, why: str) -> None:
        """Asks the solve to stop after the current update; on many ranks, after the epoch, where rank 0 asks."""
        self._stop_wished = why
        if self.operator.layout.ranks == 1:
            self._stop_requested = why

    @property
    def must_stop(self) -> bool:
        """Whether a hook has asked the solve to stop."""
        return self._stop_requested is not None

    # --- what a solver calls ------------------------------------------------------------------------------------

    def start(self, recursion: Recursion, limits: Limits) -> None:
        """Tells the hooks that the set-up is done, and `recursion` at its first residual."""
        self._recursion, self._limits = recursion, limits
        self.setup_work, self.setup_seconds = self.work, self.seconds()
        if self._measured is None:  # W = 0: B − KW is B
            squared = self.operator.layout.sum(column_squares(recursion.b))
            self._measured = Measured(recursion.b, squared, *[torch.zeros_like(squared)] * 3)
        self._first_energy = self._last_energy = self._base_energy = self._summed(self._measured.energy)
        for hook in self.hooks:
            hook.on_start(self)
        self._report_epoch(self._measured.squared, math.nan, math.nan)
        self._first_residual = self.residual
        self._begin_passes()

    def go_on(self, recursion: Recursion, limits: Limits) -> None:
        """Goes on with another recursion, from the weights and in the order of rows of the one before."""
        self._recursion, self._limits = recursion, limits
        self._rebase(self._measured)
        self._measured = None
        self._begin_passes()

    def _begin_passes(self) -> None:
        recursion, limits = self._recursion, self._limits
        jitter = float(self.factors.jitter.max()) if self.factors is not None else 0.0
        self._passes.begin(
            recursion, limits,
            Refinement(
                limits, self.residual, recursion.r.dtype, more_digits=self._more_digits(),
                jitter=jitter if jitter > self.system.noise else 0.0,
            ),
        )  # fmt: skip

    def weighted(self, norms: Tensor) -> Tensor:
        """Weighs squared norms of blocks and right-hand sides, (m, l+1), as the user's units do."""
        return self._units.weighted(norms)

    def updated(self, block: int, energy_decrease: Tensor, squared_residual: Tensor) -> None:
        """Reports an update to the hooks.

        Args:
            energy_decrease: (l+1,) float64 decreases of h, one a right-hand side.
            squared_residual: (l+1,) squared norms of the residual; not looked at where `records_updates` is false.
        """
        self.update_number += 1
        decrease = (energy_decrease * self._units.share).sum()
        self._decrease += decrease
        if not self.records_updates:
            return
        update = Update(
            self.update_number, self.epoch_number + 1, block, self.work,
            decrease * self._units.energy, squared_residual / self._units.norms.to(squared_residual.device).square(),
            self.clock.mark(), self.operator.traffic,
        )  # fmt: skip
        for hook in self.hooks:
            hook.on_update(update)

    def ends_inside_epoch(self, squared_residual: Tensor) -> bool:
        """Tests whether to end the epoch after this update: a hook asks for it, or the recursion claims to be done."""
        self._stopped_inside = self.must_stop
        if self._stopped_inside:
            return True
        limits = self._limits
        looks = limits.look_every > 0 and self.update_number % limits.look_every == 0
        may_end = looks and self.epoch_number + 1 >= limits.minimum
        return may_end and self._passes.wants_one(squared_residual)

    def end_epoch(self, squared_residual: Tensor, *, is_fresh: bool = False) -> StopReason | None:
        """Ends an epoch; returns why the solve is over, or None. A claim is checked, and so is every few epochs.

        Args:
            squared_residual: (l+1,) squared norms by the recursion.
            is_fresh: they are of B − KW already (`fresh_residual`), and there is no recursion that could have drifted.
        """
        self.epoch_number += 1
        self._stop_requested = self.operator.layout.agreed(self._stop_wished)
        if self._stopped_inside:  # a last and incomplete epoch
            self._report_epoch(squared_residual, math.nan, math.nan)
            return self._stopped()
        found: Pass | None = None
        exploded = self._has_exploded(self._units.mean_relative(squared_residual))
        if is_fresh:
            found = self._passes.direct(self.epoch_number, squared_residual)
        elif (made := self._passes.at_end_of(self.epoch_number, squared_residual, exploded=exploded)) is not None:
            found, fresh, squared_residual, self._measured = made
            if self._measured is None:
                self._base_energy, self._decrease = self._energy_now(fresh), torch.zeros_like(self._decrease)
        self._rebase(self._measured)
        checked, drift = (found.residual, found.drift) if found is not None else (math.nan, math.nan)
        self._report_epoch(squared_residual, checked, drift)
        if found is not None:
            for hook in self.hooks:
                hook.on_pass(found)
        return self._ends(found, may_stagnate=not is_fresh)

    def _ends(self, found: Pass | None, *, may_stagnate: bool) -> StopReason | None:
        """Why the solve is over after an epoch, at whose end a pass may have been made, or None.

        Args:
            may_stagnate: whether what passes found is looked through for progress; a direct solve does so itself.
        """
        limits, residual, is_lost = self._limits, self.residual, self._passes.is_lost
        is_exact = found is not None and found.is_exact
        if not math.isfinite(residual) or self._has_exploded(residual):
            self.stop_message = f"diverged: {self._lost('beyond', 'divide')}" if is_lost else self._diverged()
            return StopReason.DIVERGED
        if is_exact and residual < limits.tol and self.epoch_number >= limits.minimum:
            return StopReason.CONVERGED
        if is_exact and residual >= limits.tol and is_lost:
            self.stop_message = f"stagnated: {self._lost('so small that digits are lost in', 'multiply')}"
            return StopReason.STAGNATED
        if found is not None and may_stagnate and (floor := self._passes.floor(found, self._last_energy)):
            self.stop_message = floor
            return StopReason.STAGNATED
        if self.must_stop:
            return self._stopped()
        return StopReason.MAX_EPOCHS if self.epoch_number >= limits.maximum else None

    def fresh_residual(self) -> tuple[Tensor, Tensor]:
        """Computes B − KW in float64, (n, l+1), and its (l+1,) squared norms: only these may claim convergence."""
        self._measured = self._passes.measure()
        return self._measured.r, self._measured.squared

    def residual_of(self, w: Tensor) -> Tensor:
        """Computes B − KW, (n, l+1) in float64, for w: (n, l+1) to start from, in the order of the user's rows."""
        self._measured = self._passes.measured_at(self.prepared.in_order(self.b), self.prepared.in_order(w))
        return self._measured.r

    # --- inside ---------------------------------------------------------------------------------------------------

    def _energy_now(self, r: Tensor) -> float:
        """h(W) = −½tr(Wᵀ(B + R)) in the units of the run, where r is B − KW."""
        by_column = self.operator.layout.sum(column_inner(self._recursion.weights(), self._recursion.b + r))
        return self._summed(-0.5 * by_column)

    def _rebase(self, measured: Measured | None) -> None:
        """Takes h(W) from what was measured, if anything was, in place of what decreases add up to."""
        if measured is not None:
            self._base_energy, self._decrease = self._summed(measured.energy), torch.zeros_like(self._decrease)

    def _summed(self, by_column: Tensor) -> float:
        """The sum of (l+1,) energies, each of which has the unit of its right-hand side."""
        return float((by_column * self._units.share).sum())

    def _has_exploded(self, residual: float) -> bool:
        return residual > EXPLODED * max(1.0, self._first_residual)

    def _stopped(self) -> StopReason:
        self.stop_message = f"stopped: {self._stop_requested}"
        return StopReason.STOPPED

    def _report_epoch(self, squared: Tensor, checked: float, drift: float) -> None:
        """The one transfer from the device in an epoch."""
        self._residual_per_rhs = self._units.relative_per_rhs(squared)
        self._last_energy = self._base_energy - float(self._decrease)
        of_residual = of_energy = math.nan
        if (now := self._measured) is not None:
            of_residual = self._units.relative(now.rounding.square())
            of_energy = self._units.energy_in_users(self._summed(now.energy_rounding))
        self._residual_is_measured, self._measured = now is not None, None  # the next update moves W
        norms, block_norms = None, self._recursion.block_norms()
        if block_norms is not None:
            norms = (block_norms.double() * self._units.share).sum(1).sqrt().cpu() * self._units.largest
        seconds = self.seconds()
        measured: dict[str, float] = {}
        with self.clock.pause():
            for hook in self.hooks:
                measured |= hook.measure(self)
        epoch = Epoch(
            self.epoch_number, self.work, seconds, self.residual, self.residual_per_rhs.clone(), checked, drift,
            self.energy, norms, measured, of_residual, of_energy,
        )  # fmt: skip
        for hook in self.hooks:
            hook.on_epoch(epoch)

    def solution(self, reason: StopReason) -> Solution:
        """Returns what the solve ended with."""
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
            energy=self.energy,
            residual_is_measured=self._residual_is_measured,
        )

    def _diverged(self) -> str:
        """What makes a recursion explode, and what helps: nobody is sent to float64 who is there already."""
        remedy = " or ".join([*self._more_digits(), "more noise"])
        dtype = self._recursion.r.dtype
        return f"diverged: the residual has exploded, as where rounding K to {dtype} outweighs the noise; use {remedy}"

    def _more_digits(self) -> list[str]:
        """What gives the recursion more digits, in words; nothing where it has all there are."""
        if self._recursion.r.dtype == torch.float64:
            return []
        return ["inner_dtype='float64'" if hasattr(self.solver, "inner_dtype") else "a system in float64"]

    def _lost(self, what: str, do: str) -> str:
        largest = float(self.system.b.abs().max())
        return f"the weights of right-hand sides up to {largest:.1e} are {what} {torch.float64}; {do} B"
