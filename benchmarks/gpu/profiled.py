"""Stage d: launches, host synchronisations and bytes of a solve, per update and per epoch, and how long the card idles.

Counts are of torch.profiler's events of the device and of CUDA's runtime; each solve runs with and without a recorder,
first unprofiled for its seconds.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import apviz
from apviz.solvers import attempt
from benchmarks.gpu.report import Cell, Report
from benchmarks.gpu.timing import synchronize

N, TINY_N, D, SIDES = 50_000, 600, 13, 16
#: epochs that are profiled
EPOCHS, ITERATIONS = 3, 20
#: calls of CUDA's runtime that wait for the device
WAITING = ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize", "cudaMemcpy")
ON_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")


class UpdateCounter(apviz.Hook):
    """Counts updates and epochs; it reads no tensor."""

    def __init__(self) -> None:
        self.updates = self.epochs = 0

    def on_update(self, update: Any) -> None:
        self.updates += 1

    def on_epoch(self, epoch: Any) -> None:
        self.epochs += 1


def run(report: Report) -> None:
    n = TINY_N if report.tiny else N
    system = None

    def made() -> apviz.KernelSystem:
        nonlocal system
        if system is None:
            generator = torch.Generator().manual_seed(0)
            x = 2 * torch.rand(n, D, generator=generator) - 1
            b = torch.randn(n, SIDES, generator=generator)
            system = apviz.KernelSystem(x, b, apviz.Matern52(lengthscale=0.7), noise=0.05, device=report.device)
            system.operator.prepare(SIDES)
        return system

    for name, solver in solvers(n).items():
        for recorded in (False, True):
            with_hooks = "with a recorder" if recorded else "without hooks"
            report.measure(
                f"{name}, {with_hooks}", lambda s=solver, r=recorded: profile(made(), s, r, report.device), 3.0
            )


def solvers(n: int) -> dict[str, Callable[[], Any]]:
    """Return the solvers, each of a few epochs."""
    size = 1_500 if n == N else 100
    few = {"tol": 1e-6, "max_epochs": EPOCHS}
    return {
        "AP, the paper's": lambda: apviz.AlternatingProjection(block_size=size, **few),
        "AP, cyclic": lambda: apviz.AlternatingProjection(block_size=size, rule="cyclic", **few),
        "auto": lambda: apviz.Automatic(tol=1e-3, max_epochs=EPOCHS),
        "CG": lambda: apviz.ConjugateGradient(tol=1e-6, max_epochs=ITERATIONS),
    }


def profile(system: apviz.KernelSystem, make: Callable[[], Any], recorded: bool, device: str) -> Cell:
    """Return seconds of an unprofiled solve and counts of a profiled one."""

    def hooks() -> list[Any]:
        return [UpdateCounter(), *([apviz.Recorder()] if recorded else [])]

    attempt(system, make(), hooks())  # compiles, and fills caches
    synchronize(device)
    counter, *others = hooks()
    solution = attempt(system, make(), [counter, *others])
    cell: Cell = {
        "n": system.n, "sides": SIDES, "engine": system.operator.engine, "solver": make().method.name,
        "seconds": solution.seconds, "set-up seconds": solution.setup_seconds, "updates": counter.updates,
        "epochs": counter.epochs, "stop": str(solution.stop_reason),
    }  # fmt: skip
    if device != "cuda":
        why = "not measured on a CPU"
        return cell | {"launches": why, "synchronisations": why, "idle": why, "summary": f"{why}; solved"}
    return cell | counts(lambda: attempt(system, make(), hooks()), counter)


def counts(solve: Callable[[], object], counter: UpdateCounter) -> Cell:
    """Profile a solve on the device."""
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as profiler

    with profiler(activities=[ProfilerActivity.CUDA]) as found:
        solve()
        torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        found.export_chrome_trace(str(path))
        events = json.loads(path.read_text())["traceEvents"]
    return summed(events, counter.updates, counter.epochs)


def summed(events: list[dict[str, Any]], updates: int, epochs: int) -> Cell:
    """Sum the events of a trace: launches, synchronisations, bytes, and the share of time without any work."""
    device = [event for event in events if event.get("cat") in ON_DEVICE]
    kernels = [event for event in device if event["cat"] == "kernel"]
    copies = [event for event in device if event["cat"] == "gpu_memcpy"]
    to_host = [event for event in copies if "DtoH" in event["name"]]
    runtime = [event for event in events if event.get("cat") in ("cuda_runtime", "cuda_driver")]
    waits = [event for event in runtime if event["name"] in WAITING]
    spans = sorted((float(event["ts"]), float(event["ts"]) + float(event["dur"])) for event in device)
    busy, span = union(spans)
    total: Cell = {
        "launches": len(kernels), "synchronisations": len(waits), "copies to the host": len(to_host),
        "bytes copied": sum(int(event.get("args", {}).get("bytes", 0)) for event in copies),
        "bytes to the host": sum(int(event.get("args", {}).get("bytes", 0)) for event in to_host),
    }  # fmt: skip
    longest: dict[str, float] = {}
    for event in kernels:
        longest[event["name"][:80]] = longest.get(event["name"][:80], 0.0) + float(event["dur"]) / 1e6
    idle = 1 - busy / span if span else float("nan")
    shares = {
        f"per {what}": {name: round(value / number, 2) for name, value in total.items()}
        for what, number in (("update", updates), ("epoch", epochs)) if number
    }  # fmt: skip
    per = shares.get("per update", {})
    return {
        "total": total, **shares, "profiled seconds": span / 1e6, "busy seconds": busy / 1e6, "idle": round(idle, 4),
        "kernels by seconds": dict(sorted(longest.items(), key=lambda item: -item[1])[:12]),
        "summary": f"an update: {per.get('launches', 0):g} launches, {per.get('synchronisations', 0):g} waits; "
                   f"the card idles {idle:.0%}",
    }  # fmt: skip


def union(spans: list[tuple[float, float]]) -> tuple[float, float]:
    """Return the length of the union of sorted intervals, and from the first begin to the last end."""
    busy, end = 0.0, float("-inf")
    for begin, stop in spans:
        busy += max(0.0, stop - max(begin, end))
        end = max(end, stop)
    return busy, end - spans[0][0] if spans else 0.0
