"""What surrounds solves on maps: gradients and values of a likelihood, training, samples; by Fourier and by entries.

`python -m benchmarks.maps_gp` measures what is missing in `results/maps_gp.json`; names of cases measure these again.
Seconds are those of the processor, set-up included. Weights are random: what is measured does not depend on them.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any
from unittest import mock

import torch

import apviz
from apviz.gp import lanczos_log_determinant, marginal_likelihood_gradient, rademacher
from apviz.gp.prediction.pathwise import prior_functions
from apviz.gp.training import fast_products
from apviz.gp.training.likelihood import estimated_marginal_likelihood
from apviz.operators import CountingOperator, FourierOperator, make_operator
from apviz.preconditioners import whitening_of
from apviz.solvers.choosing import costs
from benchmarks.machine import RESULTS, keep
from benchmarks.maps import problem

#: cases of training: data and rows; steps of Adam from raw parameters of zero, and those that entries are timed for
TRAININGS = {"earth 100000, training": ("earth", 100_000)}
STEPS, STEPS_BY_ENTRIES = 10, 1
#: cases of log det K: data and rows
DETERMINANTS = {"earth 100000, log det": ("earth", 100_000)}
#: probes of log determinants and likelihoods
LIKELIHOOD_PROBES = 2
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


def measure_training(name: str, n: int) -> dict[str, Any]:
    """Time steps of Adam, and compare the likelihoods that they reach, with the same probes and whitening."""
    x, y, *_ = problem(name, n)
    found: dict[str, Any] = {"n": n, "d": x.shape[1], "threads": torch.get_num_threads(), "steps": STEPS}
    settings = apviz.TrainingSettings(steps=STEPS_BY_ENTRIES, spectrum=False)
    training = apviz.Training(x, y, settings, dtype=torch.float32, device="cpu")
    seconds, reached = seconds_of(training.run)
    more = dataclasses.replace(settings, steps=STEPS)
    found["steps of Adam"], last = seconds_of(apviz.Training(x, y, more, dtype=torch.float32, device="cpu").run)
    found["of them by Fourier products"] = [seconds, STEPS_BY_ENTRIES]
    with mock.patch.object(fast_products, "LEAST_ROWS", ALL_ROWS):
        training = apviz.Training(x, y, settings, dtype=torch.float32, device="cpu")
        found["of them, gradients by entries"] = [seconds_of(training.run)[0], STEPS_BY_ENTRIES]
        with mock.patch.object(costs, "LEAST_ROWS", ALL_ROWS):
            seconds, by_entries = seconds_of(apviz.Training(x, y, settings, dtype=torch.float32, device="cpu").run)
    found["of them, all by entries"] = [seconds, STEPS_BY_ENTRIES]
    whitening = whitening_of(operator_of(x, last.build_kernel(), last.noise).uncounted, 0)
    for words, h in (("reached", reached), ("reached by entries", by_entries), ("reached in all steps", last)):
        system = apviz.KernelSystem(x, y - h.mean, h.build_kernel(), noise=h.noise, dtype=torch.float32, device="cpu")
        job = partial(
            estimated_marginal_likelihood, system, apviz.Automatic(), LIKELIHOOD_PROBES, 0, with_gradient=False,
            whitening=whitening,
        )  # fmt: skip
        seconds, value = seconds_of(job)
        row, error = round(value.value / n, 6), float(f"{value.standard_error / n:.1g}")
        found[f"log likelihood a row {words}, standard error, seconds"] = [row, error, seconds]
    return found


def measure_log_determinant(name: str, n: int) -> dict[str, Any]:
    """Measure log det K by Lanczos, whitened by near rows, and its derivatives."""
    x, _, kernel, noise = problem(name, n)
    found: dict[str, Any] = {"n": n, "d": x.shape[1], "threads": torch.get_num_threads(), "probes": LIKELIHOOD_PROBES}
    operator = operator_of(x, kernel, noise)
    found["whitening"], whitening = seconds_of(lambda: whitening_of(operator.uncounted, 0))
    fast = fast_products.with_fast_products(operator, fast_products.VALUE_ERROR)
    z = rademacher(n, LIKELIHOOD_PROBES, 0, fast.x).z
    found["Lanczos"], value = seconds_of(lambda: lanczos_log_determinant(fast, z, whitening=whitening))
    found["derivatives"], _ = seconds_of(lambda: fast.bilinear_derivatives(value.left, value.right))
    found["steps"], found["columns of derivatives"] = value.steps, value.left.shape[1]
    found["log det a row"] = round(float(value.value) / n, 5)
    found["standard error a row"] = float(f"{float(value.standard_error) / n:.1g}")
    return found


def main() -> None:
    path = RESULTS / "maps_gp.json"
    results = json.loads(path.read_text())["results"] if path.exists() else {}
    cases = {name: partial(measure, *case) for name, case in CASES.items()}
    cases |= {name: partial(measure_log_determinant, *case) for name, case in DETERMINANTS.items()}
    cases |= {name: partial(measure_training, *case) for name, case in TRAININGS.items()}
    for case in sys.argv[1:] or [each for each in cases if each not in results]:
        results[case] = cases[case]()
        print(case, json.dumps(results[case]), flush=True)
        keep("maps_gp", results, show=False)


if __name__ == "__main__":
    main()
