"""Time an epoch as n grows from 25,000 to 100,000 at fixed n/b: it is n², so the exponent is at most 2.1."""

from __future__ import annotations

import math
import statistics

import torch

import apviz
from apviz.solvers import attempt
from benchmarks.machine import keep

SIZES = (25_000, 50_000, 100_000)
BLOCKS = 50


def main() -> None:
    rows = []
    for n in SIZES:
        generator = torch.Generator().manual_seed(0)
        x = 2 * torch.rand(n, 13, generator=generator) - 1
        rhs = torch.randn(n, 16, generator=generator)
        system = apviz.KernelSystem(x, rhs, apviz.Matern52(lengthscale=0.7), noise=0.1, operator="tiled")
        system.operator.prepare()
        recorder = apviz.Recorder()
        attempt(system, apviz.AlternatingProjection(block_size=n // BLOCKS, tol=1e-12, max_epochs=4), [recorder])
        seconds = recorder.trace["epoch"]["seconds"].values
        rows.append({"n": n, "seconds an epoch": round(statistics.median(seconds[1:] - seconds[:-1]), 3)})
    first, last = rows[0], rows[-1]
    exponent = math.log(last["seconds an epoch"] / first["seconds an epoch"]) / math.log(last["n"] / first["n"])
    keep("scaling", {"rows": rows, "exponent": round(exponent, 3), "goal": 2.1})


if __name__ == "__main__":
    main()
