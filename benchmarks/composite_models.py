"""Time a training step, and a prediction, of ten composite GPyTorch models: apviz, GPyTorch's CG, Cholesky.

On protein, in float32, noise 0.05; each in a process of its own, which ends after a limit. `python -m
benchmarks.composite_models 3000 20000`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import gpytorch
import torch
from gpytorch import kernels as k

import apviz
import apviz.gpytorch
from benchmarks import machine

LIMIT, TEST_ROWS = 100, 100
WAYS = ("apviz", "GPyTorch's CG", "GPyTorch's Cholesky")


def scaled(kernel: k.Kernel) -> k.Kernel:
    for module in kernel.modules():
        if isinstance(module, k.Kernel) and module.has_lengthscale:
            module.lengthscale = 0.5
    return k.ScaleKernel(kernel)


def mixture(d: int) -> k.Kernel:
    kernel = k.SpectralMixtureKernel(num_mixtures=2, ard_num_dims=d, active_dims=tuple(range(d)))
    kernel.mixture_means = torch.linspace(0.1, 0.6, kernel.mixture_means.numel()).reshape(kernel.mixture_means.shape)
    return kernel


#: kernels of 9 inputs
MODELS: dict[str, Callable[[], k.Kernel]] = {
    "Matérn-5/2 + linear": lambda: scaled(k.MaternKernel(2.5)) + k.LinearKernel(),
    "RBF + Matérn-1/2": lambda: scaled(k.RBFKernel()) + scaled(k.MaternKernel(0.5)),
    "RBF × periodic": lambda: scaled(k.RBFKernel() * k.PeriodicKernel(active_dims=(0,))),
    "RBF + RBF × periodic + RQ": lambda: (
        scaled(k.RBFKernel()) + scaled(k.RBFKernel() * k.PeriodicKernel(active_dims=(1,))) + scaled(k.RQKernel())
    ),
    "two groups of inputs, multiplied": lambda: scaled(
        k.MaternKernel(2.5, ard_num_dims=4, active_dims=(0, 1, 2, 3)) * k.RBFKernel(active_dims=(4, 5, 6, 7, 8))
    ),
    "two groups of inputs, added": lambda: (
        scaled(k.MaternKernel(1.5, active_dims=(0, 1, 2, 3))) + scaled(k.MaternKernel(1.5, active_dims=(4, 5, 6, 7, 8)))
    ),
    "additive structure": lambda: k.ScaleKernel(k.AdditiveStructureKernel(scaled(k.RBFKernel()), 9)),
    "linear × Matérn-5/2": lambda: scaled(k.LinearKernel() * k.MaternKernel(2.5)) + scaled(k.MaternKernel(2.5)),
    "polynomial + RBF": lambda: k.ScaleKernel(k.PolynomialKernel(power=2)) + scaled(k.RBFKernel()),
    "spectral mixture + Matérn-3/2": lambda: k.ScaleKernel(mixture(2)) + scaled(k.MaternKernel(1.5)),
}


class Model(gpytorch.models.ExactGP):
    """A constant mean and a kernel."""

    def __init__(self, x: torch.Tensor, y: torch.Tensor, likelihood: Any, kernel: k.Kernel) -> None:
        super().__init__(x, y, likelihood)
        self.mean_module, self.covar_module = gpytorch.means.ConstantMean(), kernel

    def forward(self, x: torch.Tensor) -> Any:
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


def measure(name: str, n: int, way: str) -> dict[str, Any]:
    """Time a training step after a first one, and the prediction of 100 means and variances."""
    torch.manual_seed(0)
    data = apviz.datasets.load("protein", n=n)
    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    likelihood.noise = 0.05
    model = Model(data.train_x, data.train_y, likelihood, MODELS[name]())
    objective = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    contexts: dict[str, list[Any]] = {
        "apviz": [apviz.gpytorch.alternating_projection()],
        "GPyTorch's CG": [gpytorch.settings.max_cholesky_size(0), gpytorch.settings.cg_tolerance(0.01)],
        "GPyTorch's Cholesky": [gpytorch.settings.fast_computations(False, False, False)],
    }

    def step() -> float:
        started = time.perf_counter()
        model.zero_grad()
        (-objective(model(data.train_x), data.train_y)).backward()
        return time.perf_counter() - started

    with contextlib.ExitStack() as stack, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for context in contexts[way]:
            stack.enter_context(context)
        step()  # compiles
        training = step()
        model.eval()
        started = time.perf_counter()
        with torch.no_grad():
            found = model(data.test_x[:TEST_ROWS])
            mean, variance = found.mean, found.variance
        predicting = time.perf_counter() - started
    return {"training": training, "prediction": predicting, "mean": mean.tolist(), "variance": variance.tolist()}


def in_a_process(name: str, n: int, way: str) -> dict[str, Any]:
    """Measure in a separate process; `ended` gives the reason if it failed."""
    command = [sys.executable, "-m", "benchmarks.composite_models", "--one", name, str(n), way]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)
    except subprocess.TimeoutExpired:
        return {"ended": f"after {LIMIT} s"}
    if done.returncode:
        return {"ended": (done.stderr.strip().splitlines() or ["by a signal: out of memory"])[-1][:120]}
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def main() -> None:
    """Measure the given sizes, and print a line for every model when it is done."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="*", type=int, default=[3000, 20000])
    parser.add_argument("--within", type=float, default=float("inf"), help="seconds after which no model is begun")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=WAYS)
    parser.add_argument("--one", nargs=3, metavar=("MODEL", "ROWS", "WAY"))
    arguments = parser.parse_args()
    if arguments.one:
        name, n, way = arguments.one
        print(json.dumps(measure(name, int(n), way)))
        return
    kept = machine.RESULTS / "composite_models.json"
    results: dict[str, Any] = json.loads(kept.read_text())["results"] if kept.exists() else {}
    started = time.monotonic()
    for n in arguments.rows:
        for name in MODELS:
            if time.monotonic() - started > arguments.within:
                break
            found = {way: in_a_process(name, n, way) for way in arguments.ways}
            exact = found.get(WAYS[-1], {})
            for each in found.values():  # in deviations of the noise, and as a ratio
                if "mean" in each and "mean" in exact:
                    of, truth = (torch.tensor([case["mean"], case["variance"]]) for case in (each, exact))
                    each["mean_error"] = float((of[0] - truth[0]).abs().max()) / 0.05**0.5
                    each["deviation_ratio"] = float(((of[1] + 0.05) / (truth[1] + 0.05)).sqrt().max())
            results[f"{name}, {n:,}"] = results.get(f"{name}, {n:,}", {}) | {
                way: {key: value for key, value in each.items() if key not in ("mean", "variance")}
                for way, each in found.items()
            }
            print(name, n, results[f"{name}, {n:,}"], flush=True)
            machine.keep("composite_models", results)


if __name__ == "__main__":
    main()
