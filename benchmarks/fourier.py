"""Products of the Fourier operator: seconds of set-up and of a product, and the error of 500 rows, next to tiles.

`python -m benchmarks.fourier` measures what is missing in `results/fourier.json`; names of cases measure these again.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import torch

import apviz
from apviz.operators import FourierOperator
from apviz.operators.tiled import TiledOperator
from benchmarks.machine import RESULTS, keep

ROWS = 500
CASES = {
    "china": ("china", None, torch.float32), "china float64": ("china", None, torch.float64),
    "earth 100000": ("earth", 100_000, torch.float32), "earth 100000 float64": ("earth", 100_000, torch.float64),
    "earth 1000000": ("earth", 1_000_000, torch.float32),
}  # fmt: skip


def measure(dataset: str, n: int | None, dtype: torch.dtype) -> dict[str, Any]:
    """Measure one case in processor seconds, with the data set's own hyperparameters and Matérn-5/2."""
    data = apviz.datasets.load(dataset, n=n) if n else apviz.datasets.load(dataset)
    h, x = data.card.hyperparameters, data.train_x.double()
    kernel = apviz.Matern52(lengthscale=h.lengthscale, outputscale=h.outputscale)
    started = time.process_time()
    operator = FourierOperator(x, kernel, h.noise, dtype)
    operator.prepare()
    v = torch.randn(len(x), 1, generator=torch.Generator().manual_seed(0)).to(dtype)
    operator.matmul(v)
    set_up, started = time.process_time() - started, time.process_time()
    found = operator.matmul(v)
    product = time.process_time() - started
    tiled = TiledOperator(x, kernel, h.noise, dtype)
    tiled.prepare()
    rows = torch.arange(0, len(x), len(x) // ROWS)[:ROWS]
    started = time.process_time()
    tiled.rows_matmul(rows, v)
    tiles = (time.process_time() - started) * len(x) / ROWS * tiled.matmul_price(1)
    exact = operator.exact().rows_matmul(rows, v.double())
    error = (found[rows].double() - exact).square().mean().sqrt() / exact.square().mean().sqrt()
    part = next(iter(operator._products.values()))
    return {
        "n": len(x), "d": x.shape[1], "dtype": str(dtype).removeprefix("torch."), "error": operator.error,
        "measured error of an entry": float(f"{operator.measured_error:.2g}"), "modes": part.far.modes,
        "cut-off": part.split.near.cutoff if part.split.near else 0.0, "set-up seconds": round(set_up, 2),
        "product seconds": round(product, 3), "relative error of rows": float(f"{float(error):.2g}"),
        "tiles, estimated seconds": round(tiles, 1),
    }  # fmt: skip


def main() -> None:
    path = RESULTS / "fourier.json"
    results = json.loads(path.read_text())["results"] if path.exists() else {}
    for name in sys.argv[1:] or [each for each in CASES if each not in results]:
        results[name] = measure(*CASES[name])
        print(name, results[name], flush=True)
        keep("fourier", results, show=False)


if __name__ == "__main__":
    main()
