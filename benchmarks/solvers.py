"""Every method on every data set, to 0.01, 0.001 and 1e-6: work, seconds, memory, checked residual.

One process a cell; a cell that is in `results/solvers/` is not run again, so an interrupted run resumes; those of
another machine are dropped. Each tolerance is a solve of its own that aims at it, with everything included: choosing,
set-up and the pass that claims. A method that misses one within the time limit is not run to a smaller one;
a method may take a multiple of the time of `auto` (`--patience`). Seconds of a short solve are the median of three.

    python -m benchmarks.solvers [--size 14k|50k|full] [--rhs 16] [--limit SECONDS] [--within SECONDS] [--again]
                                [--patience TIMES] [data sets]
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

import apviz
from apviz import comparison
from apviz.solvers import attempt, overlapping
from apviz.solvers.recommended import resolve
from benchmarks.machine import RESULTS, describe

FOLDER = RESULTS / "solvers"
TOLERANCES = (1e-2, 1e-3, 1e-6)
# rows above which 1e-6 is left out, and those drawn at random for the check
LARGE, CHECKED_ROWS = 100_000, 20_000
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
SHORT, REPEATS = 2.0, 3
AUTO, CHOLESKY, GPYTORCH = "auto", "Cholesky", "GPyTorch, KeOps kernel"
# a factorisation, which no limit stops, is left out above: 16,000 rows take about 10 s of 2 cores
CHOLESKY_ROWS = 16_000
# the fewest iterations of its CG (linear_operator.utils.linear_cg)
GPYTORCH_LEAST = 11
# seconds that a cell may take in addition to its limit, and those of GPyTorch's iterations if one takes half a minute
START, SLOW_ITERATIONS = 30.0, 270.0
# seconds that a solve may take at least, however fast `auto` was
LEAST_LIMIT = 5.0


def paper_block_size(n: int) -> int:
    """The authors' 6,000 at 200,000 to 300,000 rows, and a like share of fewer."""
    return 1_000 if n <= 20_000 else 1_500 if n <= 60_000 else 6_000


def methods(system: apviz.KernelSystem, tol: float = min(TOLERANCES)) -> dict[str, Callable[[], Any]]:
    """The solvers by the names in the table."""
    most = 100_000
    projection = overlapping(tol=tol, max_epochs=most)
    schwarz, _ = resolve(apviz.TwoLevelSchwarz(), system.operator, system.b.shape[1])
    rank = int(schwarz.coarse_rank)

    def gradient(preconditioner: Any = None) -> apviz.ConjugateGradient:
        return apviz.ConjugateGradient(preconditioner=preconditioner, tol=tol, max_epochs=most)

    return {
        AUTO: lambda: apviz.Automatic(tol=tol, max_epochs=most),
        "AP, the paper's": lambda: apviz.AlternatingProjection(
            block_size=paper_block_size(system.n), tol=tol, max_epochs=most
        ),
        "A: AP, overlapping": lambda: projection,
        "A, every column": lambda: replace(projection, columns=apviz.solvers.Exact(), fallback_rank=0),
        "B: CG, two-level Schwarz": lambda: gradient(schwarz),
        **({CHOLESKY: lambda: apviz.Cholesky(tol=tol)} if system.n <= CHOLESKY_ROWS else {}),
        "CG": lambda: gradient(),
        "CG, pivoted Cholesky 100": lambda: gradient(apviz.PivotedCholesky(rank=100)),
        "CG, pivoted Cholesky 500": lambda: gradient(apviz.PivotedCholesky(rank=500)),
        "CG, randomly pivoted Cholesky": lambda: gradient(apviz.RandomlyPivotedCholesky(rank=rank)),
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
    before, reached, cell = peak_kib(reset=True), {}, {}
    for tol in TOLERANCES if system.n <= LARGE else TOLERANCES[:2]:
        solver = methods(system, tol)[method]()
        solution, peak = timed(system, solver, limit)
        checked = checked_residual(system, torch.as_tensor(solution.weights))
        spent = {
            "work": round(solution.work, 2), "seconds": round(solution.seconds, 3), "epochs": solution.epochs,
        }  # fmt: skip
        if not cell:
            cell = {"label": solver.method.name, "peak MB": round((peak - before) / 1024), **spent}
        cell |= {"stop": str(solution.stop_reason), "checked residual": checked}
        if not (solution.converged and checked < ROUNDING * tol):
            break
        reached[str(tol)] = spent | {
            "set-up work": round(solution.setup_work, 3), "set-up seconds": round(solution.setup_seconds, 3),
            "checked residual": checked,
        }  # fmt: skip
    return cell | {"reached": reached}


def timed(system: apviz.KernelSystem, solver: Any, limit: float) -> tuple[apviz.Solution, int]:
    """A solve, of a short one that of the median time of five; and KiB at the peak of the first."""
    runs, peak = list[apviz.Solution](), 0
    while not runs or (len(runs) < REPEATS and runs[0].converged and runs[0].seconds < SHORT):
        runs.append(attempt(system, solver, [apviz.StopHook(max_seconds=limit)]))
        peak = peak or peak_kib()
    return sorted(runs, key=lambda one: one.seconds)[len(runs) // 2], peak


def checked_residual(system: apviz.KernelSystem, weights: torch.Tensor) -> float:
    """The mean over right-hand sides of ‖B − KW‖ / ‖B‖, in float64; of random rows where there are many."""
    b, operator = system.given_b.double(), system.operator.in_dtype(torch.float64)
    weights = weights.double().reshape(b.shape)
    if system.n > LARGE:
        rows = torch.randperm(system.n, generator=torch.Generator().manual_seed(0))[:CHECKED_ROWS].sort().values
        fresh = (b[rows] - operator.rows_matmul(rows, weights)) * math.sqrt(system.n / CHECKED_ROWS)
    else:
        fresh = b - operator.matmul(weights)
    return float((fresh.norm(dim=0) / b.norm(dim=0)).mean())


def peak_kib(*, reset: bool = False) -> int:
    """The most memory this process has held since the last reset; Linux counts it."""
    if reset:
        Path("/proc/self/clear_refs").write_text("5")
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def choose(system: apviz.KernelSystem) -> str:
    """What `auto` takes for this system to 0.01."""
    return apviz.Automatic().prepare(system.operator, system.b.shape[1], like=system.b).choices["method"]


def gpytorch_cell(
    system: apviz.KernelSystem, limit: float, ranks: Sequence[int] | None = None, *, stored: bool = False
) -> dict[str, Any]:
    """GPyTorch's CG with its KeOps kernel, or K stored: seconds of an iteration, and of solves where those are short.

    An iteration: three, after one to warm up. Solves to 0.01 with a preconditioner of its default rank, of 100 and of
    500, or of the `ranks`, stopped after the iterations that the limit allows; the fastest that converged counts.
    """
    import gpytorch

    if stored:
        from gpytorch.kernels import MaternKernel
    else:
        from gpytorch.kernels.keops import MaternKernel

    lengthscale = torch.as_tensor(system.kernel.lengthscale).reshape(1, -1)
    inner = MaternKernel(nu=2.5, ard_num_dims=lengthscale.shape[1] if lengthscale.numel() > 1 else None)
    kernel = gpytorch.kernels.ScaleKernel(inner)
    inner.lengthscale, kernel.outputscale = lengthscale, system.kernel.outputscale
    kernel, noise = kernel.to(system.x), torch.tensor(system.noise).to(system.x)
    settings, tol = gpytorch.settings, 0.01

    def solve(iterations: int, rank: int, tolerance: float) -> tuple[float, torch.Tensor]:
        with (
            torch.no_grad(), settings.max_lanczos_quadrature_iterations(1),
            settings.cg_tolerance(tolerance), settings.max_cg_iterations(iterations),
            settings.max_preconditioner_size(rank), warnings.catch_warnings(),
        ):  # fmt: skip
            warnings.simplefilter("ignore")  # that it was stopped
            started = time.perf_counter()
            weights = kernel(system.x).add_diagonal(noise).solve(system.b)
            weights[:1].cpu()  # waits for a GPU
            return time.perf_counter() - started, weights

    seconds = {iterations: solve(iterations, 0, 1e-9)[0] for iterations in (1, 1, 4)}
    # of few rows the difference is noise
    each = max((seconds[4] - seconds[1]) / 3, seconds[4] / 20)
    label = "GPyTorch, K stored" if stored else GPYTORCH
    cell: dict[str, Any] = {"label": label, "seconds an iteration": round(each, 3), "reached": {}, "solves": []}
    if (most := int(limit / each)) < GPYTORCH_LEAST:
        return cell
    for rank in ranks or (settings.max_preconditioner_size.value(), 100, 500):
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
    stop_at: float = math.inf, patience: float = math.inf,
) -> None:  # fmt: skip
    """Measures what is missing until `stop_at`, of the clock `time.monotonic`; starts no cell it could not end."""
    system, hyperparameters = build(dataset, n, rhs)
    path = result_file(dataset, system.n, rhs)
    FOLDER.mkdir(parents=True, exist_ok=True)
    system.operator.prepare()
    about = {
        "dataset": dataset, "n": system.n, "d": system.d, "right-hand sides": rhs, "kernel": system.kernel.name,
        "noise": system.noise, "outputscale": system.kernel.outputscale, "lengthscale": system.kernel.lengthscale,
        "hyperparameters": hyperparameters.provenance,
    }  # fmt: skip
    kept: dict[str, Any] = about | {
        "auto": choose(system), "cells": cells_of_this_system(path, about)
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
        patient = limit_after(kept["cells"].get(AUTO), limit, patience)
        command += ["--limit", str(patient), "--n", str(system.n)]
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
            "limit": round(patient, 1), "machine": describe()
        }  # fmt: skip
        path.write_text(json.dumps(kept, indent=1) + "\n")
        cell = kept["cells"][method]
        print(dataset, system.n, rhs, method, cell["reached"], cell.get("checked residual"), flush=True)


def limit_after(auto: dict[str, Any] | None, limit: float, patience: float) -> float:
    """Seconds that a solve may take, where `auto` took what its cell says."""
    if auto is None or not auto["reached"]:
        return limit
    return min(limit, max(LEAST_LIMIT, patience * max(one["seconds"] for one in auto["reached"].values())))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", nargs="*")
    parser.add_argument("--size", choices=SIZES, default="14k")
    parser.add_argument("--rhs", type=int, default=16)
    parser.add_argument("--limit", type=float, default=40.0, help="seconds a solve may take")
    parser.add_argument("--patience", type=float, default=math.inf, help="times the seconds of auto a solve may take")
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
        run(dataset, SIZES[a.size][dataset], a.rhs, a.limit, a.only, a.again, stop_at, a.patience)


if __name__ == "__main__":
    main()
