"""The run of a solve: it drives a solver's generator, has it certified, and is the view that hooks get."""

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
from apviz.solvers.certify import Certifier
from apviz.solvers.interface import Cost, Epoch, Hook, Prepared, Solution, StopReason, Update
from apviz.solvers.measuring.clock import Clock
from apviz.solvers.measuring.decreases import Decreases
from apviz.solvers.measuring.refinement import Pass
from apviz.solvers.measuring.residuals import Certificate, Certify, Measured
from apviz.solvers.measuring.units import Units
from apviz.solvers.state import Continue, EpochEnd, Events, Remeasure, State, Updated, column_inner, column_squares
from apviz.solvers.stopping import Stopping
from apviz.system import KernelSystem


class Run:
    """A solve in progress, which drives the solver and which hooks may inspect.

    Solvers work in the units of the run (`apviz.solvers.measuring.units`); hooks and users see their own units.

    Attributes:
        system, prepared: the system, and the settings and set-up of the solve; no setting is `auto`.
        operator: counts the kernel entries, in the order of rows of the solve; a solver uses no other operator.
    """

    def __init__(
        self,
        system: KernelSystem,
        prepared: Prepared,
        hooks: Iterable[Hook] = (),
        initial_weights: Tensor | None = None,
        cost: Cost | None = None,
        clock: Clock | None = None,
        until: Stopping | None = None,
        certify: Certify = "operator",
    ) -> None:
        self.system, self.prepared, self.hooks = system, prepared, list(hooks)
        self.solver, self.choices = prepared.solver, dict(prepared.choices)
        self.clock = clock or Clock(system.device)
        self.clock.add(cost.seconds if cost else 0.0)
        self.operator = CountingOperator(prepared.operator, Entries(cost.entries if cost else 0))
        self._units = Units(system.given_b)
        self._initial = initial_weights
        self.epoch_number = self.update_number = 0
        self.setup_work = self.setup_seconds = 0.0
        #: whether any hook handles updates; if not, values only for updates are not computed
        self.records_updates = any(type(hook).on_update is not Hook.on_update for hook in self.hooks)
        #: the tolerance and the limits of this solve
        self.stopping = until or Stopping.of(self.solver)
        # created before hooks can change its inputs
        self._certifier = Certifier(self.operator, self._units, self.clock, self.stopping, certify)
        self._base_energy = 0.0  # energy at the last pass or the start; `_decreases` holds the decrease since
        self._decreases = Decreases(self._units.share, self._units.energy)
        self._measured: Measured | None = None  # measurement of the current weights, if any
        self._measured_at: _Moment | None = None  # when the solver last requested B − KW
        self._stop_requested: str | None = None
        self._stop_wished: str | None = None
        self._stop_message = ""
        self._stopped_inside = False
        self._reported_at: _Moment | None = None  # when an epoch was last reported
        self._first_energy = self._last_energy = 0.0
        self._certificate: Certificate | None = None  # of the residual after the last epoch
        self._residual_per_rhs = torch.ones_like(self._units.norms)

    @property
    def partition(self) -> Partition | None:
        """The partition of a method with blocks, else None."""
        return self.prepared.partition

    @property
    def factors(self) -> BlockFactors | None:
        """The factors of the blocks of a method with blocks, else None."""
        return self.prepared.factors

    @property
    def preconditioner(self) -> Apply | None:
        """The map r ↦ P⁻¹r of preconditioned conjugate gradients, else None."""
        return self.prepared.preconditioner

    @property
    def b(self) -> Tensor:
        """The right-hand sides in the units of the solve and their given dtype, (n, l+1); a copy."""
        return self._units.b

    @property
    def rhs_norms(self) -> Tensor:
        """The norms ‖b_i‖, (l+1,) float64 on the host, with 1 instead of 0; a copy."""
        return self._units.rhs_norms

    @property
    def weights(self) -> Tensor:
        """The current weights, (n, l+1) float64, in the user's order and units; a copy."""
        return self._units.in_users(self.prepared.in_users_order(self._state.weights()).double())

    @property
    def residual_vectors(self) -> Tensor:
        """The recursion's residual R, (n, l+1), in the user's order and units; a copy."""
        return self._units.in_users(self.prepared.in_users_order(self._state.residuals()))

    @property
    def initial_energy(self) -> float:
        """The energy h(W) before the first update."""
        return self._units.energy_in_users(self._first_energy)

    @property
    def energy(self) -> float:
        """The energy h(W) after the last epoch; NaN if the square of B overflows or underflows float64."""
        return self._units.energy_in_users(self._last_energy)

    @property
    def work(self) -> float:
        """The kernel entries ÷ n² so far, including the set-up if this solve made it."""
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
        """Whether the residual after the last epoch is of B − KW, as claims need it; else it is the recursion's."""
        return self._certificate is not None

    def seconds(self) -> float:
        """Return the seconds so far, excluding the time of hooks."""
        return self.clock.seconds(self.clock.mark())

    def request_stop(self, why: str) -> None:
        """Request a stop after the current update; on several ranks, after the epoch, if rank 0 requests it."""
        self._stop_wished = why
        if self.operator.layout.ranks == 1:
            self._stop_requested = why

    @property
    def stop_requested(self) -> str | None:
        """Why a hook requested a stop, in its words; None: none did."""
        return self._stop_requested

    @property
    def must_stop(self) -> bool:
        """Whether a hook has requested a stop."""
        return self._stop_requested is not None

    # --- the solve ------------------------------------------------------------------------------------------------

    def solve(self) -> Solution:
        """Drive the solver's generator until the solve is over, and return the solution."""
        self._begin(self.solver.init(self.prepared, self._start()))
        events = self.solver.epochs(self.prepared, self._state)
        try:
            return self._solution(self._driven(events))
        finally:
            events.close()

    def _begin(self, state: State) -> None:
        """Report to the hooks that the set-up is done, and the state before the first update."""
        self._state = state
        self.setup_work, self.setup_seconds = self.work, self.seconds()
        if self._measured is None:  # W = 0: B − KW is B
            squared = self.operator.layout.sum(column_squares(state.b))
            zero = torch.zeros_like(squared)
            self._measured = Measured(state.b, squared, rounding=zero, energy=zero, energy_rounding=zero)
        self._first_energy = self._last_energy = self._base_energy = self._summed(self._measured.energy)
        for hook in self.hooks:
            hook.on_start(self)
        self._report_epoch(self._measured.squared, math.nan, math.nan)
        self._certify(state)

    def _driven(self, events: Events) -> StopReason:
        """Handle a solver's events until the solve ends; return the stop reason."""
        reply: object = None
        while True:
            try:
                event = events.send(reply)
            except StopIteration:
                return self._returned()
            reply = None
            if isinstance(event, Updated):
                reply = self._updated(event)
            elif isinstance(event, Remeasure):
                reply = self._remeasure()
            elif isinstance(event, Continue):
                self._continue(event.state)
            elif isinstance(event, EpochEnd):
                if (reason := self._end_epoch()) is not None:
                    return reason
            else:
                raise TypeError(
                    f"epochs of {type(self.solver).__name__} must yield objects of Updated, EpochEnd, Remeasure or "
                    f"Continue, got {event!r:.80}"
                )

    def _remeasure(self) -> Tensor:
        """Evaluate B − KW for the current weights, and use it as the residual of the recursion."""
        self._measured, self._measured_at = self._certifier.measure(), _Moment(self._state.w)
        self._state.r.copy_(self._measured.r)
        return self._measured.r

    def _returned(self) -> StopReason:
        """End a solve whose generator has returned, with a measured residual; return the stop reason."""
        is_reported = self._reported_at is not None and self._reported_at.is_now(self._state.w)
        if not (is_reported and self.residual_is_measured):
            self._remeasure()
            if (reason := self._end_epoch()) is not None:
                return reason
        return self._certifier.returned()

    def _start(self) -> State:
        """Return the initial weights and residual, in the solver's order of rows."""
        operator, units, in_order = self.operator, self._units, self.prepared.in_order
        b = in_order(units.b)
        share = None if bool((units.share == 1).all()) else units.share
        if self._initial is None:
            w, r = torch.zeros_like(b, dtype=torch.float64), b.to(operator.x.dtype, copy=True)
        else:
            scaled = units.of_users(self._initial)
            # if b is zero, so is the solution
            w = in_order(scaled.masked_fill_(units.is_zero.to(scaled.device), 0.0))
            self._measured = self._certifier.measured_at(b, w)
            r = self._measured.r.to(operator.x.dtype, copy=True)
        return State(operator=operator, b=b, w=w, r=r, share=share, choices=self.choices)

    def _certify(self, state: State) -> None:
        """Start to certify a state."""
        state.epoch, state.residual = self.epoch_number, self.residual
        jitter = float(self.factors.jitter.max()) if self.factors is not None else 0.0
        self._certifier.begin(
            state, more_digits=self._more_digits(), jitter=jitter if jitter > self.system.noise else 0.0,
            largest_b=float(self.system.b.abs().max()),
        )  # fmt: skip

    def _continue(self, state: State) -> None:
        """Continue with another state, at the same weights and in the same order of rows."""
        self._state = state
        self._rebase(self._measured)
        self._measured = self._measured_at = None
        self._certify(state)

    @property
    def _is_fresh(self) -> bool:
        """Whether B − KW was evaluated for the current weights, at the solver's request."""
        return self._measured_at is not None and self._measured_at.is_now(self._state.w)

    def _squared(self) -> Tensor:
        """Return the squared norms of the residual, (l+1,), with the bound on its rounding if B − KW was evaluated."""
        return self._measured.squared if self._is_fresh and self._measured is not None else self._state.squared()

    def _updated(self, event: Updated) -> bool:
        """Report an update to the hooks; return whether to end the epoch here."""
        self.update_number += 1
        lowered = self._decreases.add(event.energy_decrease, for_hooks=self.records_updates)
        if self.records_updates:
            squared = self._squared()
            update = Update(
                self.update_number, self.epoch_number + 1, event.block, self.work, lowered,
                squared / self._units.squares, self.clock.mark(), self.operator.traffic,
            )  # fmt: skip
            for hook in self.hooks:
                hook.on_update(update)
        return not event.is_whole_epoch and self._ends_inside_epoch()

    def _ends_inside_epoch(self) -> bool:
        """Test whether to end the epoch after this update: a hook requested a stop, or the recursion claims its aim."""
        self._stopped_inside = self.must_stop
        if self._stopped_inside:
            return True
        look_every = self._state.look_every
        looks = look_every > 0 and self.update_number % look_every == 0
        may_end = looks and self.epoch_number + 1 >= self._certifier.stopping.min_epochs
        return may_end and self._certifier.needs_pass(self._squared())

    def _end_epoch(self) -> StopReason | None:
        """End an epoch, with a pass if one is due; return why the solve ends, or None."""
        self._decreases.settle()
        certifier, squared, is_fresh = self._certifier, self._squared(), self._is_fresh
        self._measured = self._measured if is_fresh else None
        self._measured_at = None
        self.epoch_number += 1
        self._stop_requested = self.operator.layout.agreed(self._stop_wished)
        if self._stopped_inside:  # a last and incomplete epoch
            self._report_epoch(squared, math.nan, math.nan)
            return self._stopped()
        found: Pass | None = None
        if is_fresh:
            found = certifier.direct(self.epoch_number, squared)
        elif (made := certifier.at_end_of(self.epoch_number, squared)) is not None:
            found, fresh, squared, self._measured = made
            if self._measured is None:
                # h(W) = −½tr(Wᵀ(B + R))
                by_column = self.operator.layout.sum(column_inner(self._state.weights(), self._state.b + fresh))
                self._base_energy = self._summed(-0.5 * by_column)
                self._decreases.restart()
        self._rebase(self._measured)
        checked, drift = (found.residual, found.drift) if found is not None else (math.nan, math.nan)
        self._report_epoch(squared, checked, drift)
        if found is not None:
            for hook in self.hooks:
                hook.on_pass(found)
        reason = certifier.ending(self.epoch_number, found, self._last_energy, is_recursion=not is_fresh)
        if reason is None and self.must_stop:
            return self._stopped()
        is_last = self.epoch_number >= certifier.stopping.max_epochs
        return StopReason.MAX_EPOCHS if reason is None and is_last else reason

    # --- inside ---------------------------------------------------------------------------------------------------

    def _rebase(self, measured: Measured | None) -> None:
        """Replace the sum of decreases by the measured h(W), if there is a measurement."""
        if measured is not None:
            self._base_energy = self._summed(measured.energy)
            self._decreases.restart()

    def _summed(self, by_column: Tensor) -> float:
        """Return the sum of (l+1,) energies, each in the unit of its right-hand side."""
        return float((by_column * self._units.share).sum())

    def _stopped(self) -> StopReason:
        self._stop_message = f"stopped: {self._stop_requested}"
        return StopReason.STOPPED

    def _report_epoch(self, squared: Tensor, checked: float, drift: float) -> None:
        """Report an epoch to the hooks, with the only transfer from the device in an epoch."""
        self._residual_per_rhs = self._units.relative_per_rhs(squared)
        self._state.epoch, self._state.residual = self.epoch_number, self.residual
        self._last_energy = self._base_energy - float(self._decreases.total)
        of_residual = of_energy = math.nan
        self._certificate = None
        if (now := self._measured) is not None:
            of_residual = self._units.relative(now.rounding.square())
            of_energy = self._units.energy_in_users(self._summed(now.energy_rounding))
            error = self._units.mean_relative(now.rounding.square())
            self._certificate = Certificate(now.kind, self.residual, error, now.rows)
        self._measured = None  # the next update moves W
        self._reported_at = _Moment(self._state.w)
        norms, block_norms = None, self._state.block_norms()
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

    def _solution(self, reason: StopReason) -> Solution:
        """Return the final solution."""
        weights = self.weights
        return Solution(
            weights=weights[:, 0] if self.system.single_column else weights, stop_reason=reason,
            stop_message=self._stop_message or self._certifier.message or reason.value, residual=self.residual,
            residual_per_rhs=self.residual_per_rhs, epochs=self.epoch_number, work=self.work, seconds=self.seconds(),
            setup_work=self.setup_work, setup_seconds=self.setup_seconds, energy=self.energy,
            certificate=self._certificate,
        )  # fmt: skip

    def _more_digits(self) -> list[str]:
        """Return ways to give the recursion more digits, in words; empty if it has the most available."""
        if self._state.r.dtype == torch.float64:
            return []
        return ["precision='float64'" if hasattr(self.solver, "precision") else "a system in float64"]


class _Moment:
    """A record of the weights, to test later whether they have changed."""

    def __init__(self, w: Tensor) -> None:
        # keep the tensor itself, because the address of a freed tensor may be reused
        self._w, self._version = w, None if w.is_inference() else w._version

    def is_now(self, w: Tensor) -> bool:
        """Test whether these weights are unchanged; False if PyTorch does not count changes."""
        return w is self._w and self._version is not None and w._version == self._version
