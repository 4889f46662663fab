"""Compare ferreus_rbf (FGMRES, domain decomposition, a fast multipole method in Rust) with `Automatic` on maps.

    pip install ferreus_rbf
    python -m benchmarks.ferreus

Matern-1/2, which is its `Exponential` kernel, with lengthscales and outputscales of a fit to 2,000 rows; one right-hand
side, to 0.01, each in a process of its own with one thread. Seconds are those of the processor. Residuals are checked
on 500 rows by exact entries; ferreus_rbf tests a residual of its own, and is asked for less until 0.01 holds.
"""

from __future__ import annotations

import importlib.util
import json
import os
import resource
import subprocess
import sys
import time
import warnings
from importlib import metadata
from typing import Any

import numpy as np
import torch
from torch import Tensor

import apviz
from benchmarks.machine import describe, keep
from benchmarks.maps import problem, residual_on_rows

#: rows, lengthscale, outputscale, noise: those of the fit, but 0.01 where it wants none
MAPS = {
    "china": (100_000, 0.723, 0.995, 0.0964),
    "tracks": (116_000, 0.226, 0.525, 0.01),
    "earth": (100_000, 0.147, 0.596, 0.01),
}
METHODS = ("auto", "ferreus_rbf")
TOL = 1e-2
#: what ferreus_rbf is asked for, in turn
ASKED = (1e-2, 5e-3, 2e-3, 1e-3, 5e-4)
#: the lengthscale of exp(-3r)
EXPONENTIAL = 1 / 3


def by_ferreus(x: Tensor, y: Tensor, kernel: apviz.Matern12, noise: float, tol: float) -> Tensor:
    """Solve by ferreus_rbf to a residual by its own measure; its nugget is σ² as a share of the outputscale."""
    from ferreus_rbf import RBFInterpolator
    from ferreus_rbf import interpolant_config as config

    points = np.ascontiguousarray(x.numpy() * EXPONENTIAL / np.asarray(kernel.lengthscale))
    accuracy = config.FittingAccuracy(tol, config.FittingAccuracyType.Relative)
    settings = config.InterpolantSettings(
        config.RBFKernelType.Exponential, drift=config.Drift.None_, nugget=noise / kernel.outputscale,
        fitting_accuracy=accuracy,
    )  # fmt: skip
    fitted = RBFInterpolator(points, y.numpy(), settings)
    return torch.from_numpy(fitted.coefficients.point_coefficients) / kernel.outputscale


def by_apviz(x: Tensor, y: Tensor, kernel: apviz.Matern12, noise: float, tol: float) -> Tensor:
    """Solve by `Automatic`, in float32."""
    system = apviz.KernelSystem(x, y, kernel, noise=noise, dtype=torch.float32, device="cpu")
    return apviz.solve(system, apviz.Automatic(tol=tol)).weights.reshape(-1, 1)


def measure(name: str, method: str) -> dict[str, Any]:
    """Measure one solve."""
    n, lengthscale, outputscale, noise = MAPS[name]
    x, y, _, _ = problem(name, n)
    kernel = apviz.Matern12(lengthscale=lengthscale, outputscale=outputscale)
    exact = apviz.KernelSystem(x, y, kernel, noise=noise, dtype=torch.float32, device="cpu")
    solved = by_apviz if method == "auto" else by_ferreus
    warnings.simplefilter("ignore")
    solved(x[:4_000], y[:4_000], kernel, noise, 0.5)  # compiles and imports
    for asked in (TOL,) if method == "auto" else ASKED:
        started, wall = time.process_time(), time.perf_counter()
        weights = solved(x, y, kernel, noise, asked)
        seconds, wall = time.process_time() - started, time.perf_counter() - wall
        residual = residual_on_rows(exact, y[:, None], weights)
        if residual <= TOL:
            break
    return {
        "data": name, "method": method, "n": len(x), "seconds": round(seconds, 1), "wall": round(wall, 1),
        "asked": asked, "residual on 500 rows": float(f"{residual:.2g}"),
        "peak GB": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6, 1),
    }  # fmt: skip


def main() -> int:
    if len(sys.argv) > 1:
        print(json.dumps(measure(*sys.argv[1:])))
        return 0
    if importlib.util.find_spec("ferreus_rbf") is None:
        print("ferreus_rbf is not installed, and nothing is measured: pip install ferreus_rbf", file=sys.stderr)
        return 0
    machine, rows = describe() | {"threads": 1}, []
    machine["versions"]["ferreus_rbf"] = metadata.version("ferreus_rbf")
    environment = os.environ | {"OMP_NUM_THREADS": "1", "RAYON_NUM_THREADS": "1"}
    for name in MAPS:
        for method in METHODS:
            command = [sys.executable, "-m", "benchmarks.ferreus", name, method]
            done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
            rows.append(json.loads(done.stdout.splitlines()[-1]))
            print(rows[-1], flush=True)
            keep("ferreus", {"tol": TOL, "rows": rows}, machine, show=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
