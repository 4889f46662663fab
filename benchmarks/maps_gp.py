"""What surrounds solves on maps: gradients of a likelihood and samples, by Fourier products and by entries.

`python -m benchmarks.maps_gp` measures what is missing in `results/maps_gp.json`; names of cases measure these again.
Seconds are those of the processor, set-up included. Weights are random: what is measured does not depend on them.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any
from unittest import mock

import torch

import apviz
from apviz.gp import fast_products, marginal_likelihood_gradient, rademacher
from apviz.gp.pathwise import prior_functions
from apviz.operators import CountingOperator, FourierOperator, make_operator
from benchmarks.machine import RESULTS, keep
from benchmarks.maps import problem

#: data and rows
CASES = {"china": ("china", 218_624), "earth 100000": ("earth", 100_000)}
PROBES, SAMPLES, ALL_ROWS = 16, 16, 10**12
#: entries are evaluated for one row in this number
PART = 10


def seconds_of(job: Callable[[], Any]) -> tuple[float, Any]:
    """Return the processor seconds of a job, and its result."""
    started = time.process_time()
    found = job()
    return round(time.process_time() - started, 1), found


def gradient(x: torch.Tensor, kernel: apviz.Matern52, noise: float) -> apviz.gp.Gradient:
    """Return the gradient of the likelihood for random weights."""
    weights = torch.randn(len(x), 1 + PROBES, generator=torch.Generator().manual_seed(0))
    z = rademacher(len(x), PROBES, 0, weights).z
    return marginal_likelihood_gradient(operator_of(x, kernel, noise), weights, z)


def operator_of(x: torch.Tensor, kernel: apviz.Matern52, noise: float) -> CountingOperator:
    """Return the compiled tiles in float32, as a training has them."""
    made = make_operator("tiled", x, kernel, noise, torch.float32)
    made.prepare()
    return CountingOperator(made)


def measure(name: str, n: int) -> dict[str, Any]:
    """Measure one case; entries on a part of the rows, from which the seconds of all are estimated."""
    x, _, kernel, noise = problem(name, n)
    found: dict[str, Any] = {"n": n, "d": x.shape[1], "threads": torch.get_num_threads()}
    found["gradient"], _ = seconds_of(lambda: gradient(x, kernel, noise))
    few, least = x[torch.randperm(n, generator=torch.Generator().manual_seed(0))[: n // PART]], fast_products.LEAST_ROWS
    fast_products.LEAST_ROWS = ALL_ROWS
    seconds, by_entries = seconds_of(lambda: gradient(few, kernel, noise))
    fast_products.LEAST_ROWS = 1
    with mock.patch.object(FourierOperator, "seconds_of_product", return_value=0.0):  # few rows take entries
        by_modes = gradient(few, kernel, noise)
    fast_products.LEAST_ROWS = least
    found["gradient by entries, estimated"] = round(PART**2 * seconds, 1)
    pairs = [(by_modes.kernel[key], each) for key, each in by_entries.kernel.items()]
    found["relative difference of gradients"] = max(float(f"{float((a - b).norm() / b.norm()):.1g}") for a, b in pairs)
    for prior, rows in (("series", 1), ("features", PART)):
        points = x[: n // rows]
        job = partial(prior_functions, operator_of(points, kernel, noise), SAMPLES, (0, 1), prior)
        seconds, _ = seconds_of(lambda job=job, points=points: job()(points))
        found[f"{SAMPLES} prior samples by {prior}" + ", estimated" * (rows > 1)] = round(rows * seconds, 1)
    return found


def main() -> None:
    path = RESULTS / "maps_gp.json"
    results = json.loads(path.read_text())["results"] if path.exists() else {}
    for case in sys.argv[1:] or [each for each in CASES if each not in results]:
        results[case] = measure(*CASES[case])
        print(case, json.dumps(results[case]), flush=True)
        keep("maps_gp", results, show=False)


if __name__ == "__main__":
    main()
