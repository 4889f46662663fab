"""Peak memory of a solve beyond inputs, right-hand sides and cached factors: at most 8 n×(l+1) arrays and 200 MB.

Read from the kernel's high-water mark, which is reset before the solve (Linux).
"""

from __future__ import annotations

import math
import multiprocessing
from pathlib import Path

import torch

import apviz
from apviz.analysis.sweeps import factor_bytes
from apviz.solvers import attempt
from benchmarks.machine import keep

ARRAYS, FIXED_MB = 8, 200
CASES = (
    (100_000, apviz.AlternatingProjection(block_size=1000, tol=1e-12, max_epochs=1)),
    (60_000, apviz.AlternatingProjection(block_size=6000, tol=1e-12, max_epochs=1, check_every=1)),
    (60_000, apviz.AlternatingProjection(block_size=500, partition="kd-tree", overlap=1.0, tol=1e-12, max_epochs=1)),
    (100_000, apviz.ConjugateGradient(tol=1e-12, max_epochs=2)),
)


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
        "method": solver.label,
        "n": n,
        "factors, MB": round(factors),
        "beyond, MB": round(memory_mb("VmHWM") - before - factors),
        "allowed, MB": round(ARRAYS * array + FIXED_MB),
        "one n×(l+1) array, MB": round(array, 1),
    }


def main() -> None:
    # a process each: memory that an earlier case freed but kept would hide what the next one takes
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        keep("memory", pool.map(measure, range(len(CASES)), chunksize=1))


if __name__ == "__main__":
    main()
