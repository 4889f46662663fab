"""The interface of all solvers: settings apart from prepared set-ups, hooks that observe, and stop reasons."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias

import torch
from torch import Tensor

from apviz.memory import explained
from apviz.method import Method, settings_of, variant_of
from apviz.operators import CountingOperator, Operator
from apviz.registry import Registry
from apviz.solvers.state import Events, State
from apviz.solvers.stopping import LIMITS, ending_as

if TYPE_CHECKING:
    from apviz.factors import BlockFactors
    from apviz.partitions import Partition
    from apviz.preconditioners.base import Apply
    from apviz.solvers.measuring.refinement import Pass
    from apviz.solvers.measuring.residuals import Certificate
    from apviz.solvers.run import Run


#: a solver without `auto` settings, and the reasons for the values by setting
Resolved: TypeAlias = "tuple[Solver, Mapping[str, str]]"
#: advice if memory is short
LESS_MEMORY: Final = "take fewer right-hand sides at once, smaller blocks or ranks, float32 or operator='tiled'"


class StopReason(Enum):
    """Reasons for the end of a solve; each value says in words how the solve ended, and what to do.

    Examples:
        >>> import apviz
        >>> print(*apviz.StopReason)
        converged max_epochs stagnated diverged stopped
        >>> apviz.StopReason.STAGNATED.advice
        'rounding or jitter keeps the residual above the tolerance; use more noise or a larger tolerance'
    """

    CONVERGED = "converged: the residual, recomputed from B − KW, is below the tolerance"
    MAX_EPOCHS = "hit the epoch limit: raise it, or change the solver; this solution is not converged"
    STAGNATED = (
        "stagnated: rounding or jitter keeps the residual above the tolerance; use more noise or a larger tolerance"
    )
    DIVERGED = (
        "diverged: the residual exploded, as it does if rounding of K outweighs the noise; use more noise or float64"
    )
    STOPPED = "stopped: a hook requested it; this solution is not converged"

    def __str__(self) -> str:
        return self.name.lower()

    @property
    def advice(self) -> str:
        """Advice on what to do, without how the solve ended."""
        return self.value.partition(": ")[2]


class NotConverged(UserWarning):
    """Warning that a solve ended before its residual was below the tolerance; `solution` is the final solution.

    `apviz.solve` warns with it, or raises it on request.

    Examples:
        >>> import torch, apviz
        >>> x = torch.linspace(0, 1, 200, dtype=torch.float64)
        >>> system = apviz.KernelSystem(x, torch.sin(6 * x), apviz.Matern52(lengthscale=0.2), noise=0.01, device="cpu")
        >>> try:
        ...     apviz.solve(system, apviz.ConjugateGradient(tol=1e-6, max_epochs=2), throw=True)
        ... except apviz.NotConverged as error:
        ...     print(error.solution.stop_reason, error.solution.epochs)
        max_epochs 2
    """

    def __init__(self, message: str, solution: Solution) -> None:
        super().__init__(message)
        self.solution = solution

    def __reduce__(self) -> tuple[type[NotConverged], tuple[str, Solution]]:
        return type(self), (str(self), self.solution)


@dataclass(frozen=True)
class Solution:
    """The final weights of a solve, and how the solve ended.

    Args:
        weights: W in float64, of the shape of B as given; rounded to float32 it may miss the tolerance.
        stop_reason: why the solve ended; `converged` is true for one reason only.
        residual: mean over right-hand sides of ‖r_i‖/‖b_i‖, of B − KW in float64, from the inputs as given; its error
            (rounding, approximate products) is added if it may matter. Zeros count as 0.
        certificate: how `residual` is known, and its error. None if a hook stopped the solve; then `residual` and
            `energy` are the recursion's, which may have drifted.
        residual_per_rhs: (l+1,) float64.
        epochs: epochs, or iterations of a Krylov method.
        work: kernel entries evaluated or read ÷ n², including set-up, initial residual and checks.
        seconds: wall-clock time, including set-up.
        setup_work, setup_seconds: the part of both before the first update. A set-up for several solves is counted in
            the first.
        energy: h(W) = ½tr(WᵀKW) − tr(BᵀW).

    Examples:
        >>> import torch, apviz
        >>> x = torch.linspace(0, 1, 200, dtype=torch.float64)
        >>> system = apviz.KernelSystem(x, torch.sin(6 * x), apviz.Matern52(lengthscale=0.2), noise=0.01, device="cpu")
        >>> solution = apviz.solve(system, apviz.ConjugateGradient(tol=1e-6))
        >>> r = system.b - system.operator.matmul(solution.weights[:, None])
        >>> solution.converged, bool(r.norm() < 1e-6 * system.b.norm())
        (True, True)
    """

    weights: Tensor
    stop_reason: StopReason
    stop_message: str
    residual: float
    residual_per_rhs: Tensor
    epochs: int
    work: float
    seconds: float
    setup_work: float
    setup_seconds: float
    energy: float
    certificate: Certificate | None = None

    @property
    def residual_is_measured(self) -> bool:
        """Whether `residual` and `energy` are of B − KW for these weights; else they are the recursion's."""
        return self.certificate is not None

    @property
    def converged(self) -> bool:
        """Whether the residual, recomputed from B − KW, is below the tolerance."""
        return self.stop_reason is StopReason.CONVERGED


@dataclass(frozen=True)
class Update:
    """A projection, or an iteration of a Krylov method; its tensors stay on the device, and reading one stalls a GPU.

    Args:
        number: number of the update, from 1.
        chosen: the block projected onto, or the colour of several; −1 for all rows at once; a 0-d tensor if only the
            device knows the block.
        lowered: 0-d float64 tensor, the decrease of h; or a function that computes it.
        squared_residual: (l+1,) float64 tensor of ‖r_i‖²/‖b_i‖²; NaN after a colour, where few rows of R are known.
        mark: a reading of the run's clock.
        traffic: if ranks share the solve, the messages of this rank so far, and their bytes.
    """

    number: int
    epoch: int
    chosen: int | Tensor
    work: float
    lowered: Tensor | Callable[[], Tensor]
    squared_residual: Tensor
    mark: tuple[Any, float]
    traffic: tuple[int, int] | None = None

    @cached_property
    def block(self) -> int:
        """The block projected onto, −1 for all rows at once; reading it waits for a GPU that has chosen the block."""
        return int(self.chosen)

    @property
    def energy_decrease(self) -> Tensor:
        """The decrease of h, a 0-d float64 tensor; after the epoch it costs nothing on any device."""
        return self.lowered if isinstance(self.lowered, Tensor) else self.lowered()


@dataclass(frozen=True)
class Epoch:
    """The state after an epoch, on the host; number 0 is the state before the first update.

    Args:
        residual_per_rhs: (l+1,) float64, of B − KW if `residual_rounding` is not NaN; else the recursion's.
        residual: mean of `residual_per_rhs`.
        checked_residual: mean relative residual, recomputed; NaN if not recomputed in this epoch.
        drift: ‖R − (B − KW)‖_F/‖B‖_F before the recomputation; NaN if not recomputed.
        energy: h(W), of B − KW in float64 if `energy_rounding` is not NaN; else the last such value minus the
            recursion's decreases since.
        residual_rounding: bound on the float64 rounding of ‖B − KW‖_F, ÷ ‖B‖_F; NaN if B − KW was not evaluated in
            float64 for the weights after this epoch.
        energy_rounding: the same bound for the energy, in the unit of the energy.
        block_norms: (m,) ‖R_I‖_F, or None for a method without blocks.
        measured: the result of the hooks' `measure`.
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
    residual_rounding: float = math.nan
    energy_rounding: float = math.nan


class Hook:
    """Observer of a solve: it may call `run.request_stop(why)`, and never changes the numbers.

    Examples:
        >>> import torch, apviz
        >>> x = torch.linspace(0, 1, 200, dtype=torch.float64)
        >>> system = apviz.KernelSystem(x, torch.sin(6 * x), apviz.Matern52(lengthscale=0.2), noise=0.01, device="cpu")
        >>> class CountUpdates(apviz.Hook):
        ...     count = 0
        ...     def on_update(self, update):
        ...         self.count += 1
        >>> counting = CountUpdates()
        >>> solution = apviz.solve(system, apviz.AlternatingProjection(block_size=50), hooks=[counting])
        >>> counting.count == 4 * solution.epochs  # as many updates an epoch as there are blocks
        True
    """

    def on_start(self, run: Run) -> None:
        """Handle the start, after the set-up and before the first update."""

    def on_update(self, update: Update) -> None:
        """Handle an update; called after every update."""

    def measure(self, run: Run) -> Mapping[str, float]:
        """Return numbers to attach to an epoch, before any hook handles the epoch; the solve's time excludes it."""
        return {}

    def on_epoch(self, epoch: Epoch) -> None:
        """Handle an epoch; called after every epoch, and before the first one as epoch 0."""

    def on_pass(self, found: Pass) -> None:
        """Handle a pass; called after an epoch that ended with an evaluation of B − KW."""

    def on_stop(self, solution: Solution) -> None:
        """Handle the end of a solve that ended by itself."""

    def on_abandon(self, error: BaseException) -> None:
        """Handle the end of a solve by an exception or Ctrl-C, which is raised afterwards."""


@dataclass(frozen=True)
class Solver(ABC):
    """Frozen settings of a solver. `Prepared` holds what it builds from K, and `State` what a solve changes.

    Your own solver defines `epochs`, and `build` and `init` if it needs them (`docs/guide/own_solver.md`).
    """

    name: ClassVar[str]

    @property
    def method(self) -> Method:
        """The method as data, with its name and details in words."""
        own = {name: value for name, value in settings_of(self).items() if name not in (*LIMITS, "seed")}
        return Method(family=SOLVERS.name_of(self), variant=variant_of(own))

    def resolve(self, operator: Operator, columns: int = 1) -> Resolved:
        """Choose a value for every `auto` setting, for a number of right-hand sides; return the solver and reasons."""
        return self, {}

    def resolve_for(self, operator: CountingOperator, columns: int, like: Tensor | None) -> Resolved:
        """Resolve for right-hand sides similar to `like`, (n, columns), also by trials, whose entries count as work."""
        return self.resolve(operator.uncounted, columns)

    def prepare(self, operator: Operator, columns: int = 1, *, like: Tensor | None = None) -> Prepared:
        """Build the parts that do not depend on B (partition, factors, preconditioner), for any number of solves.

        Args:
            operator: K.
            columns: expected number of right-hand sides, which `auto` settings depend on.
            like: (n, columns) similar right-hand sides; their smoothness decides which entries skeletons may omit.

        Raises:
            MemoryError: the set-up would not fit the free memory.
            NotPositiveDefinite: a block, or K, has no Cholesky factor even with jitter.
        """
        if not isinstance(operator, Operator):
            hint = "; of a KernelSystem, its `operator`" if hasattr(operator, "operator") else ""
            raise TypeError(f"prepare takes an operator{hint}, got {type(operator).__name__}")
        started = time.perf_counter()
        # training solves of the paper take at least ten epochs
        with explained(f"the set-up of {self.method.name}", LESS_MEMORY):
            operator.fix_engine(10.0 * operator.n**2, columns)
            counting = CountingOperator(operator)
            solver, choices = self.resolve_for(counting, columns, like)  # from here on no setting is `auto`
            prepared = solver.build(counting, columns)
            if operator.x.is_cuda:
                torch.cuda.synchronize()
            cost = Cost(counting.entries, time.perf_counter() - started)
            return replace(prepared, asked=self, choices={**choices, **prepared.choices}, cost=cost)

    def build(self, operator: CountingOperator, columns: int) -> Prepared:
        """Build the set-up of settings without `auto`; `prepare` adds `asked`, `choices` and `cost`."""
        return Prepared(solver=self, given=operator.uncounted, operator=operator.uncounted)

    def init(self, prepared: Any, state: State) -> State:
        """Make the state of a solve, which owns it, from that at the initial weights, with what this solver adds."""
        return state

    @abstractmethod
    def epochs(self, prepared: Any, state: Any) -> Events:
        """Update the state, and report each update and each end of an epoch to the driver.

        The driver counts, clocks, evaluates B − KW, calls the hooks, and closes the generator when the solve is over.
        A generator that returns states that nothing more can be gained: the solve has converged or stagnated.
        """


SOLVERS: Final = Registry[Solver]("solver", "apviz.solvers")


@dataclass
class Cost:
    """Cost of a set-up, in kernel entries and seconds; it is charged to the first solve that uses the set-up."""

    entries: int
    seconds: float

    def taken(self) -> Cost:
        """Return the cost and reset it to zero."""
        cost = Cost(self.entries, self.seconds)
        self.entries, self.seconds = 0, 0.0
        return cost


@dataclass(frozen=True, eq=False, kw_only=True)
class Prepared:
    """A set-up that a solver built from an operator, for solves with any B.

    Args:
        solver: the solver, without `auto` settings.
        asked: the solver that prepared it, with its `auto` settings.
        given: the operator of the set-up.
        operator: the same operator with its rows in the order of the solve.
        cost: cost of the set-up.
        choices: values of the `auto` settings with their reasons, by setting.
        partition, factors: those of alternating projection, else None.
        preconditioner: r ↦ P⁻¹r of conjugate gradients for r: (n, p) in the user's order, else None.

    Examples:
        >>> import torch, apviz
        >>> x = torch.linspace(0, 1, 200, dtype=torch.float64)
        >>> system = apviz.KernelSystem(x, torch.sin(6 * x), apviz.Matern52(lengthscale=0.2), noise=0.01, device="cpu")
        >>> solver = apviz.AlternatingProjection(block_size=50)
        >>> prepared = solver.prepare(system.operator)
        >>> first, second = (apviz.solve(system, solver, prepared=prepared) for _ in range(2))
        >>> first.setup_work > 0, second.setup_work  # the factors of the blocks are made once
        (True, 0.0)
    """

    solver: Solver
    asked: Solver | None = None
    given: Operator
    operator: Operator
    cost: Cost = field(default_factory=lambda: Cost(0, 0.0))
    choices: Mapping[str, str] = field(default_factory=dict)
    partition: Partition | None = None
    factors: BlockFactors | None = None
    preconditioner: Apply | None = None

    @property
    def colour_sizes(self) -> list[tuple[int, int]]:
        """The numbers of blocks and of rows of each colour of coloured projections; empty for other methods."""
        return []

    def ending_as(self, solver: Solver) -> Prepared:
        """Return the same set-up with the tolerance and limits of `solver`; ValueError if other settings differ."""
        assert self.asked is not None  # `Solver.prepare` sets `asked`
        if solver == self.asked:
            return self
        if type(solver) is not type(self.asked) or ending_as(solver, self.asked) != solver:
            raise ValueError(f"prepared was built by {self.asked!r}, and {solver!r} needs a set-up of its own")
        return replace(self, solver=ending_as(solver, self.solver))

    def in_order(self, a: Tensor) -> Tensor:
        """Copy a: (n, p), the local rows, from the user's order to the order of the solve."""
        layout = self.operator.layout
        if self.partition is not None:
            return a[layout.local(self.partition.order[:, None])[:, 0]]
        here = layout.local(a)
        return here.clone() if here is a else here

    def in_users_order(self, a: Tensor) -> Tensor:
        """Return all rows of a: (n, p) in the user's order, from the local rows in the order of the solve."""
        a = self.operator.layout.whole(a)
        if self.partition is None or self.partition.is_identity:
            return a
        restored = a.new_empty(a.shape)
        restored[self.partition.order] = a
        return restored
