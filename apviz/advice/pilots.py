"""Pilot systems: few rows of a system, solved in about the same number of epochs for a hundredth of the cost.

The large eigenvalues of k on m random rows are about m/n of those on all rows. With m/n of the noise, the pilot system
has about the same κ, and blocks of m/n of the size cover the same regions. It misses structure on scales shorter than
the distance between its rows. There the epochs grow with the rows; a pilot system of half the size shows how fast.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from apviz.preconditioners.base import Preconditioner
from apviz.solvers import AlternatingProjection, ConjugateGradient, Epoch, Exact, Hook, Solver, StopReason, attempt
from apviz.solvers.measuring.refinement import Pass
from apviz.solvers.run import Run
from apviz.system import KernelSystem

#: largest number of right-hand sides of a pilot system; more hardly change their mean residual
MOST_SIDES = 4


@dataclass(frozen=True)
class Rehearsal:
    """Record of the solve of a pilot system.

    Attributes:
        rows: number of rows of the pilot system.
        work: total work, in units of its n².
        setup_work, passes: work of the set-up, and number of evaluations of B − KW, both included in the work.
        epochs: epochs or iterations; the last counts as the share, in log residual, at which the tolerance was reached.
        residual: final residual.
        reason: stop reason.
        curve: residual before the first epoch and after each.
        first: curve of the first right-hand side alone.
        passes_by: number of passes at each point of the curve.
        in_fractions: whether epochs are counted in fractions.
    """

    rows: int
    work: float
    setup_work: float
    passes: int
    epochs: float
    residual: float
    reason: StopReason
    curve: tuple[float, ...] = ()
    first: tuple[float, ...] = ()
    passes_by: tuple[int, ...] = ()
    in_fractions: bool = False

    @property
    def converged(self) -> bool:
        """Whether the solve reached the tolerance."""
        return self.reason is StopReason.CONVERGED

    @property
    def projected(self) -> float:
        """Work of the epochs: the total without set-up and passes."""
        return max(0.0, self.work - self.setup_work - self.passes)

    def to(self, tol: float, *, alone: bool = False) -> Rehearsal | None:
        """Return the rehearsal to another tolerance, from the curve; None if the curve does not reach it.

        Args:
            alone: use the first right-hand side alone.
        """
        curve = self.first if alone else self.curve
        last = next((number for number, residual in enumerate(curve) if residual < tol), 0)
        if not last:
            return None
        epochs, passes = _fractional(curve, last, tol), 1 + self.passes_by[last - 1]
        # an iteration always completes; a solve may end within an epoch
        projected = self.projected / max(self.epochs, 1.0) * (last if self.in_fractions else epochs)
        work = self.setup_work + passes + projected
        return replace(
            self, work=work, passes=passes, epochs=epochs, residual=curve[last], reason=StopReason.CONVERGED
        )  # fmt: skip


class PilotSystem:
    """A pilot system: m random rows of a system with m/n of its noise, as a dense matrix.

    Args:
        rows: m, at most n.
        seed: seed of the random rows.
        probes: number of random right-hand sides instead of all but the system's first; None: the system's own.
        dtype: dtype; None: that of the system.
    """

    def __init__(
        self,
        system: KernelSystem,
        rows: int,
        seed: int = 0,
        probes: int | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        self.rows = min(rows, system.n)
        self.share = self.rows / system.n
        generator = torch.Generator().manual_seed(int(seed))
        drawn = torch.randperm(system.n, generator=generator)[: self.rows]
        drawn = drawn.sort().values.to(system.device)
        b = system.given_b[drawn, : MOST_SIDES if probes is None else 1]
        if probes:
            signs = torch.randint(0, 2, (self.rows, probes), generator=generator) * 2 - 1
            b = torch.cat([b, signs.to(b)], dim=1)
        self.system = KernelSystem(
            system.operator.given[drawn], b, system.kernel, noise=system.operator.noise_of(drawn) * self.share,
            operator="dense", dtype=dtype or system.dtype, device=system.device,
        )  # fmt: skip

    def rehearse(self, solver: Solver, most_work: float, hooks: Sequence[Hook] = ()) -> Rehearsal:
        """Solve the pilot system with a scaled `solver` without `auto`; stop after `most_work`, in units of its n²."""
        smaller: Any = on_fewer_rows(solver, self.share)
        watch = _Watch(most_work)
        solution = attempt(self.system, smaller, [watch, *hooks])
        ended = Rehearsal(
            rows=self.rows, work=solution.work, setup_work=solution.setup_work, passes=watch.passes,
            epochs=float(solution.epochs), residual=solution.residual, reason=solution.stop_reason,
            curve=tuple(watch.curve), first=tuple(watch.first), passes_by=tuple(watch.passes_by),
            in_fractions=isinstance(smaller, ConjugateGradient),
        )  # fmt: skip
        if not (ended.converged and ended.in_fractions):
            return ended
        return replace(ended, epochs=_fractional(ended.curve, len(ended.curve) - 1, smaller.tol))


def _fractional(curve: Sequence[float], last: int, tol: float) -> float:
    """Return the epochs to the tolerance; the last counts as the share, in log residual, at which it is reached."""
    before, after = curve[last - 1], curve[last]
    if not 0 < after < tol < before:
        return float(last)
    return last - 1 + math.log(before / tol) / math.log(before / after)


class _Watch(Hook):
    """A hook that keeps residuals and passes after every epoch, and stops a solve after `most_work`."""

    def __init__(self, most_work: float) -> None:
        self._most = most_work
        self.curve: list[float] = []
        self.first: list[float] = []
        self.passes_by: list[int] = []
        self.passes = 0

    def on_start(self, run: Run) -> None:
        self._run = run

    def on_epoch(self, epoch: Epoch) -> None:
        self.curve.append(epoch.residual)
        self.first.append(float(epoch.residual_per_rhs[0]))
        self.passes_by.append(self.passes)
        if epoch.work > self._most:
            self._run.request_stop("other methods need less work")

    def on_pass(self, found: Pass) -> None:
        self.passes += 1


def on_fewer_rows(solver: Solver, share: float) -> Solver:
    """Return the solver for a share of the rows: block sizes are scaled, ranks are not."""
    if isinstance(solver, AlternatingProjection):
        # a pilot system has too few rows for skeletons, and should show the projections alone
        size = _share_of(solver.block_size, share)
        return replace(solver, block_size=size, columns=Exact(), fallback_rank=0)
    if isinstance(solver, ConjugateGradient) and solver.preconditioner is not None:
        return replace(solver, preconditioner=_of_fewer(solver.preconditioner, share))
    return solver


def _of_fewer(preconditioner: Preconditioner, share: float) -> Preconditioner:
    if not hasattr(preconditioner, "block_size"):
        return preconditioner
    size = _share_of(preconditioner.block_size, share)
    return replace(preconditioner, block_size=size)  # type: ignore[type-var]


def _share_of(size: int | str, share: float) -> int:
    assert isinstance(size, int)  # `auto` is resolved
    return max(2, round(size * share))


def growth_to(n: int, half: Rehearsal, whole: Rehearsal) -> float:
    """Return the growth of epochs from the larger pilot system to n rows, at least 1, extrapolated from both pilots."""
    if not (half.converged and whole.converged):
        return 1.0
    return float(max(1.0, whole.epochs / half.epochs) ** math.log2(max(1.0, n / whole.rows)))
