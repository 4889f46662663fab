"""The interface of all solvers: settings apart from what they prepare, hooks that look on, and how a solve can end."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final

import torch
from torch import Tensor

from apviz.memory import explained
from apviz.method import Method, settings_of, variant_of
from apviz.operators import CountingOperator, Operator
from apviz.registry import Registry
from apviz.solvers.state import Events, State
from apviz.solvers.stopping import LIMITS

if TYPE_CHECKING:
    from apviz.factors import BlockFactors
    from apviz.partitions import Partition
    from apviz.preconditioners.base import Apply
    from apviz.solvers.refinement import Pass
    from apviz.solvers.run import Run


#: what to do where memory is short
LESS_MEMORY: Final = "take fewer right-hand sides at once, smaller blocks or ranks, float32 or operator='tiled'"


class StopReason(Enum):
    """Reasons for which a solve ends; the value of each is what a person can do about it.

    Examples:
        >>> import apviz
        >>> print(*apviz.StopReason)
        converged max_epochs stagnated diverged stopped
        >>> apviz.StopReason.STAGNATED.advice
        'rounding, or jitter, keeps the residual above the tolerance; use more noise or a larger tol'
    """

    CONVERGED = "converged: the residual, recomputed from B − KW, is below the tolerance"
    MAX_EPOCHS = "max_epochs: the cap was reached first; raise it, or change the solver: this solution is not converged"
    STAGNATED = "stagnated: rounding, or jitter, keeps the residual above the tolerance; use more noise or a larger tol"
    DIVERGED = "diverged: the residual has exploded, as where rounding K outweighs the noise; use more noise or float64"
    STOPPED = "stopped: a hook asked for it; this solution is not converged"

    def __str__(self) -> str:
        return self.name.lower()

    @property
    def advice(self) -> str:
        """The sentence on what to do, without the name of the reason."""
        return self.value.partition(": ")[2]


class NotConverged(UserWarning):
    """Warns that a solve ended before its residual was below the tolerance; `solution` is what it ended with.

    `apviz.solve` warns with it, and raises it where asked to.

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
    """The weights that a solve ended with, and how it ended.

    Args:
        weights: W in float64, of the shape B was given in; rounded to float32 it may not keep to the tolerance.
        stop_reason: why the solve ended; `converged` is true for one reason only.
        residual: mean over right-hand sides of ‖r_i‖/‖b_i‖, of B − KW in float64, from the inputs as they were given;
            where its rounding may matter, with a bound on that. Zeros count as 0.
        residual_is_measured: whether `residual` and `energy` are of B − KW for these weights, as they are unless a hook
            stopped the solve; if not, they are the recursion's, which may have drifted.
        residual_per_rhs: (l+1,) float64.
        epochs: epochs, or iterations of a Krylov method.
        work: kernel entries evaluated or read ÷ n², set-up, initial residual and checks included.
        seconds: wall-clock time, set-up included.
        setup_work, setup_seconds: the part of both that came before the first update. What was prepared for several
            solves is counted in the first.
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
    residual_is_measured: bool = True

    @property
    def converged(self) -> bool:
        """Whether the residual, recomputed from B − KW, is below the tolerance."""
        return self.stop_reason is StopReason.CONVERGED


@dataclass(frozen=True)
class Update:
    """A projection, or an iteration of a Krylov method; its tensors stay on the device: reading one stalls a GPU.

    Args:
        number: from 1.
        chosen: the block projected onto, −1 for all rows at once; a 0-d tensor where only the device knows it.
        lowered: 0-d float64 tensor, the decrease of h; or what computes it.
        squared_residual: (l+1,) float64 tensor of ‖r_i‖²/‖b_i‖².
        mark: a reading of the run's clock.
        traffic: where ranks share the solve, the messages so far that this one took part in, and their bytes.
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
    """The state after an epoch, all of it on the host; number 0 is the state before the first update.

    Args:
        residual_per_rhs: (l+1,) float64, of B − KW where `residual_rounding` is not NaN; else the recursion's.
        residual: their mean.
        checked_residual: its mean, recomputed; NaN if not recomputed in this epoch.
        drift: ‖R − (B − KW)‖_F/‖B‖_F before the recomputation; NaN if not recomputed.
        energy: h(W): of B − KW in float64 where `energy_rounding` is not NaN; else the last such minus the recursion's
            decreases since.
        residual_rounding: what float64 may have rounded ‖B − KW‖_F by, ÷ ‖B‖_F; NaN if B − KW was not evaluated in
            float64 for the weights after this epoch.
        energy_rounding: the same of the energy, in its unit.
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
    residual_rounding: float = math.nan
    energy_rounding: float = math.nan


class Hook:
    """Observes a solve: it may call `run.request_stop(why)`, and never changes the numbers.

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
        """Called before the first update, when the set-up is done."""

    def on_update(self, update: Update) -> None:
        """Called after every update."""

    def measure(self, run: Run) -> Mapping[str, float]:
        """Returns numbers to attach to an epoch, before any hook is told about it; its time is not the solve's."""
        return {}

    def on_epoch(self, epoch: Epoch) -> None:
        """Called after every epoch, and once before the first as epoch 0."""

    def on_pass(self, found: Pass) -> None:
        """Called after the epoch at whose end B − KW was evaluated anew."""

    def on_stop(self, solution: Solution) -> None:
        """Called when the solve has ended by itself."""

    def on_abandon(self, error: BaseException) -> None:
        """Called when the solve has ended by an exception or Ctrl-C, which is raised after this."""


@dataclass(frozen=True)
class Solver(ABC):
    """Settings of a solver, frozen; what it builds from K is its `Prepared`, and what a solve changes is its `State`.

    A solver of your own has `epochs`, and `build` and `init` where it needs them (`docs/guide/own_solver.md`).
    """

    name: ClassVar[str]

    @property
    def method(self) -> Method:
        """The method as data, with its name and details in words."""
        own = {name: value for name, value in settings_of(self).items() if name not in (*LIMITS, "seed")}
        return Method(family=SOLVERS.name_of(self), variant=variant_of(own))

    def resolve(self, operator: Operator, columns: int = 1) -> tuple[Solver, Mapping[str, str]]:
        """Chooses a value for every setting that says `auto`; returns the solver with them, and why each was chosen.

        Args:
            columns: right-hand sides that are to be expected.
        """
        return self, {}

    def prepare(self, operator: Operator, columns: int = 1, *, like: Tensor | None = None) -> Prepared:
        """Builds what does not depend on B: partition, factors, preconditioner; good for any number of solves.

        Args:
            operator: K.
            columns: right-hand sides that are to be expected, by which `auto` chooses.
            like: (n, columns), some like them: how smooth they are decides what skeletons may leave out.

        Raises:
            MemoryError: it would not fit the free memory.
            NotPositiveDefinite: a block, or K, has no Cholesky factor even with jitter.
        """
        if not isinstance(operator, Operator):
            hint = "; of a KernelSystem, its `operator`" if hasattr(operator, "operator") else ""
            raise TypeError(f"prepare takes an operator{hint}, got {type(operator).__name__}")
        started = time.perf_counter()
        # ten epochs is what the paper's training solves take at least
        with explained(f"the set-up of {self.method.name}", LESS_MEMORY):
            operator.fix_engine(10.0 * operator.n**2, columns)
            counting = CountingOperator(operator)
            prepared = self.build_for(counting, columns, like)
            if operator.x.is_cuda:
                torch.cuda.synchronize()
            return replace(prepared, asked=self, cost=Cost(counting.entries, time.perf_counter() - started))

    def build(self, operator: CountingOperator, columns: int) -> Prepared:
        """Builds what `prepare` returns, but for who asked and what it cost; nothing, where a solver needs nothing."""
        return Prepared(solver=self, given=operator.uncounted, operator=operator.uncounted)

    def build_for(self, operator: CountingOperator, columns: int, like: Tensor | None) -> Prepared:
        """Builds it for right-hand sides like these, (n, columns); for a solver that chooses by them."""
        return self.build(operator, columns)

    def init(self, prepared: Any, state: State) -> State:
        """Makes the state of a solve of the one that it starts from, with what else this solver needs.

        Args:
            prepared: what `build` returned, with the limits of this solve.
            state: at the weights to start from, which it owns.
        """
        return state

    @abstractmethod
    def epochs(self, prepared: Any, state: Any) -> Events:
        """Updates the state, and reports each update and each end of an epoch to the driver.

        The driver counts, clocks, evaluates B − KW, tells the hooks, and closes the generator when the solve is over.
        A generator that returns says that nothing more can be gained: the solve has converged or stagnated.
        """


SOLVERS: Final = Registry[Solver]("solver", "apviz.solvers")


@dataclass
class Cost:
    """Cost of a set-up, in kernel entries and seconds; the first solve that uses it takes it over."""

    entries: int
    seconds: float

    def taken(self) -> Cost:
        """Returns the cost, which is nothing from then on."""
        cost = Cost(self.entries, self.seconds)
        self.entries, self.seconds = 0, 0.0
        return cost


@dataclass(frozen=True, eq=False, kw_only=True)
class Prepared:
    """A set-up: what a solver built from an operator, for solves with any B.

    Args:
        solver: what solves; none of its settings says `auto` any more.
        asked: the solver that prepared it.
        given: the operator it was prepared for.
        operator: the same with its rows in the order in which they are solved.
        cost: of the set-up.
        choices: what `auto` chose, by setting, with the reason.
        partition, factors: of alternating projection, else None.
        preconditioner: r ↦ P⁻¹r for r: (n, p) in the user's order, of conjugate gradients, else None.

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

    def ending_as(self, solver: Solver) -> Prepared:
        """Returns the same set-up with the tolerance and the caps of `solver`.

        Raises:
            ValueError: `solver` differs in more than that from what prepared this.
        """
        assert self.asked is not None  # `Solver.prepare` says who asked
        if solver == self.asked:
            return self
        limits = {name: getattr(solver, name) for name in LIMITS if hasattr(solver, name)}
        known = {field.name for field in fields(self.asked)}
        if (
            type(solver) is not type(self.asked)
            or replace(self.asked, **{name: value for name, value in limits.items() if name in known}) != solver
        ):
            raise ValueError(f"prepared was built by {self.asked!r}, and {solver!r} needs a set-up of its own")
        known = {field.name for field in fields(self.solver)}
        return replace(
            self, solver=replace(self.solver, **{name: value for name, value in limits.items() if name in known})
        )

    def in_order(self, a: Tensor) -> Tensor:
        """Copies a: (n, p), the rows held here, from the user's order to that of the solve."""
        layout = self.operator.layout
        if self.partition is not None:
            return a[layout.local(self.partition.order[:, None])[:, 0]]
        here = layout.local(a)
        return here.clone() if here is a else here

    def in_users_order(self, a: Tensor) -> Tensor:
        """Returns all rows of a, of which those in the solve are given, from its order to the user's: (n, p)."""
        a = self.operator.layout.whole(a)
        if self.partition is None or self.partition.is_identity:
            return a
        restored = a.new_empty(a.shape)
        restored[self.partition.order] = a
        return restored
