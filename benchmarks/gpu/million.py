"""Stage g: the earth's relief to 0.01 on the GPU, up to a million rows, and a small size on the same machine's CPU."""

from __future__ import annotations

from dataclasses import replace

import torch

import apviz
from apviz import comparison, datasets
from apviz.solvers import attempt, overlapping
from benchmarks.earth import DENSE, TOL
from benchmarks.gpu.report import Cell, Report
from benchmarks.gpu.timing import synchronize

N, SMALL, TINY, WARM_UP = 1_000_000, 60_000, 600, 30_000
#: seconds that a million rows and the CPU's part need at least
SECONDS, CPU_SECONDS = 8.0, 5.0


def run(report: Report) -> None:
    if not datasets.is_here("earth"):
        report.skip("earth", "the earth's relief is not in APVIZ_DATA")
        return
    small, large = (TINY, 2 * TINY) if report.tiny else (SMALL, N)
    device = report.device
    report.measure(f"n={small:,} on {device}", lambda: solve(small, device, report.seconds_left()))
    report.measure(
        f"n={large:,} on {device}", lambda: solve(large, device, report.seconds_left() - CPU_SECONDS), SECONDS
    )
    if device != "cpu":
        report.measure(f"n={small:,} on cpu", lambda: solve(small, "cpu", report.seconds_left()), CPU_SECONDS / 2)


def warm_up(data: apviz.datasets.Dataset, hyperparameters: apviz.Hyperparameters, device: str) -> None:
    """Solve for some of the rows, so that everything is compiled."""
    few = replace(data, train_x=data.train_x[:WARM_UP], train_y=data.train_y[:WARM_UP])
    small = comparison.build_system(few, hyperparameters, rhs=1, device=device)
    attempt(small, overlapping(tol=0.5, max_epochs=2))


def solve(n: int, device: str, seconds: float) -> Cell:
    """Return the seconds to 0.01, at the hyperparameters of a fit to neighbouring rows."""
    data = apviz.datasets.load("earth", n=n)
    hyperparameters = comparison.choose_hyperparameters(data, **DENSE)
    system = comparison.build_system(data, hyperparameters, rhs=1, device=device)
    warm_up(data, hyperparameters, device)
    synchronize(device)
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    solution = attempt(system, apviz.Automatic(tol=TOL), [apviz.StopHook(max_seconds=max(1.0, seconds))])
    peak = torch.cuda.max_memory_allocated() / 2**30 if device == "cuda" else None
    text = f"{solution.seconds:.3g} s, residual {solution.residual:.3g}"
    return {
        "n": n, "threads": torch.get_num_threads(), "engine": system.operator.engine, "seconds": solution.seconds,
        "set-up seconds": solution.setup_seconds, "work": solution.work, "residual": solution.residual,
        "residual is measured": solution.residual_is_measured, "converged": solution.converged, "peak_gib": peak,
        "summary": text + ("" if solution.converged else f", NOT CONVERGED: {solution.stop_message}"),
    }  # fmt: skip
