"""Kernel entries a second of `columns_matmul`: the engines of the tiled operator, KeOps, and plain torch in one run.

n = 100,000 rows, 2,000 columns, 16 right-hand sides, Matérn-5/2, float32. Plain torch works through chunks of 1,024
rows and is the baseline: on a CPU it is faster than KeOps. Goal: 10 times KeOps at d = 3 and 13, 40 times at d = 90.
"""

from __future__ import annotations

import tempfile
import time
from functools import partial
from pathlib import Path

import torch

import apviz
from apviz.operators import native
from apviz.operators.keops import KeOpsOperator
from apviz.operators.tiled import TiledOperator
from benchmarks.machine import keep, median_seconds

N, COLUMNS, RHS, CHUNK = 100_000, 2_000, 16, 1_024
GOALS = {3: 10, 13: 10, 90: 40}


def compile_seconds() -> float:
    """Building the engine as `prepare` does on a machine that never has."""
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        native.build(Path(folder) / "tiles.so")
        return round(time.perf_counter() - started, 2)


def plain_torch(x: torch.Tensor, lengthscale: float, u: torch.Tensor) -> torch.Tensor:
    """Compute k(X, X[:m]) U, Matérn-5/2, chunk by chunk with torch's own functions alone."""
    scaled = x / lengthscale
    columns, parts = scaled[: len(u)], []
    for rows in scaled.split(CHUNK):
        s = torch.cdist(rows, columns).mul_(5**0.5)
        parts.append((1 + s + s * s / 3).mul_(s.neg_().exp_()) @ u)
    return torch.cat(parts)


def main() -> None:
    results = []
    for d, goal in GOALS.items():
        generator = torch.Generator().manual_seed(0)
        x = 2 * torch.rand(N, d, generator=generator) - 1
        u = torch.randn(COLUMNS, RHS, generator=generator)
        lengthscale = 0.3 * d**0.5
        kernel = apviz.Matern52(lengthscale=lengthscale)
        in_place, compiled = TiledOperator(x, kernel, 0.1, compiled=False), TiledOperator(x, kernel, 0.1)
        compiled.prepare()
        operators = {"keops": KeOpsOperator(x, kernel, 0.1), "in-place tiles": in_place, "compiled": compiled}
        row: dict[str, object] = {"d": d}
        rates = {}
        products = {"plain torch": partial(plain_torch, x, lengthscale, u)} | {
            name: partial(operator.columns_matmul, slice(0, COLUMNS), u) for name, operator in operators.items()
        }
        for name, product in products.items():
            seconds = median_seconds(product, 2 if name == "keops" else 5)
            rates[name] = N * COLUMNS / seconds / 1e6
            row[f"{name}, million entries a second"] = round(rates[name])
        row["compiled over keops"] = round(rates["compiled"] / rates["keops"], 1)
        row["compiled over plain torch"] = round(rates["compiled"] / rates["plain torch"], 1)
        row["in-place tiles over keops"] = round(rates["in-place tiles"] / rates["keops"], 1)
        row["goal"] = goal
        results.append(row)
    keep("columns_matmul", {"compiling from nothing, seconds": compile_seconds(), "rates": results})


if __name__ == "__main__":
    main()
