"""The advice: every method that fits a system, rehearsed on twins of it, with seconds, work, memory and chance."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from apviz.advice.alternatives import Alternative, what_would_change
from apviz.advice.course import Course, Courses
from apviz.advice.forecast import PARTS, Forecast, in_words, memory_of_a_factor
from apviz.advice.prices import Prices
from apviz.advice.rehearsing import Candidate, Rehearsing
from apviz.memory import free_memory
from apviz.preconditioners import RandomlyPivotedCholesky, TwoLevelSchwarz
from apviz.settings import require, require_kind, require_seed, require_tolerance, require_whole
from apviz.solvers import (
    Automatic,
    Cholesky,
    ConjugateGradient,
    Hook,
    NotPositiveDefinite,
    Solver,
    checked_hooks,
    overlapping,
)
from apviz.solvers.choices import coarse_rank
from apviz.system import KernelSystem

#: rows of a twin: a share of all, within these
TWIN_SHARE, LEAST_ROWS, MOST_ROWS = 6, 800, 2_500
#: rows below which a factorisation of all is over before any rehearsal
FEW_ROWS: Final = 2_000
#: of the free memory, what a method may take
MEMORY_SHARE = 0.9


@dataclass(frozen=True)
class Advice:
    """What to take, and what each method would cost.

    Attributes:
        system: in words.
        tol: the mean relative residual to be reached.
        methods: by name, the best first; what is not expected to converge is at the end.
        unfit: by name, why a method was left out.
        alternatives: what would change the advice, or what it costs by much: another tolerance, other right-hand sides,
            another dtype. What a GPU would take is known only where one is asked: by a system with device="cuda".
        seconds: that the advice took.

    Examples:
        >>> import torch, apviz
        >>> x = torch.linspace(0, 1, 300, dtype=torch.float64)
        >>> system = apviz.KernelSystem(x, torch.sin(6 * x), apviz.Matern52(lengthscale=0.2), noise=0.01, device="cpu")
        >>> advice = apviz.advise(system)
        >>> isinstance(advice, apviz.Advice), apviz.solve(system, advice.best.solver).converged
        (True, True)
    """

    system: str
    tol: float
    methods: Mapping[str, Forecast]
    unfit: Mapping[str, str]
    alternatives: tuple[Alternative, ...]
    seconds: float

    @property
    def best(self) -> Forecast:
        """The method to take."""
        return next(iter(self.methods.values()))

    @property
    def headline(self) -> str:
        """Which method to take, and what the next one would cost."""
        (name, best), *others = self.methods.items()
        if best.chance < 0.5:
            return f"No method is expected to reach {self.tol:g} within its limit."
        said = f"Take {name}: about {in_words(best.seconds.likely)}."
        if others:
            second, its = others[0]
            said += f" {second} needs {'about' if its.is_bounded else 'more than'} {in_words(its.seconds.likely)}."
        return said

    @property
    def reason(self) -> str:
        """Why, and what to do where no method is expected to converge."""
        name, best = next(iter(self.methods.items()))
        if best.chance < 0.5:
            action = "Allow more epochs, a larger tolerance, more noise, or float64."
            return f"{name} comes closest: {best.reason}. {action}"
        return f"{name} needs about {best.work.likely:.2g} work: {best.reason}."

    @property
    def sentence(self) -> str:
        """All of it on one line."""
        return f"{self.headline} {self.reason}"

    def course(self) -> Course:
        """A hook that tells how long a solve by the best method still takes, and when it does not go as was said."""
        (_, best), *others = self.methods.items()
        return Course(best, dict(others))

    def courses(self) -> Courses:
        """A hook for solves by any of the methods, one after another."""
        return Courses(self.methods)

    def rows(self) -> list[dict[str, Any]]:
        """A table: a row a method, with text for people."""
        return [
            {
                "method": name,
                "seconds": f"{each.seconds}" if each.is_bounded else f"> {each.seconds.likely:.2g}",
                "work": f"{each.work}" if each.is_bounded else f"> {each.work.likely:.2g}",
                "memory": f"{each.memory / 1e6:,.0f} MB",
                "chance": f"{each.chance:.0%}",
                "why": each.reason,
            }
            for name, each in self.methods.items()
        ]

    def __str__(self) -> str:
        lines = [f"{self.system}, to {self.tol:g}", self.sentence]
        lines += [f"  {row['method']}: {row['seconds']} s, {row['work']} work, {row['memory']}" for row in self.rows()]
        lines += [each.sentence for each in self.alternatives]
        lines += [f"  {name} was left out: {why}" for name, why in self.unfit.items()]
        return "\n".join(lines)


def advise(
    system: KernelSystem,
    solvers: Mapping[str, Solver] | None = None,
    *,
    tol: float = 1e-2,
    max_epochs: int = 1000,
    seed: int = 0,
    hooks: Sequence[Hook] = (),
    clock: Callable[[], float] = time.perf_counter,
) -> Advice:
    """Forecast seconds, work and memory of every method that fits, and says which to take. All are estimates.

    Each method solves a system of some hundred to 1,250 of the rows, and those that may be the best one of twice as
    many (`apviz.advice.twins`); what entries, factors and passes cost here is measured for a moment
    (`apviz.advice.prices`). That took 0.2 to 3.4 s, 0.7 in the median, about as long as the best solve at 6,000 and
    14,000 rows, and a tenth of it at 50,000 (`benchmarks/results/advisor.json`, `benchmarks/README.md`).

    Args:
        system: K W = B.
        solvers: by name, in place of apviz's own choice of methods; alternating projections, CG, Cholesky.
        tol: mean relative residual to be reached, by all of apviz's choice.
        max_epochs: their cap.
        seed: of the rows of the twins.
        hooks: of the solves on few rows; one that raises ends the advice.
        clock: whose seconds are forecast; `time.process_time` where other processes share the machine.

    Raises:
        ValueError: a tolerance or a cap out of range; a solver that cannot be forecast.
        MemoryError: nothing fits the free memory.

    Examples:
        >>> import torch, apviz
        >>> x = torch.linspace(0, 1, 300, dtype=torch.float64)
        >>> system = apviz.KernelSystem(x, torch.sin(6 * x), apviz.Matern52(lengthscale=0.2), noise=0.01, device="cpu")
        >>> next(iter(apviz.advise(system).methods))
        'Cholesky'
    """
    require_kind("system", system, KernelSystem, "an apviz.KernelSystem")
    if solvers is not None:
        require_kind("solvers", solvers, Mapping, "solvers by their names, or None")
        require(len(solvers) > 0, "solvers", solvers, "at least one, or None")
        for name, solver in solvers.items():
            require_kind(f"solvers[{name!r}]", solver, Solver, "a solver, such as apviz.Automatic()")
    require_tolerance(tol)
    require_whole("max_epochs", max_epochs, 1)
    require_seed(seed)
    hooks = checked_hooks(hooks)
    began = clock()
    operator, columns, n = system.operator, system.b.shape[1], system.n
    chosen = _methods(n, tol, max_epochs, seed) if solvers is None else dict(solvers)
    operator.fix_engine(10.0 * n**2, columns)
    prices, free = Prices(operator, columns, clock), MEMORY_SHARE * free_memory(operator.x.device)
    rows = min(n, max(LEAST_ROWS, min(MOST_ROWS, n // TWIN_SHARE)))
    rehearsing = Rehearsing(system, prices, rows, seed, hooks)
    candidates, unfit = dict[str, Candidate](), dict[str, str]()
    for name, asked in chosen.items():
        solver = asked.resolve(operator, columns)[0]
        if type(solver) not in (*PARTS, Cholesky):
            raise ValueError(
                f"{name}: {type(solver).__name__} cannot be forecast; alternating projection, conjugate gradients and "
                "Cholesky can"
            )
        if solvers is None and n <= FEW_ROWS and candidates:
            unfit[name] = f"up to {FEW_ROWS:,} rows a factorisation is over before it has been rehearsed"
            continue
        needed = memory_of_a_factor(operator) if isinstance(solver, Cholesky) else 0.0
        try:
            if needed <= free:
                candidates[name] = rehearsing.begin(solver, asked)
                needed = candidates[name].forecast.memory
        except NotPositiveDefinite as error:
            unfit[name] = str(error)
            continue
        if needed > free:
            candidates.pop(name, None)
            unfit[name] = f"it would take {needed / 2**30:.1f} GiB, {free / 2**30:.1f} GiB are free"
    if not candidates:
        raise MemoryError("no method fits. " + "; ".join(f"{name}: {why}" for name, why in unfit.items()))
    rehearsing.decide(candidates.values())
    ordered = dict(sorted(candidates.items(), key=lambda item: _rank(item[1].forecast)))
    alternatives = what_would_change(rehearsing, ordered, tol)
    methods = {name: each.forecast for name, each in ordered.items()}
    return Advice(_in_words(system), tol, methods, unfit, alternatives, clock() - began)


def can_forecast(solver: Solver) -> bool:
    """Tests whether `advise` takes a solver."""
    return isinstance(solver, (*PARTS, Cholesky, Automatic))


def _methods(n: int, tol: float, max_epochs: int, seed: int) -> dict[str, Solver]:
    """Return apviz' methods and what others take, by name: the quickest first in most cases, to rehearse less."""
    limits: dict[str, Any] = {"tol": tol, "max_epochs": max_epochs}
    rank = coarse_rank(n)
    solvers = [
        Cholesky(tol=tol),
        overlapping(**limits, seed=seed),
        ConjugateGradient(preconditioner=RandomlyPivotedCholesky(rank=rank, seed=seed), **limits),
        ConjugateGradient(preconditioner=TwoLevelSchwarz(seed=seed), **limits),
        ConjugateGradient(**limits),
    ]
    return {solver.method.name: solver for solver in solvers}


def _rank(each: Forecast) -> tuple[bool, float]:
    """What is not expected to converge comes last; of what was not rehearsed to its end a lower bound counts."""
    return each.chance < 0.5, each.seconds.likely


def _in_words(system: KernelSystem) -> str:
    name = f"{system.dataset}: " if system.dataset else ""
    sides = "1 right-hand side" if system.b.shape[1] == 1 else f"{system.b.shape[1]} right-hand sides"
    precision = str(system.dtype).removeprefix("torch.")
    return f"{name}n = {system.n:,}, d = {system.d}, {sides}, {system.kernel.name}, {precision}"
