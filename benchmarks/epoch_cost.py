"""Compare an epoch of alternating projection with an iteration of CG, and measure the overhead of recording.

Both on the same tiled operator with 16 right-hand sides. Goals: an epoch of a disjoint partition at most 1.15 CG
iterations; recording everything at most 2%, over a whole solve. Runs alternate; a figure is a ratio of medians.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

import torch

import apviz
from apviz.solvers import Epoch, Run, Update, attempt
from benchmarks.machine import keep

REPEATS = 3
# n, d, block size, epochs
CASES = ((13_696, 2, 250, 30), (13_696, 2, 1000, 30), (40_000, 13, 1000, 8))
TOL = 1e-12  # never reached: every solve runs all its epochs


class TimedRecorder(apviz.Recorder):
    """A recorder that sums the time spent in it, which the noise between two solves would hide."""

    inside = 0.0

    def _timed(self, name: str, *arguments: object) -> None:
        started = time.perf_counter()
        getattr(super(), name)(*arguments)
        self.inside += time.perf_counter() - started

    def on_start(self, run: Run) -> None:
        self._timed("on_start", run)

    def on_update(self, update: Update) -> None:
        self._timed("on_update", update)

    def on_epoch(self, epoch: Epoch) -> None:
        self._timed("on_epoch", epoch)

    def on_stop(self, solution: apviz.Solution) -> None:
        self._timed("on_stop", solution)


def loop_seconds(system: apviz.KernelSystem, solver: object, hooks: list[apviz.Hook]) -> float:
    """Return the time in the solver's loop, without set-up."""
    solution = attempt(system, solver, hooks)  # type: ignore[arg-type]
    return solution.seconds - solution.setup_seconds


def main() -> None:
    results = []
    for n, d, b, epochs in CASES:
        generator = torch.Generator().manual_seed(0)
        x = 2 * torch.rand(n, d, generator=generator) - 1
        rhs = torch.randn(n, 16, generator=generator)
        system = apviz.KernelSystem(x, rhs, apviz.Matern52(lengthscale=0.2 * d**0.5), noise=0.1, operator="tiled")
        system.operator.prepare()
        projection = apviz.AlternatingProjection(block_size=b, tol=TOL, max_epochs=epochs)
        gradient = apviz.ConjugateGradient(tol=TOL, max_epochs=epochs)
        shares: list[float] = []
        times: dict[str, list[float]] = {"cg": [], "ap": [], "ap recorded": [], "ap recorded to disk": []}
        with tempfile.TemporaryDirectory() as folder:
            for k in range(REPEATS + 1):
                path = Path(folder) / f"{k}.zarr"
                found = {
                    "cg": loop_seconds(system, gradient, []),
                    "ap": loop_seconds(system, projection, []),
                    "ap recorded": loop_seconds(system, projection, [apviz.Recorder()]),
                    "ap recorded to disk": loop_seconds(system, projection, [recorder := TimedRecorder(path)]),
                }
                shares.append(recorder.inside / (found["ap recorded to disk"]))
                if k:  # the first round warms caches
                    for name, seconds in found.items():
                        times[name].append(seconds)
        median = {name: statistics.median(values) for name, values in times.items()}
        results.append(
            {
                "n": n, "d": d, "block size": b, "epochs": epochs,
                "seconds an epoch": {name: round(value / epochs, 4) for name, value in median.items()},
                "AP epoch over CG iteration": round(median["ap"] / median["cg"], 3),
                "recording in memory over none": round(median["ap recorded"] / median["ap"], 3),
                "recording to disk over none": round(median["ap recorded to disk"] / median["ap"], 3),
                "time inside the recorder over the solve's": round(statistics.median(shares[1:]), 4),
            }
        )  # fmt: skip
    keep("epoch_cost", results)


if __name__ == "__main__":
    main()
