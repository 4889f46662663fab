"""Ranks: what a pass and an epoch take on one process and on two, a model of it, and where the model stops scaling.

    python -m benchmarks.ranks                 # measures, writes results/ranks.json
    python -m benchmarks.ranks --plan          # prints the table to 1,024 GPUs from the model alone

The model of an update: the rank with the factor solves, 2 b² p operations; every rank evaluates n b / P entries; and
four messages, each of a latency and its bytes by the bandwidth. Of a pass: n² / P entries, and P messages of W's rows.
Its numbers are measured apart from what they predict: entries with all ranks at it and no messages, messages of two
sizes, triangular solves of one block.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import torch
import typer

import apviz
from apviz import distributed
from benchmarks.machine import describe, keep

N, BLOCK, SIDES, INPUTS = 50_000, 1_000, 17, 8
UPDATES, PASSES = 50, 2  # one epoch


@dataclass(frozen=True)
class Model:
    """Of one machine, per rank.

    Attributes:
        entries: evaluated and used in a second, of `sides` columns.
        flops: of a triangular solve in a second.
        latency: seconds of the shortest message.
        bandwidth: bytes a second of a long one.
    """

    entries: float
    flops: float
    latency: float
    bandwidth: float

    def update(self, n: float, b: float, p: int, ranks: int) -> dict[str, float]:
        """Seconds of an update by what takes them."""
        steps = max(1.0, math.log2(ranks)) if ranks > 1 else 0.0
        sizes = (4 * b * p, 4 * b * p, 8 * p, 4 * p * n / b)
        return {
            "solve": 2 * b**2 * p / self.flops,
            "entries": n * b / ranks / self.entries,
            "messages": sum(self.latency * steps + size / self.bandwidth * (ranks > 1) for size in sizes),
        }

    def product(self, n: float, p: int, ranks: int) -> float:
        """Seconds of an exact pass."""
        steps = max(1.0, math.log2(ranks)) if ranks > 1 else 0.0
        return n**2 / ranks / self.entries + ranks * self.latency * steps + 8 * n * p / self.bandwidth * (ranks > 1)


#: an H100 by `benchmarks.roofline`'s bound for 9 inputs and 16 sides; flops of triangular solves, the network's latency
#: and bandwidth are assumed, of NVLink and InfiniBand as they are sold
PLANNED = Model(entries=0.7e12, flops=1e13, latency=5e-6, bandwidth=4e10)


def system() -> apviz.KernelSystem:
    """Random points, for which what is timed depends on n, d and p alone."""
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(N, INPUTS, generator=generator)
    b = torch.randn(N, SIDES, generator=generator)
    kernel = apviz.Matern52(lengthscale=0.5)
    return apviz.KernelSystem(x, b, kernel, noise=0.1, dtype=torch.float32, operator="tiled", device="cpu")


def best(of: Callable[[], Any], times: int = 3) -> float:
    """The least seconds of a few."""
    found = []
    for _ in range(times):
        started = time.perf_counter()
        of()
        found.append(time.perf_counter() - started)
    return min(found)


class Epochs(apviz.Hook):
    """Seconds of each epoch, by the clock of the wall."""

    def __init__(self) -> None:
        self.at: list[float] = []

    def on_epoch(self, epoch: Any) -> None:
        self.at.append(time.perf_counter())


def work(out: Path) -> None:
    """Measures on this process, or on this rank of a job."""
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    ranks = distributed.init() if "RANK" in os.environ else None
    problem = system()
    operator = problem.operator
    operator.prepare()
    size = 1 if ranks is None else ranks.size
    sharded = operator.sharded()
    here = sharded.layout.local(problem.b)
    solver = apviz.AlternatingProjection(block_size=BLOCK, tol=1e-9, max_epochs=3, rule="cyclic")
    prepared, epochs = solver.prepare(operator), Epochs()
    apviz.solvers.attempt(problem, solver, [epochs], prepared=prepared)
    exact = sharded.exact()
    w = here.double()
    found: dict[str, Any] = {
        "ranks": size, "threads": torch.get_num_threads(),
        # of the third a pass is part
        "epoch": min(b - a for a, b in zip(epochs.at[:2], epochs.at[1:3], strict=True)),
        "pass": best(lambda: sharded.matmul(here), PASSES), "pass in float64": best(lambda: exact.matmul(w), 1),
    }  # fmt: skip
    rows, u = operator.inputs[:BLOCK], torch.randn(BLOCK, SIDES)
    local = operator.inputs[(0 if ranks is None else ranks.rank) :: size].contiguous()
    r = torch.zeros(len(local), SIDES)
    engine = operator if ranks is None else operator._engine
    if ranks is not None:
        ranks.meet()
    seconds = best(lambda: [engine._accumulate(r, local, rows, u) for _ in range(10)], 3) / 10
    found["entries"] = len(local) * BLOCK / seconds
    assert prepared.factors is not None
    block = size - 1 if ranks is None else ranks.rank
    found["solve"] = best(lambda: [prepared.factors.solve(block, u) for _ in range(10)], 3) / 10
    if ranks is not None:
        short, long = torch.zeros(SIDES), torch.zeros(1_000_000)
        ranks.meet()
        found["short"] = best(lambda: [ranks.broadcast_(short, 0) for _ in range(200)]) / 200
        found["short sum"] = best(lambda: [ranks.sum_(short) for _ in range(200)]) / 200
        found["long"] = best(lambda: [ranks.broadcast_(long, 0) for _ in range(20)]) / 20
        before = (ranks.traffic.messages, ranks.traffic.bytes)
        apviz.solvers.attempt(
            problem, apviz.AlternatingProjection(block_size=BLOCK, tol=1e-9, max_epochs=1), prepared=None
        )
        found["traffic"] = [ranks.traffic.messages - before[0], ranks.traffic.bytes - before[1]]
    if distributed.records():
        out.write_text(json.dumps(found))


def measured(ranks: int, threads: int) -> dict[str, Any]:
    """Return the results of a job with this number of ranks; one is a process without ranks."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "found.json"
        torchrun = ["-m", "torch.distributed.run", f"--nproc-per-node={ranks}"] if ranks > 1 else []
        command = [sys.executable, *torchrun, "-m", "benchmarks.ranks", "--worker", str(out)]
        subprocess.run(command, check=True, env=os.environ | {"OMP_NUM_THREADS": str(threads)})
        found: dict[str, Any] = json.loads(out.read_text())
        return found


def model_of(found: dict[str, Any]) -> Model:
    """The model of what a job has measured apart from epochs and passes."""
    item = 4_000_000
    latency = (found["short"] + found["short sum"]) / 2
    return Model(
        entries=found["entries"], flops=2 * BLOCK**2 * SIDES / found["solve"], latency=latency,
        bandwidth=item / max(1e-9, found["long"] - found["short"]),
    )  # fmt: skip


def plan() -> None:
    """Prints what the model says of 10⁸ points on GPUs."""
    n, b, p, d = 1e8, 16_384, 17, 9
    print(f"n = {n:.0e}, d = {d}, b = {b:,}, {p} right-hand sides; {asdict(PLANNED)}")
    print(f"{'GPUs':>6} {'s an epoch':>11} {'s a pass':>9} {'efficiency':>10} {'GiB a rank':>10}")
    for ranks in (64, 128, 256, 512, 1024, 2048, 4096):
        parts = PLANNED.update(n, b, p, ranks)
        update = sum(parts.values())
        epoch = update * n / b
        memory = 4 * n * d + (4 + 4 + 8) * n * p / ranks + 4 * n * b / 2 / ranks
        efficiency = parts["entries"] / update
        print(f"{ranks:6} {epoch:11.1f} {PLANNED.product(n, p, ranks):9.1f} {efficiency:10.2f} {memory / 2**30:10.1f}")


def main(
    worker: Annotated[Path | None, typer.Option(help="Of a rank: where to write.")] = None,
    only_plan: Annotated[bool, typer.Option("--plan", help="Print the table of the model alone.")] = False,
) -> None:
    """Measures ranks on this machine."""
    if worker is not None:
        work(worker)
        return
    if only_plan:
        plan()
        return
    one, threads, two = measured(1, 1), measured(1, 2), measured(2, 1)
    model = model_of(two)
    expected = sum(model.update(N, BLOCK, SIDES, 2).values()) * (N / BLOCK)
    rows = {
        "n": N, "block": BLOCK, "sides": SIDES, "inputs": INPUTS, "one": one, "one with two threads": threads,
        "two": two, "model": asdict(model),
        "efficiency against one thread": {key: one[key] / two[key] / 2 for key in ("epoch", "pass", "pass in float64")},
        "against two threads": {key: threads[key] / two[key] for key in ("epoch", "pass", "pass in float64")},
        "predicted": {"epoch": expected, "pass": model.product(N, SIDES, 2)},
        # had they a core each: more ranks than cores say nothing of seconds
        "predicted of more": {
            str(more): {
                "epoch": sum(model.update(N, BLOCK, SIDES, more).values()) * (N / BLOCK),
                "pass": model.product(N, SIDES, more),
            }
            for more in (4, 8)
        },
    }  # fmt: skip
    keep("ranks", rows)
    print(json.dumps(rows, indent=1), describe())


if __name__ == "__main__":
    typer.run(main)
