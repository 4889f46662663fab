"""Compare the training of `GaussianProcess` by default with its settings that save less, or more, work.

Matérn-5/2, float32, the data's own units, until the training has settled. The log likelihood a row and the test RMSE
come from a Cholesky factor in float64 on all rows, at the hyperparameters found. Seconds are processor seconds of the
whole fit on one thread. A cell that is in `results/default_fit.json` is not run again.

    OMP_NUM_THREADS=1 python -m benchmarks.default_fit [--rows 4000,8000] [--sets protein,sgemm,airquality,kin40k]
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
import warnings
from typing import Any

import torch
from rich.console import Console

import apviz
from apviz.gp.estimator.choices import STAGES
from benchmarks.machine import RESULTS, keep
from benchmarks.training import exact

NAME = "default_fit"
SETS, ROWS = ("protein", "sgemm", "airquality", "kin40k"), (4_000, 8_000)
#: settings by their names; the last are the defaults
WAYS: dict[str, dict[str, Any]] = {
    "to the tolerance": {"optimiser": "adam", "stages": (), "max_epochs": None},
    "one epoch a step": {"optimiser": "adam", "stages": (), "max_epochs": 1},
    "one epoch a step, stages": {"optimiser": "adam", "stages": STAGES["adam"], "max_epochs": 1},
    "scoring": {},
}


def measure(name: str, n: int, way: str) -> dict[str, Any]:
    """Fit in one way, and judge the hyperparameters exactly."""
    data = apviz.datasets.load(name, n=n, dtype=torch.float64)
    gp = apviz.GaussianProcess(scale=False, dtype="float32", device="cpu", **WAYS[way])
    began = time.process_time()
    gp.fit(data.train_x.numpy(), data.train_y.numpy())
    seconds = time.process_time() - began
    likelihood, rmse = exact(data, gp.hyperparameters_)
    return {
        "seconds": round(seconds, 1), "steps": int(gp.trace_["step"].sizes["step"]), "work": round(gp.trace_.work, 1),
        "log likelihood a row": round(likelihood, 4), "test RMSE": round(rmse, 4),
        "noise": round(gp.hyperparameters_.noise, 4),
    }  # fmt: skip


def key_of(n: int, name: str, way: str) -> str:
    """Return the name of a cell."""
    return f"{name}, {n:,}: {way}"


def table(cells: dict[str, dict[str, Any]]) -> list[str]:
    """Return the lines of the table of results in Markdown."""
    lines = [
        "| data, rows | training | steps | work | seconds | log likelihood a row | test RMSE | noise |",
        "|---|---|---|---|---|---|---|---|",
    ]
    before = ""
    for key, cell in cells.items():
        of, way = key.split(": ")
        lines.append(
            f"| {of if of != before else ''} | {way} | {cell['steps']} | {cell['work']:.0f} | {cell['seconds']:.0f} "
            f"| {cell['log likelihood a row']:.4f} | {cell['test RMSE']:.4f} | {cell['noise']:.3g} |".replace("-", "−")
        )
        before = of
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", default=",".join(map(str, ROWS)))
    parser.add_argument("--sets", default=",".join(SETS))
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    path = RESULTS / f"{NAME}.json"
    cells = json.loads(path.read_text())["results"] if path.exists() else {}
    for n, name, way in itertools.product(map(int, asked.rows.split(",")), asked.sets.split(","), WAYS):
        if key_of(n, name, way) not in cells:
            cells[key_of(n, name, way)] = measure(name, n, way)
            in_order = (key_of(*each) for each in itertools.product(ROWS, SETS, WAYS))
            keep(NAME, {key: cells[key] for key in in_order if key in cells}, show=False)
        Console(stderr=True).print(key_of(n, name, way), cells[key_of(n, name, way)], highlight=False)


if __name__ == "__main__":
    main()
