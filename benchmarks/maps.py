"""Solves on maps: coloured projections with Fourier products, next to overlapping projections that evaluate entries.

`python -m benchmarks.maps` measures what is missing in `results/maps.json`; names of cases measure these again. Seconds
are those of the processor, of everything from the system on. Each residual is checked on 500 rows by exact entries.
"""

from __future__ import annotations

import json
import resource
import sys
import time
import warnings
from typing import Any

import numpy as np
import torch

import apviz
from apviz.solvers import overlapping
from benchmarks.machine import RESULTS, keep

ROWS = 500
#: data, rows, tolerance, σ² as a share of the outputscale (None: that of the data), right-hand sides
CASES: dict[str, tuple[str, int, float, float | None, int]] = {
    "china": ("china", 218_624, 1e-2, None, 1), "china, 0.001": ("china", 218_624, 1e-3, None, 1),
    "china, 16 sides": ("china", 218_624, 1e-2, None, 16), "tracks": ("tracks", 116_000, 1e-2, None, 1),
    "earth 100000": ("earth", 100_000, 1e-2, None, 1), "earth 100000, 0.001": ("earth", 100_000, 1e-3, None, 1),
    "earth 100000, 16 sides": ("earth", 100_000, 1e-2, None, 16),
    "earth 100000, noise 1e-2": ("earth", 100_000, 1e-2, 1e-2, 1),
    "earth 100000, noise 1e-4": ("earth", 100_000, 1e-2, 1e-4, 1),
    "earth 100000, noise 1e-6": ("earth", 100_000, 1e-2, 1e-6, 1),
    "earth 250000": ("earth", 250_000, 1e-2, None, 1), "earth 1000000": ("earth", 1_000_000, 1e-2, None, 1),
    "earth 1000000, 0.001": ("earth", 1_000_000, 1e-3, None, 1), "earth 3000000": ("earth", 3_000_000, 1e-2, None, 1),
    "earth 7400000": ("earth", 7_400_000, 1e-2, None, 1),
}  # fmt: skip
#: cases for which overlapping projections are measured too
BOTH = ("china", "tracks", "earth 100000")


def tracks(n: int) -> tuple[torch.Tensor, torch.Tensor, apviz.Matern52, float]:
    """Invented measurements along 200 straight lines through the unit square: dense along lines, sparse across."""
    rng, lines = np.random.default_rng(0), 200
    start, angle = rng.uniform(0, 1, (lines, 2)), rng.uniform(0, np.pi, lines)
    along = rng.uniform(-0.5, 0.5, (lines, n // lines))
    x = np.stack([start[:, :1] + along * np.cos(angle)[:, None], start[:, 1:] + along * np.sin(angle)[:, None]], -1)
    x = x.reshape(-1, 2) + rng.normal(0, 1e-4, (lines * (n // lines), 2))
    y = np.sin(9 * x[:, 0]) * np.cos(7 * x[:, 1]) + 0.5 * np.sin(31 * x[:, 0] + 17 * x[:, 1])
    y += 0.1 * rng.normal(size=len(x))
    return torch.from_numpy(x), torch.from_numpy(y - y.mean()), apviz.Matern52(lengthscale=0.1, outputscale=0.8), 0.01


def problem(name: str, n: int) -> tuple[torch.Tensor, torch.Tensor, apviz.Matern52, float]:
    """Inputs, targets, kernel and σ² of a data set, with its own hyperparameters and Matérn-5/2."""
    if name == "tracks":
        return tracks(n)
    data = apviz.datasets.load(name, n=n)
    h = data.card.hyperparameters
    kernel = apviz.Matern52(lengthscale=h.lengthscale, outputscale=h.outputscale)
    return data.train_x.double(), data.train_y.double() - h.mean, kernel, h.noise


def residual_on_rows(system: apviz.KernelSystem, b: torch.Tensor, weights: torch.Tensor) -> float:
    """Estimate the mean over right-hand sides of ‖b − Kw‖/‖b‖ from random rows, by exact entries in float64."""
    rows = torch.randperm(len(b), generator=torch.Generator().manual_seed(1))[:ROWS]
    left = b[rows] - system.operator.exact().rows_matmul(rows, weights.double())
    return float((left.square().mean(0) / b.square().mean(0)).sqrt().mean())


def measure(case: str, solver: apviz.solvers.Solver) -> dict[str, Any]:
    """Measure one solve of one case."""
    name, n, _, share, sides = CASES[case]
    x, y, kernel, noise = problem(name, n)
    noise = noise if share is None else share * kernel.outputscale
    b = y[:, None]
    if sides > 1:
        random = torch.randn(len(y), sides - 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        b = torch.cat([b, random], 1)
    dtype = torch.float64 if share is not None and share < 1e-3 else torch.float32
    started, wall = time.process_time(), time.perf_counter()
    system = apviz.KernelSystem(x, b, kernel, noise=noise, dtype=dtype, device="cpu")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        solution = apviz.solve(system, solver)
    seconds, wall = time.process_time() - started, time.perf_counter() - wall
    certificate = solution.certificate
    checked = residual_on_rows(system, b, solution.weights.reshape(b.shape))
    return {
        "n": len(x), "sides": sides, "tol": solver.tol, "seconds": round(seconds, 1), "wall": round(wall, 1),
        "setup": round(solution.setup_seconds, 1), "epochs": solution.epochs, "ended": str(solution.stop_reason),
        "residual": float(f"{solution.residual:.2g}"), "certificate": certificate.kind if certificate else None,
        f"residual on {ROWS} rows": float(f"{checked:.2g}"), "threads": torch.get_num_threads(),
        "peak GB": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6, 1),
    }  # fmt: skip


def main() -> None:
    path = RESULTS / "maps.json"
    results = json.loads(path.read_text())["results"] if path.exists() else {}
    for case in sys.argv[1:] or [each for each in CASES if each not in results]:
        tol = CASES[case][2]
        found = {"automatic": measure(case, apviz.Automatic(tol=tol))}
        if case in BOTH:
            found["overlapping"] = measure(case, overlapping(tol=tol))
        results[case] = found
        print(case, json.dumps(found), flush=True)
        keep("maps", results, show=False)


if __name__ == "__main__":
    main()
