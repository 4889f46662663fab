"""Solve maps that are hard for coloured projections: little noise, short to long lengthscales, rough to smooth kernels.

100,000 rows in the unit square, in clusters or on a grid, to 0.01 by `Automatic`, in float64, one thread. Each case has
a process of its own, which ends after `--limit` seconds of the processor. `results/hard_maps.json` has how each solve
ended, its residual as claimed and on 500 rows by exact entries, and what it warned of. A case that is there is not
measured again.

    OMP_NUM_THREADS=1 python -m benchmarks.hard_maps [--limit 400] [--within 540]
"""

from __future__ import annotations

import argparse
import itertools
import json
import resource
import subprocess
import sys
import time
import warnings
from typing import Any

import numpy as np
import torch

import apviz
from benchmarks.machine import RESULTS, keep
from benchmarks.maps import ROWS, residual_on_rows

NAME, N, TOL = "hard_maps", 100_000, 1e-2
KERNELS = {"Matérn-1/2": apviz.Matern12, "Matérn-5/2": apviz.Matern52, "RBF": apviz.RBF}
#: inputs, kernel, lengthscale, σ² as a share of the outputscale
CASES = {
    f"{inputs}, {kernel}, lengthscale {lengthscale:g}, noise {noise:g}": (inputs, kernel, lengthscale, noise)
    for noise, lengthscale, kernel, inputs in itertools.product(
        (1e-4, 1e-6), (0.02, 0.1, 0.3), KERNELS, ("clustered", "gridded")
    )
}


def points(inputs: str) -> np.ndarray:
    """Return inputs (n, 2): 50 clusters of different width, or a square grid."""
    rng = np.random.default_rng(43)
    if inputs == "gridded":
        side = round(N**0.5)
        return np.stack(np.meshgrid(*2 * [np.linspace(0, 1, side)]), -1).reshape(-1, 2)
    centres, widths = rng.uniform(0, 1, (50, 2)), 10 ** rng.uniform(-2.5, -1, 50)
    of = rng.integers(50, size=N)
    return centres[of] + widths[of, None] * rng.standard_normal((N, 2))


def measure(case: str) -> dict[str, Any]:
    """Solve one case."""
    inputs, kernel, lengthscale, noise = CASES[case]
    x = points(inputs)
    rng = np.random.default_rng(0)
    waves, phases = rng.standard_normal((20, 2)) / lengthscale, rng.uniform(0, 2 * np.pi, 20)
    y = np.cos(x @ waves.T + phases).sum(1) / 10**0.5 + noise**0.5 * rng.standard_normal(len(x))
    b = torch.from_numpy(y - y.mean())[:, None]
    started = time.process_time()
    system = apviz.KernelSystem(
        torch.from_numpy(x), b, KERNELS[kernel](lengthscale=lengthscale), noise=noise, dtype=torch.float64, device="cpu"
    )
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        solution = apviz.solve(system, apviz.Automatic(tol=TOL))
    seconds, certificate = time.process_time() - started, solution.certificate
    return {
        "seconds": round(seconds, 1), "ended": str(solution.stop_reason), "epochs": solution.epochs,
        "residual": float(f"{solution.residual:.2g}"), "certificate": certificate.kind if certificate else None,
        f"residual on {ROWS} rows": float(f"{residual_on_rows(system, b, solution.weights.reshape(b.shape)):.2g}"),
        "message": solution.stop_message, "warnings": sorted({str(each.message)[:200] for each in said}),
        "peak GB": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6, 1),
    }  # fmt: skip


def in_process(case: str, limit: int) -> dict[str, Any]:
    """Solve one case in a process of its own, which is killed after `limit` seconds of the processor."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.hard_maps", "--case", case], capture_output=True, text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5)),
    )  # fmt: skip
    if done.returncode < 0:
        return {"unfinished": limit}
    if done.returncode:
        return {"failed": done.stderr.strip().splitlines()[-1][:300]}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--limit", type=int, default=400, help="seconds of the processor that a case may take")
    parser.add_argument("--within", type=float, default=540, help="seconds after which no case is begun")
    parser.add_argument("--case", help="solve this case alone, in this process")
    asked = parser.parse_args()
    if asked.case:
        torch.set_num_threads(1)
        print(json.dumps(measure(asked.case)))
        return
    path, began = RESULTS / f"{NAME}.json", time.monotonic()
    cases = json.loads(path.read_text())["results"] if path.exists() else {}
    for case in CASES:
        if case in cases:
            continue
        if time.monotonic() - began > asked.within:
            print("time is up; run it again to continue")
            return
        cases[case] = in_process(case, asked.limit)
        keep(NAME, cases, show=False)
        print(case, json.dumps(cases[case]), flush=True)


if __name__ == "__main__":
    main()
