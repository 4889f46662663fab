"""Peak memory of a solve beyond inputs, right-hand sides and cached factors: at most 8 n×(l+1) arrays and 200 MB.

Read from the kernel's high-water mark, which is reset before the solve (Linux). `--advice`: the same next to what
`apviz.advise` says of its methods, on registered sets.
"""

from __future__ import annotations

import math
import multiprocessing
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import torch

import apviz
from apviz import comparison
from apviz.analysis.sweeps import factor_bytes
from apviz.partitions import KDTree
from apviz.solvers import Cholesky, Solver, attempt
from benchmarks.machine import keep

ARRAYS, FIXED_MB = 8, 200
CASES = (
    (100_000, apviz.AlternatingProjection(block_size=1000, tol=1e-12, max_epochs=1)),
    (60_000, apviz.AlternatingProjection(block_size=6000, tol=1e-12, max_epochs=1, check_every=1)),
    (60_000, apviz.AlternatingProjection(block_size=500, partition=KDTree(overlap=1.0), tol=1e-12, max_epochs=1)),
    (100_000, apviz.ConjugateGradient(tol=1e-12, max_epochs=2)),
)

#: data set, rows, right-hand sides
ADVISED = (
    ("china", 14_000, 1), ("sgemm", 14_000, 16), ("airquality", 14_000, 16), ("protein", 36_000, 16),
    ("sgemm", 50_000, 1), ("airquality", 50_000, 16),
)  # fmt: skip


def memory_mb(field: str) -> float:
    status = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in status if line.startswith(field)).split()[1]) / 1024


def measure(case: int) -> dict[str, object]:
    n, solver = CASES[case]
    generator = torch.Generator().manual_seed(0)
    x = 2 * torch.rand(n, 13, generator=generator) - 1
    b = torch.randn(n, 16, generator=generator)
    system = apviz.KernelSystem(x, b, apviz.Matern52(lengthscale=0.7), noise=0.1, operator="tiled")
    system.operator.prepare()
    attempt(
        apviz.KernelSystem(x[:9], b[:9], apviz.Matern52(lengthscale=0.7), noise=0.1), apviz.Cholesky()
    )  # loads LAPACK
    recorder = apviz.Recorder()
    Path("/proc/self/clear_refs").write_text("5")
    before = memory_mb("VmRSS")
    attempt(system, solver, [recorder])
    trace = recorder.trace
    factors = 0.0 if math.isnan(held := factor_bytes(trace)) else held / 2**20
    array = n * 16 * 4 / 2**20
    return {
        "method": solver.method.name,
        "n": n,
        "factors, MB": round(factors),
        "beyond, MB": round(memory_mb("VmHWM") - before - factors),
        "allowed, MB": round(ARRAYS * array + FIXED_MB),
        "one n×(l+1) array, MB": round(array, 1),
    }


def registered(name: str, n: int, sides: int) -> apviz.KernelSystem:
    data = apviz.datasets.load(name, n=n)
    system = comparison.build_system(data, comparison.choose_hyperparameters(data), rhs=sides, operator="tiled")
    system.operator.prepare()
    return system


def said(name: str, n: int, sides: int) -> dict[str, tuple[Solver, float]]:
    """What advice says of the methods that it has rehearsed to their end: MB of each."""
    methods = apviz.advise(registered(name, n, sides), max_epochs=400, thorough=True).methods
    return {
        method: (each.solver, each.memory / 2**20)
        for method, each in methods.items()
        if (each.is_bounded or isinstance(each.solver, Cholesky)) and each.memory < 8e9
    }


def taken(name: str, n: int, sides: int, solver: Solver) -> float:
    """MB beyond the system at the highest."""
    warnings.simplefilter("ignore")
    system, small = registered(name, n, sides), registered(name, 500, sides)
    for first in (Cholesky(), apviz.AlternatingProjection(block_size=100, partition=KDTree(overlap=0.5), tol=0.1)):
        attempt(small, first)  # loads what a first solve loads
    Path("/proc/self/clear_refs").write_text("5")
    before = memory_mb("VmRSS")
    attempt(system, replace(solver, tol=1e-2))  # type: ignore[call-arg]
    return memory_mb("VmHWM") - before


def advised() -> None:
    """Writes `results/advised_memory.json`."""
    rows = []
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        for system in ADVISED:
            for method, (solver, mb) in pool.apply(said, system).items():
                took = pool.apply(taken, (*system, solver))
                rows.append({
                    "set": system[0], "n": system[1], "right-hand sides": system[2], "method": method,
                    "said, MB": round(mb), "took, MB": round(took), "said ÷ took": round(mb / took, 2),
                })  # fmt: skip
                print(rows[-1], flush=True)
    keep("advised_memory", rows)


def main() -> None:
    if sys.argv[1:] == ["--advice"]:
        advised()
        return
    # a process each: memory that an earlier case freed but kept would hide what the next one takes
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        keep("memory", pool.map(measure, range(len(CASES)), chunksize=1))


if __name__ == "__main__":
    main()
