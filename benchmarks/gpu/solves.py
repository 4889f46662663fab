"""Stage e: seconds to 0.01 and 0.001 of every method, at 14,000, 50,000 and 300,000 rows.

Each tolerance is a solve of its own with everything included; a method that does not reach the first is not asked for
the second. Before the first solve of a data set everything is compiled.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

import apviz
from apviz import comparison
from apviz.solvers import attempt
from benchmarks.gpu.report import Cell, Report
from benchmarks.gpu.timing import why_no_keops
from benchmarks.solvers import CHECKED_ROWS, LARGE, REPEATS, ROUNDING, SHORT, gpytorch_cell, paper_block_size

TOLERANCES = (1e-2, 1e-3)
AUTO, PAPER, CHOLESKY = "auto", "AP, the paper's", "Cholesky"
GPYTORCH, STORED = "GPyTorch + KeOps", "GPyTorch, K stored"
ITERATIVE = (AUTO, PAPER, "CG", "CG, pivoted Cholesky 100")
METHODS = (AUTO, CHOLESKY, STORED, *ITERATIVE[1:], GPYTORCH)
#: rows up to which K is stored
MOST_STORED = 60_000
MOST_EPOCHS = 100_000


class Setting(NamedTuple):
    """A data set, its training rows (None: all), right-hand sides, and seconds of one solve at most."""

    dataset: str
    n: int | None
    sides: int
    limit: float


SETTINGS = (
    Setting("airquality", 14_000, 1, 4.0), Setting("airquality", 50_000, 1, 6.0), Setting("sgemm", 50_000, 16, 6.0),
    Setting("airquality", None, 1, 15.0), Setting("sgemm", None, 16, 15.0),
)  # fmt: skip
#: time limit of a method: this multiple of the time of `auto`, and at least these seconds
PATIENCE, LEAST_LIMIT = 20.0, 2.0
TINY = (Setting("china", 500, 1, 5.0), Setting("china", 500, 3, 5.0))


def solver_of(method: str, system: apviz.KernelSystem, tol: float, most: int = MOST_EPOCHS) -> Any:
    """Return the solver by its name in the table."""
    if method == AUTO:
        return apviz.Automatic(tol=tol, max_epochs=most)
    if method == PAPER:
        size = min(paper_block_size(system.n), system.n // 2)
        return apviz.AlternatingProjection(block_size=size, tol=tol, max_epochs=most)
    if method == CHOLESKY:
        return apviz.Cholesky()
    preconditioner = apviz.PivotedCholesky(rank=min(100, system.n // 4)) if "pivoted" in method else None
    return apviz.ConjugateGradient(preconditioner=preconditioner, tol=tol, max_epochs=most)


def run(report: Report) -> None:
    for setting in TINY if report.tiny else SETTINGS:
        made: list[apviz.KernelSystem] = []

        def system(setting: Setting = setting, made: list[apviz.KernelSystem] = made) -> apviz.KernelSystem:
            if not made:
                made.append(build(setting, report.device))
            return made[0]

        for method in METHODS:
            name = name_of(setting, method)
            if why := why_not(method, setting, report.device):
                report.skip(name, why)
                continue
            report.measure(name, lambda m=method, s=setting, k=system: cell(m, s, k, report), 3.0)
        made.clear()
        if report.device == "cuda":
            torch.cuda.empty_cache()


def why_not(method: str, setting: Setting, device: str) -> str:
    """Return why a method is not run, or nothing."""
    if method in (CHOLESKY, STORED) and (setting.n is None or setting.n > MOST_STORED):
        return f"K is stored up to {MOST_STORED:,} rows"
    return why_no_keops(device) if method == GPYTORCH else ""


def name_of(setting: Setting, method: str) -> str:
    rows = f"{setting.n:,}" if setting.n else "all"
    return f"{setting.dataset} n={rows} sides={setting.sides}: {method}"


def limit_of(setting: Setting, report: Report) -> float:
    """Return the seconds that a solve may take."""
    limit = min(setting.limit, max(1.0, report.seconds_left() / 2))
    ours = report.entries.get(name_of(setting, AUTO), {}).get("reached", {})
    if ours:
        limit = min(limit, max(LEAST_LIMIT, PATIENCE * max(one["seconds"] for one in ours.values())))
    return limit


def build(setting: Setting, device: str) -> apviz.KernelSystem:
    """Return a system whose kernels are compiled."""
    data = apviz.datasets.load(setting.dataset, n=setting.n)
    hyperparameters = comparison.choose_hyperparameters(data)
    system = comparison.build_system(data, hyperparameters, rhs=setting.sides, device=device)
    system.operator.prepare(setting.sides)
    for method in ITERATIVE:
        attempt(system, solver_of(method, system, 0.5, most=1), [apviz.StopHook(max_seconds=setting.limit / 4)])
    return system


def cell(method: str, setting: Setting, system: Callable[[], apviz.KernelSystem], report: Report) -> Cell:
    """Return seconds to each tolerance of one method."""
    made = system()
    limit = limit_of(setting, report)
    about: Cell = {
        "n": made.n, "d": made.d, "sides": setting.sides, "limit": round(limit, 1), "engine": made.operator.engine,
    }  # fmt: skip
    if method in (GPYTORCH, STORED):
        found = gpytorch_cell(made, limit, ranks=(100,), stored=method == STORED)
        return about | found | {"summary": of_gpytorch(found)}
    reached: Cell = {}
    for tol in TOLERANCES:
        solutions = timed(made, method, tol, limit)
        middle = sorted(solutions, key=lambda one: one.seconds)[len(solutions) // 2]
        checked = checked_residual(made, middle.weights)
        found = {
            "seconds": round(statistics.median(one.seconds for one in solutions), 4), "epochs": middle.epochs,
            "work": round(middle.work, 2), "set-up seconds": round(middle.setup_seconds, 4), "checked": checked,
            "stop": str(middle.stop_reason), "converged": middle.converged and checked < ROUNDING * tol,
        }  # fmt: skip
        reached[str(tol)] = found
        if not found["converged"]:
            break
    text = ", ".join(
        f"{tol}: {one['seconds']:.3g} s" + ("" if one["converged"] else f" NOT CONVERGED ({one['checked']:.2g})")
        for tol, one in reached.items()
    )
    return about | {"label": solver_of(method, made, 0.01).method.name, "reached": reached, "summary": text}


def of_gpytorch(found: Cell) -> str:
    if "0.01" in found["reached"]:
        return f"0.01: {found['reached']['0.01']['seconds']:.3g} s"
    return f"NOT CONVERGED; {found['seconds an iteration']:.3g} s an iteration"


def timed(system: apviz.KernelSystem, method: str, tol: float, limit: float) -> list[apviz.Solution]:
    """Solve once, or three times where that is short."""
    found = list[apviz.Solution]()
    while not found or (len(found) < REPEATS and found[0].converged and found[0].seconds < SHORT):
        found.append(attempt(system, solver_of(method, system, tol), [apviz.StopHook(max_seconds=limit)]))
    return found


def checked_residual(system: apviz.KernelSystem, weights: torch.Tensor) -> float:
    """Return the mean of ‖B − KW‖ / ‖B‖ in float64, by torch tiles; of random rows where there are many."""
    b = system.given_b.double()
    weights = weights.to(b).reshape(b.shape)
    operator = system.operator.in_dtype(torch.float64)
    if system.n > LARGE:
        chosen = torch.randperm(system.n, generator=torch.Generator().manual_seed(0))[:CHECKED_ROWS].sort().values
        rows = chosen.to(b.device)
        fresh = (b[rows] - operator.rows_matmul(rows, weights)) * math.sqrt(system.n / CHECKED_ROWS)
    else:
        fresh = b - operator.matmul(weights)
    return float(f"{float((fresh.norm(dim=0) / b.norm(dim=0)).mean()):.4g}")
