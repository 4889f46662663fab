"""Solve a system: check the arguments, make a run, and tell the hooks how it ended."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterable
from dataclasses import replace
from typing import get_args

import torch
from torch import Tensor

from apviz import distributed
from apviz.memory import explained
from apviz.settings import in_full_precision, require, require_kind, require_torch_defaults, shown
from apviz.solvers.choosing.automatic import Automatic
from apviz.solvers.interface import LESS_MEMORY, Hook, NotConverged, Prepared, Solution, Solver
from apviz.solvers.measuring.clock import Clock
from apviz.solvers.measuring.residuals import Certify
from apviz.solvers.run import Run
from apviz.solvers.stopping import Stopping, ending_as
from apviz.system import KernelSystem, tensor_of

# From this number of rows a solve in float64 takes seconds longer than in float32.
LARGE_ROWS = 10_000

log = logging.getLogger("apviz")


def solve(
    system: KernelSystem,
    solver: Solver | None = None,
    hooks: Iterable[Hook] = (),
    initial_weights: Tensor | None = None,
    *,
    until: Stopping | None = None,
    prepared: Prepared | None = None,
    certify: Certify = "operator",
    throw: bool = False,
) -> Solution:
    """Solve K W = B, and warn if the solution has not converged.

    Args:
        system: the system K W = B.
        solver: None: the solver that apviz recommends, `apviz.Automatic`.
        hooks: handle start, updates, epochs and stop, such as an `apviz.Recorder`.
        initial_weights: initial W, of the shape of B; costs one product with K (1.0 work).
        until: tolerance and limits that replace those of the solver.
        prepared: result of `solver.prepare(system.operator)`; `solver` may have another tolerance and other limits.
            None: it is built here. It counts as set-up of the first solve that uses it.
        certify: how B − KW is evaluated where it may claim convergence. `operator`: by the operator's own products if
            their error can be measured, which counts against the claim, else exactly; `exact`: by all entries in
            float64; `compensated`: by float32 entries and compensated sums, for GPUs with slow float64
            (`operator="fused"`). `solution.certificate` says which.
        throw: raise `NotConverged` instead of warning.

    Raises:
        ValueError: initial weights, settings or a `prepared` that do not fit the system.
        NotConverged: if `throw` is true; its `solution` is the solution so far.
        NotPositiveDefinite: a block, or K, has no Cholesky factor even with jitter.
        RankLost: ranks share the solve, and one of them raised an error or ended.

    Ctrl-C and errors are passed on after all hooks have handled them, so no recorded data are lost.

    Examples:
        >>> import apviz
        >>> x = [[0.0], [0.5], [1.0]]
        >>> system = apviz.KernelSystem(x, [0.0, 1.0, 0.0], apviz.RBF(lengthscale=0.5), noise=0.1, device="cpu")
        >>> apviz.solve(system, apviz.Automatic(tol=1e-6)).converged
        True
    """
    require_kind("system", system, KernelSystem, "an apviz.KernelSystem")
    solver = Automatic() if solver is None else solver
    tol = (until if isinstance(until, Stopping) else Stopping.of(solver)).tol
    easy = tol >= 1e-3 and system.noise >= 1e-3 * system.operator.largest_signal
    if system.dtype == torch.float64 and system.n >= LARGE_ROWS and easy:
        log.info("solving in float64, like the data; dtype=torch.float32 is enough for a tolerance of %g", tol)
    solution = attempt(system, solver, hooks, initial_weights, until=until, prepared=prepared, certify=certify)
    if not solution.converged:
        by = "" if solution.residual_is_measured else " by the recursion (B − KW was not evaluated at the end)"
        unit = "epoch or iteration" if solution.epochs == 1 else "epochs or iterations"
        message = (
            f"{solver.method.name} did not converge. After {solution.epochs:,} {unit} the residual is "
            f"{solution.residual:.2g}{by}, the tolerance {tol:g}. It {solution.stop_message}"
        )
        if throw:
            raise NotConverged(message, solution)
        warnings.warn(NotConverged(message, solution), stacklevel=2)
    return solution


def attempt(
    system: KernelSystem,
    solver: Solver,
    hooks: Iterable[Hook] = (),
    initial_weights: Tensor | None = None,
    *,
    until: Stopping | None = None,
    prepared: Prepared | None = None,
    certify: Certify = "operator",
) -> Solution:
    """Solve as `solve` does, without a warning if the solution has not converged; for comparisons.

    Raises:
        ValueError, NotPositiveDefinite: as `solve`.
    """
    _checked(solver)
    if until is not None:
        require_kind("until", until, Stopping, "an apviz.Stopping, such as apviz.Stopping(tol=1e-3)")
        solver = ending_as(until, solver)
    known = get_args(Certify)
    require(certify in known, "certify", certify, f"one of {', '.join(known)}")
    hooks = checked_hooks(hooks)
    if initial_weights is not None:
        initial_weights = _of_the_shape_of_b(system, initial_weights)
    if prepared is not None:
        require_kind("prepared", prepared, Prepared, "what solver.prepare(system.operator) returns")
    if prepared is not None and prepared.given is not system.operator:
        raise ValueError("prepared belongs to another operator; use solver.prepare(system.operator)")
    clock = Clock(system.device)  # the solve's time includes choosing
    written = system.times_written
    try:
        with in_full_precision(), explained(solver.method.name, LESS_MEMORY):
            require_torch_defaults()
            if prepared is None:
                prepared = solver.prepare(system.operator, system.b.shape[1], like=system.b)
                cost = replace(prepared.cost.taken(), seconds=0.0)  # the clock has been running
            else:
                prepared = prepared.ending_as(solver)
                cost = prepared.cost.taken()
            solution = Run(system, prepared, hooks, initial_weights, cost, clock, until, certify).solve()
            if system.times_written != written:
                raise RuntimeError(
                    "a hook or another thread changed x or b during the solve, so the weights "
                    "are invalid; create the system again"
                )
    except BaseException as error:
        for hook in hooks:
            hook.on_abandon(error)
        distributed.fail(error)
        raise
    for hook in hooks:
        hook.on_stop(solution)
    log.debug(
        "%s: %s, residual %.2e after %.2f work", solver.method.name, solution.stop_reason, solution.residual,
        solution.work,
    )  # fmt: skip
    return solution


def checked_hooks(hooks: Iterable[Hook]) -> list[Hook]:
    """Return hooks as a list.

    Raises:
        TypeError: not a list of hooks; the message shows the value.
    """
    if isinstance(hooks, Hook):
        raise TypeError(f"hooks must be a list, such as hooks=[{type(hooks).__name__}()], got one hook")
    try:
        found = list(hooks)
    except TypeError as error:
        raise TypeError(f"hooks must be a list of objects of apviz.Hook, got {shown(hooks)}") from error
    for hook in found:
        if not isinstance(hook, Hook):
            what = f"the class {hook.__name__}" if isinstance(hook, type) else f"{hook!r:.80}"
            raise TypeError(f"hooks must be objects of apviz.Hook, got {what}")
    return found


def _checked(solver: Solver) -> Solver:
    if not isinstance(solver, Solver):
        called = f"an object, such as {solver.__name__}()" if isinstance(solver, type) else "such as apviz.Automatic()"
        raise TypeError(f"solver must be {called}, got {solver!r:.80}")
    return solver


def _of_the_shape_of_b(system: KernelSystem, initial_weights: Tensor) -> Tensor:
    # float64, as solutions are: rounding to the system's dtype would move the weights
    initial = tensor_of(initial_weights, "initial_weights").to(system.b.device, torch.float64)
    given = tuple(initial.shape)
    if initial.ndim == 1:
        initial = initial[:, None]
    if initial.shape != system.b.shape:
        raise ValueError(f"initial_weights must have the shape of b, {tuple(system.b.shape)}, got {given}")
    if not torch.isfinite(initial).all():
        raise ValueError("initial_weights has NaN or infinite values; start from None (zeros) instead")
    return initial
