"""Every method on every data set, to 0.1, 0.01 and 0.001: work, seconds, memory, checked residual.

One process a cell; a cell that is in `results/solvers/` is not run again, so a run that was cut goes on; those of
another machine are dropped. A solve aims at 0.001 and is stopped by a time limit; when it passed 0.1, 0.01 and 0.001
is read from the residual recorded after every update. Where B − KW, computed at the end, has drifted past one of these,
a second solve that aims at it decides. Seconds are since the start of the solve, set-up included; of a short solve, the
median of five. Where the limit came first, what is left blank took longer.

    python -m benchmarks.solvers [--size 14k|50k|full] [--rhs 16] [--limit SECONDS] [--within SECONDS] [--again]
                                [data sets]
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import apviz
from apviz import comparison
from apviz.factors import numbers_held
from apviz.partitions import partitioner_named
from apviz.solvers import attempt, overlapping
from apviz.solvers.choices import resolve
from benchmarks.machine import RESULTS, describe

FOLDER = RESULTS / "solvers"
TOLERANCES = (0.1, 0.01, 0.001)
# B − KW so near to a tolerance is below it, but for the check's own rounding
ROUNDING = 1.05
# training rows; None is all there are. china's own sizes are those its loader thins the picture to
SIZES: dict[str, dict[str, int | None]] = {
    "14k": {
        "china": 13_696, "protein": 14_000, "kin40k": 14_000, "bike": 13_903, "keggundirected": 14_000,
        "airquality": 14_000, "sgemm": 14_000,
    },
    "50k": {"keggundirected": None, "airquality": 50_000, "sgemm": 50_000, "china": 54_000},
    "full": {"protein": None, "kin40k": None, "airquality": None, "sgemm": None, "china": None},
}  # fmt: skip
# a solve of fewer seconds is run as often as this
SHORT, REPEATS = 2.0, 5
GPYTORCH = "GPyTorch, KeOps kernel"
# its CG makes so many iterations at least (linear_operator.utils.linear_cg)
GPYTORCH_LEAST = 11
# seconds that a cell may take beside its limit; that GPyTorch's iterations may take where each is of half a minute
START, SLOW_ITERATIONS = 30.0, 270.0


def paper_block_size(n: int) -> int:
    """The authors' 6,000 at 200,000 to 300,000 rows, and a like share of fewer."""
    return 1_000 if n <= 20_000 else 1_500 if n <= 60_000 else 6_000


def methods(system: apviz.KernelSystem, tol: float = min(TOLERANCES)) -> dict[str, Callable[[], Any]]:
    """The solvers by the names in the table."""
    most = 100_000
    b = paper_block_size(system.n)
    projection = overlapping(tol=tol, max_epochs=most)
    chosen, _ = resolve(projection, system.operator, system.b.shape[1])
    schwarz, _ = resolve(apviz.TwoLevelSchwarz(), system.operator, system.b.shape[1])
    solved = round(int(chosen.block_size) * (1 + float(chosen.overlap)))

    def gradient(preconditioner: Any = None) -> apviz.ConjugateGradient:
        return apviz.ConjugateGradient(preconditioner=preconditioner, tol=tol, max_epochs=most)

    def disjoint(size: int, partition: str) -> apviz.AlternatingProjection:
        return apviz.AlternatingProjection(block_size=size, partition=partition, tol=tol, max_epochs=most)

    return {
        "AP, the paper's": lambda: disjoint(b, "sequential"),
        "AP, k-d tree": lambda: disjoint(b, "kd-tree"),
        "AP, k-d tree, blocks as large as A's": lambda: disjoint(solved, "kd-tree"),
        "A: AP, overlapping": lambda: projection,
        "B: CG, two-level Schwarz": lambda: gradient(schwarz),
        "CG": lambda: gradient(),
        "CG, pivoted Cholesky 100": lambda: gradient(apviz.PivotedCholesky(rank=100)),
        "CG, pivoted Cholesky 500": lambda: gradient(apviz.PivotedCholesky(rank=500)),
        "CG, randomly pivoted Cholesky": lambda: gradient(apviz.RandomlyPivotedCholesky(rank=int(schwarz.coarse_rank))),
    }


def build(dataset: str, n: int | None, rhs: int) -> tuple[apviz.KernelSystem, Any]:
    data = apviz.datasets.load(dataset, n=n)
    hyperparameters = comparison.choose_hyperparameters(data)
    return comparison.build_system(data, hyperparameters, rhs=rhs, operator="tiled"), hyperparameters


def measure(dataset: str, n: int | None, rhs: int, method: str, limit: float) -> dict[str, Any]:
    """One cell, in a process of its own."""
    system, _ = build(dataset, n, rhs)
    if method == GPYTORCH:
        return gpytorch_cell(system, limit)
    system.operator.prepare()
    system.operator.columns_matmul(slice(0, 100), system.b[:100])  # threads and caches are warm
    before = peak_kib(reset=True)
    solver, _ = methods(system)[method]().resolve(system.operator, system.b.shape[1])
    solution, trace, peak = timed(system, solver, limit)
    checked = checked_residual(system, torch.as_tensor(solution.weights))
    updates = trace["update"]
    residual = updates["residual"].mean("rhs").to_numpy()
    reached = {str(tol): passing(updates, first) for tol, first in first_below(residual, checked).items()}
    for tol in drifted_past(residual, checked):
        aim, _ = methods(system, tol)[method]().resolve(system.operator, system.b.shape[1])
        aimed, anew, _ = timed(system, aim, limit)
        if checked_residual(system, torch.as_tensor(aimed.weights)) < ROUNDING * tol:
            reached[str(tol)] = passing(anew["update"], -1)
    return {
        "label": trace.label, "reached": reached, "stop": str(solution.stop_reason), "checked residual": checked,
        "residual": solution.residual, "epochs": solution.epochs, "work": round(solution.work, 2),
        "seconds": round(solution.seconds, 2), "set-up seconds": round(solution.setup_seconds, 2),
        "set-up work": round(solution.setup_work, 3), "peak MB": round((peak - before) / 1024),
        "factor MB": round(factor_numbers(system, solver) * system.x.element_size() / 2**20),
    }  # fmt: skip


def timed(system: apviz.KernelSystem, solver: Any, limit: float) -> tuple[apviz.Solution, apviz.Trace, int]:
    """A solve and its trace, of a short one those of the median time of five; and KiB at the peak of the first."""
    runs, peak = [], 0
    while not runs or (len(runs) < REPEATS and runs[0][0].seconds < SHORT):
        recorder = apviz.Recorder()
        solution = attempt(system, solver, [recorder, apviz.StopHook(max_seconds=limit)])
        runs.append((solution, recorder.trace))
        peak = peak or peak_kib()
    return *sorted(runs, key=lambda one: one[0].seconds)[len(runs) // 2], peak


def passing(updates: Any, update: int) -> dict[str, float]:
    """Work, seconds and epochs up to this update, of a trace's updates."""
    row = updates.isel(update=update)
    return {
        "work": round(float(row["work"]), 2), "seconds": round(float(row["seconds"]), 2),
        "epochs": int(row["epoch_of_update"]),
    }  # fmt: skip


def checked_residual(system: apviz.KernelSystem, weights: torch.Tensor) -> float:
    """The mean over right-hand sides of ‖B − KW‖ / ‖B‖."""
    b = system.b.double()
    fresh = b - system.operator.matmul(weights.to(system.b).reshape(b.shape)).double()
    return float((fresh.norm(dim=0) / b.norm(dim=0)).mean())


def first_below(residual: np.ndarray, checked: float) -> dict[float, int]:
    """The first update below each tolerance, but of those that the residual has drifted past by the end.

    Args:
        residual: after every update, as the solver's recursion has it.
        checked: that of B − KW after the last.
    """
    passed = [tol for tol in TOLERANCES if (residual < tol).any() and tol not in drifted_past(residual, checked)]
    return {tol: int((residual < tol).argmax()) for tol in passed}


def drifted_past(residual: np.ndarray, checked: float) -> list[float]:
    """Tolerances the recursion is below at the end, but B − KW is not."""
    return [tol for tol in TOLERANCES if residual[-1] < tol and checked > ROUNDING * tol]


def peak_kib(*, reset: bool = False) -> int:
    """The most memory this process has held since the last reset; Linux counts it."""
    if reset:
        Path("/proc/self/clear_refs").write_text("5")
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def factor_numbers(system: apviz.KernelSystem, solver: Any) -> float:
    """Numbers in the blocks' Cholesky factors."""
    blocks = solver if isinstance(solver, apviz.AlternatingProjection) else getattr(solver, "preconditioner", None)
    if not hasattr(blocks, "overlap"):
        return 0.0
    partition = partitioner_named(blocks.partition)(system.operator.inputs, blocks.block_size, blocks.overlap)
    return float(numbers_held(partition.solved_sizes()))


def choose(system: apviz.KernelSystem) -> tuple[str, float]:
    """What `auto` takes for this system, and the seconds of choosing it."""
    apviz.Automatic().resolve(system.operator, system.b.shape[1])  # threads and caches are warm
    started = time.perf_counter()
    automatic, _ = apviz.Automatic().resolve(system.operator, system.b.shape[1])
    return automatic.name, round(time.perf_counter() - started, 3)


def gpytorch_cell(system: apviz.KernelSystem, limit: float) -> dict[str, Any]:
    """GPyTorch's CG with its KeOps kernel: seconds of an iteration, and of its own solves where those are short.

    An iteration: three, after one to warm up. Solves to 0.01 with a preconditioner of its default rank, of 100 and of
    500, cut off after as many iterations as the limit holds; the fastest that got there counts.
    """
    import gpytorch
    from gpytorch.kernels.keops import MaternKernel

    lengthscale = torch.as_tensor(system.kernel.lengthscale).reshape(1, -1)
    inner = MaternKernel(nu=2.5, ard_num_dims=lengthscale.shape[1] if lengthscale.numel() > 1 else None)
    kernel = gpytorch.kernels.ScaleKernel(inner)
    inner.lengthscale, kernel.outputscale = lengthscale, system.kernel.outputscale
    settings, tol = gpytorch.settings, 0.01

    def solve(iterations: int, rank: int, tolerance: float) -> tuple[float, torch.Tensor]:
        with (
            torch.no_grad(), settings.max_lanczos_quadrature_iterations(1),
            settings.cg_tolerance(tolerance), settings.max_cg_iterations(iterations),
            settings.max_preconditioner_size(rank), warnings.catch_warnings(),
        ):  # fmt: skip
            warnings.simplefilter("ignore")  # that it was cut off
            started = time.perf_counter()
            weights = kernel(system.x).add_diagonal(torch.tensor(system.noise)).solve(system.b)
            return time.perf_counter() - started, weights

    seconds = {iterations: solve(iterations, 0, 1e-9)[0] for iterations in (1, 1, 4)}
    each = (seconds[4] - seconds[1]) / 3
    cell: dict[str, Any] = {"label": GPYTORCH, "seconds an iteration": round(each, 3), "reached": {}, "solves": []}
    if (most := int(limit / each)) < GPYTORCH_LEAST:
        return cell
    for rank in (settings.max_preconditioner_size.value(), 100, 500):
        took, weights = solve(most, rank, tol)
        checked = checked_residual(system, weights)
        cell["solves"].append({"rank": rank, "seconds": round(took, 2), "checked residual": checked})
    ends = [one["seconds"] for one in cell["solves"] if one["checked residual"] < ROUNDING * tol]
    if ends:
        cell["reached"][str(tol)] = {"seconds": min(ends)}
    return cell


def result_file(dataset: str, n: int, rhs: int) -> Path:
    return FOLDER / f"{dataset}-n{n}-rhs{rhs}.json"


def cells_of_this_system(path: Path, about: dict[str, Any]) -> dict[str, Any]:
    """What was measured before, but of other hyperparameters or rows, or on another machine: ratios are of one."""
    if not path.exists():
        return {}
    before = json.loads(path.read_text())
    cells = before["cells"]
    if any(before.get(key) != value for key, value in json.loads(json.dumps(about)).items()):
        print(f"{path.name}: {len(cells)} cells of another system are dropped", flush=True)
        return {}
    here = machine(describe())
    kept = {method: cell for method, cell in cells.items() if machine(cell["machine"]) == here}
    if len(kept) < len(cells):
        print(f"{path.name}: {len(cells) - len(kept)} cells of another machine are dropped", flush=True)
    return kept


def machine(described: dict[str, Any]) -> str:
    """What seconds are of, in words: processor, cores used, and GPU if any."""
    words = [described["processor"], f"{described['threads']} cores", described["gpu"]]
    return ", ".join(word for word in words if word)


def run(
    dataset: str, n: int | None, rhs: int, limit: float, wanted: list[str], again: bool = False,
    stop_at: float = math.inf,
) -> None:  # fmt: skip
    """Measures what is missing until `stop_at`, of the clock `time.monotonic`; starts no cell it could not end."""
    system, hyperparameters = build(dataset, n, rhs)
    path = result_file(dataset, system.n, rhs)
    FOLDER.mkdir(parents=True, exist_ok=True)
    system.operator.prepare()
    automatic, seconds = choose(system)
    about = {
        "dataset": dataset, "n": system.n, "d": system.d, "right-hand sides": rhs, "kernel": system.kernel.name,
        "noise": system.noise, "outputscale": system.kernel.outputscale, "lengthscale": system.kernel.lengthscale,
        "hyperparameters": hyperparameters.provenance,
    }  # fmt: skip
    kept: dict[str, Any] = about | {
        "auto": automatic, "seconds of choosing": seconds, "cells": cells_of_this_system(path, about)
    }  # fmt: skip
    path.write_text(json.dumps(kept, indent=1) + "\n")
    missing = [
        method for method in [*methods(system), GPYTORCH]
        if (again or method not in kept["cells"]) and (not wanted or any(word in method for word in wanted))
    ]  # fmt: skip
    for k, method in enumerate(missing):
        if time.monotonic() + (SLOW_ITERATIONS if method == GPYTORCH else limit + START) > stop_at:
            print(f"{dataset}: {len(missing) - k} methods are left for another run: {', '.join(missing[k:])}")
            return
        command = [sys.executable, "-m", "benchmarks.solvers", "--cell", method, dataset, "--rhs", str(rhs)]
        command += ["--limit", str(limit), "--n", str(system.n)]
        seconds_left = None if stop_at == math.inf else stop_at - time.monotonic()
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=seconds_left)
        except subprocess.TimeoutExpired:
            print(f"{dataset} {method}: no time was left for it; without --within it takes as long as it must")
            return
        if done.returncode:
            print(f"{dataset} {method}: failed\n{done.stderr[-2000:]}", flush=True)
            continue
        kept["cells"][method] = json.loads(done.stdout.strip().splitlines()[-1]) | {
            "limit": limit, "machine": describe()
        }  # fmt: skip
        path.write_text(json.dumps(kept, indent=1) + "\n")
        cell = kept["cells"][method]
        print(dataset, system.n, rhs, method, cell["reached"], cell.get("checked residual"), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", nargs="*")
    parser.add_argument("--size", choices=SIZES, default="14k")
    parser.add_argument("--rhs", type=int, default=16)
    parser.add_argument("--limit", type=float, default=40.0, help="seconds a solve may take")
    parser.add_argument("--only", action="append", default=[], help="methods whose name holds this")
    parser.add_argument("--again", action="store_true", help="also what was measured before")
    parser.add_argument("--within", type=float, default=math.inf, help="seconds; leaves the rest for another run")
    parser.add_argument("--cell", help=argparse.SUPPRESS)
    parser.add_argument("--n", type=int, help=argparse.SUPPRESS)
    a = parser.parse_args()
    if a.cell:
        print(json.dumps(measure(a.datasets[0], a.n, a.rhs, a.cell, a.limit)))
        return
    stop_at = time.monotonic() + a.within
    for dataset in a.datasets or SIZES[a.size]:
        run(dataset, SIZES[a.size][dataset], a.rhs, a.limit, a.only, a.again, stop_at)


if __name__ == "__main__":
    main()
