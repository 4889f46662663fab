"""Time a whole step of Bayesian optimisation by BoTorch inside `alternating_projection()`, and natively.

`SingleTaskGP` with both transforms, `fit_gpytorch_mll`, LogEI by `optimize_acqf`, and samples of the posterior, of a
made-up function of four inputs in float64. `python -m benchmarks.botorch_step 1000 10000`.
"""

from __future__ import annotations

import argparse
import contextlib
import time
import warnings
from typing import Any

import torch
from botorch.acquisition import LogExpectedImprovement
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.models.transforms import Normalize, Standardize
from botorch.optim import optimize_acqf
from gpytorch.mlls import ExactMarginalLogLikelihood

import apviz.gpytorch
from benchmarks import machine

D, NATIVE_ROWS = 4, 2000
SEARCH = {"q": 1, "num_restarts": 4, "raw_samples": 32, "options": {"seed": 3, "maxiter": 50}}


def step(n: int, context: contextlib.AbstractContextManager[Any]) -> dict[str, Any]:
    """Fit, propose a candidate, and draw three samples at 100 rows."""
    torch.manual_seed(0)
    x = 10 * torch.rand(n, D, dtype=torch.float64)
    y = torch.sin(x[:, :1]) + torch.cos(0.7 * x[:, 1:2]) - 0.02 * (x[:, 2:3] - 4) ** 2
    y = y + 0.1 * torch.randn(n, 1, dtype=torch.float64)
    bounds = torch.tensor([[0.0] * D, [10.0] * D], dtype=torch.float64)
    torch.manual_seed(1)
    model = SingleTaskGP(x, y, input_transform=Normalize(D), outcome_transform=Standardize(1))
    with context, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        times = [time.perf_counter()]
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
        times.append(time.perf_counter())
        candidate, _ = optimize_acqf(LogExpectedImprovement(model, best_f=y.max()), bounds=bounds, **SEARCH)
        times.append(time.perf_counter())
        with torch.no_grad():
            model.posterior(x[:100]).rsample(torch.Size([3]))
        times.append(time.perf_counter())
    fit, proposal, samples = (after - before for before, after in zip(times, times[1:], strict=False))
    return {"fit": fit, "proposal": proposal, "samples": samples, "candidate": candidate[0].tolist()}


def main() -> None:
    """Measure the given sizes, native steps up to 2,000 rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="*", type=int, default=[1000, 10000])
    results: dict[str, Any] = {}
    for n in parser.parse_args().rows:
        results[f"{n:,}, apviz"] = step(n, apviz.gpytorch.alternating_projection())
        if n <= NATIVE_ROWS:
            results[f"{n:,}, native"] = step(n, contextlib.nullcontext())
        print({key: value for key, value in results.items() if key.startswith(f"{n:,},")}, flush=True)
        machine.keep("botorch_step", results)


if __name__ == "__main__":
    main()
