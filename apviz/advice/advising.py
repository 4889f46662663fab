"""Advice on a system: forecasts of seconds, work, memory and chance for every method that fits."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from apviz.advice.alternatives import Alternative, what_would_change
from apviz.advice.forecast import Forecast, in_words, untested
from apviz.advice.progress import Progress, ProgressOfAll
from apviz.advice.rehearsing import Budget, Candidate, Rehearsing
from apviz.duplicates import count_distinct
from apviz.kernels import KERNELS
from apviz.memory import free_memory
from apviz.operators import Operator
from apviz.operators.fourier.engine import LEAST_ROWS as SERIES_ROWS
from apviz.preconditioners import RandomlyPivotedCholesky, TwoLevelSchwarz
from apviz.settings import require, require_kind
from apviz.solvers import (
    Automatic,
    Cholesky,
    ColouredProjection,
    ConjugateGradient,
    Hook,
    NotPositiveDefinite,
    Solver,
    checked_hooks,
    overlapping,
)
from apviz.solvers.choosing.automatic import CHOLESKY_ROWS
from apviz.solvers.choosing.costs import REHEARSED, UNREHEARSED, CostModel, memory_of_a_factor, of_sweeps
from apviz.solvers.recommended import coarse_rank
from apviz.system import KernelSystem

#: a pilot system has n ÷ TWIN_SHARE rows, between LEAST_ROWS and MOST_ROWS
TWIN_SHARE, LEAST_ROWS, MOST_ROWS = 6, 800, 2_500
#: Share of the seconds of the best solve that tests may take: less than a tenth, because the usual seconds may be twice
#: those of the solve, and a test twice as long as the one before.
SHARE_OF_TESTS = 0.07
#: reason for a method that was not tested
UNTESTED = "a test takes longer than a tenth of the solve; thorough advice tests every method"
#: share of the free memory that a method may use
MEMORY_SHARE = 0.9


@dataclass(frozen=True)
class Advice:
    """The recommended method, and the forecast cost of every method.

    Attributes:
        system: description of the system.
        tol: mean relative residual to reach.
        methods: forecasts by name, the best first; methods that are not expected to converge come last.
        unfit: reason by name for each method that was left out.
        alternatives: changes that alter the advice, or its cost a lot: another tolerance, other right-hand sides,
            another dtype. For a forecast on a GPU, give a system with device="cuda".
        seconds: duration of the advice.
        duplicates: what merging rows with equal inputs would save; empty if no two are equal.

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
    duplicates: str = ""

    @property
    def best(self) -> Forecast:
        """Recommended method."""
        return next(iter(self.methods.values()))

    @property
    def headline(self) -> str:
        """Return the recommended method, and the cost of the next one."""
        (name, best), *others = self.methods.items()
        if best.chance < 0.5:
            return f"No method is expected to reach {self.tol:g} within its limit."
        said = f"Use {name}: {best.seconds.in_words}."
        if others:
            second, its = others[0]
            said += f" {second} needs {its.seconds.in_words}."
        return said

    @property
    def reason(self) -> str:
        """Return the reason, and what to do if no method is expected to converge."""
        name, best = next(iter(self.methods.items()))
        if best.chance < 0.5:
            action = "Allow more epochs, a larger tolerance, more noise, or float64."
            return f"{name} comes closest: {best.reason}. {action}"
        if isinstance(best.solver, Cholesky):
            return f"It {best.reason}: exact, {best.memory / 1e6:,.0f} MB."
        return f"{name} needs about {best.work.likely:.2g} work (1 = every kernel entry once): {best.reason}."

    @property
    def sentence(self) -> str:
        """Return headline and reason in one line."""
        return f"{self.headline} {self.reason}"

    def progress(self) -> Progress:
        """Return a hook that estimates the remaining time of a solve by the best method, and warns if it is slow."""
        (_, best), *others = self.methods.items()
        return Progress(best, dict(others))

    def progress_of_all(self) -> ProgressOfAll:
        """Return a hook for solves by any of the methods, one after another."""
        return ProgressOfAll(self.methods)

    def rows(self) -> list[dict[str, Any]]:
        """Return a table with one row for each method, as text for people."""
        return [
            {
                "method": name,
                "seconds": f"{each.seconds}",
                "work": f"{each.work}",
                "memory": f"{each.memory / 1e6:,.0f} MB",
                "chance of success": f"{each.chance:.0%}",
                "why": each.reason,
            }
            for name, each in self.methods.items()
        ]

    @property
    def left_out(self) -> list[str]:
        """Return a sentence for each reason why methods were left out."""
        names: dict[str, list[str]] = {}
        for name, why in self.unfit.items():
            names.setdefault(why, []).append(name)
        return [
            f"{', '.join(each)} {'were' if len(each) > 1 else 'was'} left out: {why}." for why, each in names.items()
        ]

    @property
    def origin(self) -> str:
        """Return a sentence on the origin of the numbers."""
        return f"All forecasts are estimates from short tests on this machine, made in {in_words(self.seconds)}."

    def __str__(self) -> str:
        lines = [f"{self.system}, to {self.tol:g}", self.sentence]
        lines += [f"  {row['method']}: {row['seconds']} s, {row['work']} work, {row['memory']}" for row in self.rows()]
        lines += [self.duplicates] if self.duplicates else []
        lines += [each.sentence for each in self.alternatives]
        lines += [f"  {each}" for each in self.left_out]
        return "\n".join(lines)


def advise(
    system: KernelSystem,
    solvers: Mapping[str, Solver] | None = None,
    *,
    tol: float = 1e-2,
    max_epochs: int = 1000,
    seed: int = 0,
    thorough: bool = False,
    hooks: Sequence[Hook] = (),
    clock: Callable[[], float] = time.perf_counter,
) -> Advice:
    """Forecast seconds, work and memory of the methods that fit, and recommend one. All numbers are estimates.

    Each method solves a pilot system of a few hundred to 1,250 of the rows. Methods that may be the best also solve one
    with twice as many rows (`apviz.advice.pilots`). Brief measurements give the cost of entries, factors and passes on
    this machine (`apviz.solvers.choosing.costs`). Tests end where the next is expected to take the advice beyond
    about a tenth of the best solve; what it took is in `benchmarks/README.md`. If not even one test pays, `Automatic`
    is advised, with its usual seconds.

    Args:
        system: K W = B.
        solvers: solvers by name, instead of apviz's own methods: alternating projections, CG or Cholesky.
        tol: mean relative residual that apviz's own methods should reach.
        max_epochs: epoch limit of apviz's own methods.
        seed: seed of the rows of the pilot systems.
        thorough: test every method, whatever it takes: with 6,000 and 14,000 rows once or twice as long as the best
            solve. Also if `solvers` are given.
        hooks: hooks of the solves of pilot systems; an exception in a hook ends the advice.
        clock: clock of the forecast seconds; use `time.process_time` if other processes share the machine.

    Raises:
        ValueError: the tolerance or the epoch limit is out of range, or a solver cannot be forecast.
        MemoryError: no method fits the free memory.

    Examples:
        >>> import torch, apviz
        >>> x = torch.linspace(0, 1, 300, dtype=torch.float64)
        >>> system = apviz.KernelSystem(x, torch.sin(6 * x), apviz.Matern52(lengthscale=0.2), noise=0.01, device="cpu")
        >>> next(iter(apviz.advise(system).methods))
        'Cholesky'
    """
    _check(system, solvers, thorough)
    auto = Automatic(tol=tol, max_epochs=max_epochs, seed=seed)
    hooks = checked_hooks(hooks)
    budget = Budget(clock, clock(), math.inf if thorough or solvers is not None else SHARE_OF_TESTS)
    operator, columns, n = system.operator, system.b.shape[1], system.n
    asked = _methods(auto, operator, columns) if solvers is None else dict(solvers)
    operator.fix_engine(10.0 * n**2, columns)
    rows = min(n, max(LEAST_ROWS, min(MOST_ROWS, n // TWIN_SHARE)))
    rehearsing = Rehearsing(system, CostModel(operator, columns, clock), rows, seed, budget, hooks)
    usual = untested(auto, operator, columns, rehearsing.costs)
    budget.start(usual.seconds.likely)
    candidates, unfit = _begin(rehearsing, asked, tol, only_one=solvers is None and n <= CHOLESKY_ROWS)
    if UNTESTED in unfit.values() and not any(each.half for each in candidates.values()):
        candidates[auto.name] = Candidate(auto, auto, usual)
    rehearsing.decide(candidates.values())
    ordered = dict(sorted(candidates.items(), key=lambda item: _rank(item[1].forecast)))
    changes = what_would_change(rehearsing, ordered, tol)
    methods = {name: each.forecast for name, each in ordered.items()}
    return Advice(_in_words(system), tol, methods, unfit, changes, budget.spent, _duplicates_in_words(system))


def _check(system: KernelSystem, solvers: Mapping[str, Solver] | None, thorough: bool) -> None:
    require_kind("system", system, KernelSystem, "an apviz.KernelSystem")
    require_kind("thorough", thorough, bool, "True or False")
    if solvers is None:
        return
    require_kind("solvers", solvers, Mapping, "solvers by their names, or None")
    require(len(solvers) > 0, "solvers", solvers, "one solver or more, or None")
    for name, solver in solvers.items():
        require_kind(f"solvers[{name!r}]", solver, Solver, "a solver, such as apviz.Automatic()")


def _begin(
    rehearsing: Rehearsing, chosen: Mapping[str, Solver], tol: float, *, only_one: bool
) -> tuple[dict[str, Candidate], dict[str, str]]:
    """Rehearse every method that fits the memory; return these, and the reason why each of the others does not fit.

    Args:
        only_one: Leave out all methods after the first that fits.
    """
    operator, columns = rehearsing.system.operator, rehearsing.system.b.shape[1]
    free = MEMORY_SHARE * free_memory(operator.x.device)
    candidates, unfit = dict[str, Candidate](), dict[str, str]()
    for name, asked in chosen.items():
        solver = asked if asked.name in UNREHEARSED else asked.resolve(operator, columns)[0]
        if solver.name not in (*REHEARSED, *UNREHEARSED):
            raise ValueError(
                f"{name}: {type(solver).__name__} cannot be forecast; alternating and coloured projections, conjugate "
                "gradients and Cholesky can"
            )
        if isinstance(solver, ColouredProjection) and of_sweeps(operator, columns, tol) is None:
            what = f"at least {SERIES_ROWS:,} rows of at most three inputs on the CPU"
            unfit[name] = f"it needs {what}, and a kernel with Fourier products"
            continue
        if only_one and candidates:
            unfit[name] = f"with up to {CHOLESKY_ROWS:,} rows, Cholesky is so fast that others were not tested"
            continue
        if solver.name in REHEARSED and not rehearsing.budget.allows_another:
            unfit[name] = UNTESTED
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
            unfit[name] = f"it needs {needed / 2**30:.1f} GiB, {free / 2**30:.1f} GiB are free"
    if not candidates and UNTESTED not in unfit.values():
        raise MemoryError("no method fits. " + "; ".join(f"{name}: {why}" for name, why in unfit.items()))
    return candidates, unfit


def can_forecast(solver: Solver) -> bool:
    """Return whether `advise` accepts a solver."""
    return isinstance(solver, Automatic) or solver.name in (*REHEARSED, *UNREHEARSED)


def _methods(auto: Automatic, operator: Operator, columns: int) -> dict[str, Solver]:
    """Return the methods to compare, usually the fastest first, so that rehearsals of slow ones stop early."""
    limits: dict[str, Any] = {"tol": auto.tol, "max_epochs": auto.max_epochs}
    seed, rank = auto.seed, coarse_rank(operator.n)
    solvers = [
        Cholesky(tol=auto.tol),
        overlapping(**limits, seed=seed),
        ConjugateGradient(preconditioner=RandomlyPivotedCholesky(rank=rank, seed=seed), **limits),
        ConjugateGradient(preconditioner=TwoLevelSchwarz(seed=seed), **limits),
        ConjugateGradient(**limits),
    ]
    found: dict[str, Solver] = {solver.method.name: solver for solver in solvers}
    if of_sweeps(operator, columns, auto.tol) is not None:
        coloured = ColouredProjection(products="fourier", **limits, seed=seed)
        found = {coloured.method.name: coloured, **found}
    return found


def _rank(each: Forecast) -> tuple[bool, float]:
    """Return the sort key of a forecast: methods that are not expected to converge last, then by likely seconds."""
    return each.chance < 0.5, each.seconds.likely


def _duplicates_in_words(system: KernelSystem) -> str:
    distinct = count_distinct(system.operator.given)
    if distinct == system.n:
        return ""
    share = (distinct / system.n) ** 2
    return (
        f"{system.n:,} rows at {distinct:,} distinct inputs: apviz.duplicates merges them, which leaves {share:.2g} of "
        "the entries of K and the same predictions."
    )


def _in_words(system: KernelSystem) -> str:
    name = f"{system.dataset}: " if system.dataset else ""
    sides = "1 right-hand side" if system.b.shape[1] == 1 else f"{system.b.shape[1]} right-hand sides"
    precision = str(system.dtype).removeprefix("torch.")
    merged = "" if system.merged_rows is None else f" (merged from {system.merged_rows:,})"
    inputs = "1 input" if system.d == 1 else f"{system.d} inputs"
    kernel = KERNELS[system.kernel.name].title if system.kernel.name in KERNELS else system.kernel.name
    return f"{name}{system.n:,} rows{merged}, {inputs}, {sides}, {kernel}, {precision}"
