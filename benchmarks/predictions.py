"""What apviz says about the accuracy of predictions, judged by dense algebra in float64 on random systems.

`python -m benchmarks.predictions [count]` judges systems that `results/predictions.json` lacks, up to this number. Each
has its own data, kernel, noise, dtype and solver; some solvers are stopped long before they converge. A statement about
95% of 2,000 test points, from 64 of them, may fail for one system in twenty.
"""

from __future__ import annotations

import json
import sys
import warnings
from typing import Any

import numpy as np
import scipy.linalg
import torch
from sklearn.gaussian_process.kernels import RBF, Matern

import apviz
from benchmarks.machine import RESULTS, keep

COUNT, POINTS, SAMPLE = 300, 2_000, 64
KERNELS = {"matern12": Matern(nu=0.5), "matern32": Matern(nu=1.5), "matern52": Matern(nu=2.5), "rbf": RBF()}
SOLVERS = {
    "chosen by apviz": None,
    "CG to 0.01": apviz.ConjugateGradient(tol=1e-2, max_epochs=300),
    "CG, 10 iterations": apviz.ConjugateGradient(tol=1e-12, max_epochs=10),
    "overlapping to 0.01": apviz.solvers.overlapping(tol=1e-2, max_epochs=50),
    "alternating projection, 3 epochs": apviz.AlternatingProjection(block_size=150, tol=1e-12, max_epochs=3),
    "coordinate descent, 3 epochs": apviz.solvers.CoordinateDescentPlusPlus(block_size=100, tol=1e-12, max_epochs=3),
    "gradient descent, 20 epochs": apviz.solvers.GradientDescent(tol=1e-12, max_epochs=20),
    "Cholesky": apviz.Cholesky(),
}
#: an error below this one counts as this one, as in what apviz says
LEAST = 1e-6


def judge(seed: int) -> dict[str, Any]:
    """Solve the system of a seed, and compare what apviz says with the exact posterior."""
    rng = np.random.default_rng([44, seed])
    n, d = round(10 ** rng.uniform(2.3, 3.4)), int(rng.integers(1, 7))
    if seed % 20 == 0:
        n = int(rng.integers(4_000, 8_000))
    kernel, solver = str(rng.choice(list(KERNELS))), str(rng.choice(list(SOLVERS)))
    sigma, lengthscale = 10 ** rng.uniform(-4, 0), float(10 ** rng.uniform(-0.7, 0.5))
    dtype = (torch.float32, torch.float64)[int(rng.integers(2))]
    x, z = rng.random((n, d)), rng.random((POINTS, d))
    z[::2] = x[rng.integers(n, size=POINTS // 2)] + 1e-3 * rng.standard_normal((POINTS // 2, d))
    y = np.sin(5 * x.sum(1)) + rng.standard_normal() * x[:, 0] + sigma * rng.standard_normal(n)
    if dtype is torch.float32:  # what apviz is given
        x, y, z = (each.astype(np.float32).astype(np.float64) for each in (x, y, z))
    h = apviz.Hyperparameters(kernel, (lengthscale,), 1.0, sigma**2, 0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        posterior = apviz.Posterior(x, y, h, SOLVERS[solver], dtype="auto" if solver == "chosen by apviz" else dtype)
        found = posterior.accuracy(z, SAMPLE, seed=seed)
        mean, rows = posterior.mean(z).numpy(), rng.choice(POINTS, 200, replace=False)
        sd = posterior.variance(z[rows]).sqrt().numpy()
    exact_mean, exact_sd, rounding = exact(KERNELS[kernel], lengthscale, x, y, z, sigma)
    off = np.abs(mean - exact_mean) / exact_sd
    truth, of_sd = quantile(off), quantile(np.maximum(sd / exact_sd[rows] - 1, 0.0))
    said, said_of_sd = max(found.mean_error(), LEAST), found.sd_error()
    return {
        "seed": seed, "n": n, "d": d, "kernel": kernel, "noise_sd": sigma, "lengthscale": lengthscale,
        "dtype": str(posterior.system.dtype), "solver": solver, "residual": posterior.solution.residual,
        "said": said, "true": truth, "proven": found.proven, "largest": float(off.max()), "rounding": rounding,
        "said_of_sd": said_of_sd if np.isfinite(said_of_sd) else None, "true_of_sd": of_sd,
        "held": bool(truth <= said + rounding), "sd_held": bool(of_sd <= max(said_of_sd, LEAST) + rounding),
        "proven_held": bool(off.max() <= max(found.proven, LEAST) + rounding),
    }  # fmt: skip


def exact(
    kernel: Any, lengthscale: float, x: np.ndarray, y: np.ndarray, z: np.ndarray, sigma: float
) -> tuple[np.ndarray, np.ndarray, float]:
    """Return means and deviations by scikit-learn's kernels, and how far rounding may move them, in deviations."""
    kernel = kernel.clone_with_theta(np.log([lengthscale]))
    k = kernel(x)
    k[np.diag_indices_from(k)] += sigma**2
    factor = scipy.linalg.cho_factor(k, lower=True)
    c = kernel(x, z)
    solved, w = scipy.linalg.cho_solve(factor, c), scipy.linalg.cho_solve(factor, y)
    by_noise = sigma**2 * np.square(solved).sum(0)  # the variance is no less, whatever rounding says
    variance = np.maximum(1 - np.einsum("ij,ij->j", c, solved), by_noise)
    eps, sd = np.finfo(float).eps, np.sqrt(variance)
    of_mean = 64 * eps * np.abs(w).sum() * np.abs(solved).sum(0) / sd
    of_sd = 64 * eps * np.abs(c * solved).sum(0) / variance
    return c.T @ w, sd, float(max(np.quantile(of_mean, 0.95), np.quantile(of_sd, 0.95)))


def quantile(errors: np.ndarray) -> float:
    """Return the error that 95% do not exceed."""
    return float(np.quantile(errors, 0.95, method="inverted_cdf"))


def summary(cases: list[dict[str, Any]]) -> dict[str, Any]:
    """Summarise what held, and how tight it was."""
    tight = [each["said"] / max(each["true"], LEAST) for each in cases]
    of_sd = [
        (1 + each["said_of_sd"]) / (1 + each["true_of_sd"]) for each in cases if each["said_of_sd"] is not None
    ]  # fmt: skip
    return {
        "systems": len(cases), "held": sum(each["held"] for each in cases) / len(cases),
        "sd_held": sum(each["sd_held"] for each in cases) / len(cases),
        "proven_held": sum(each["proven_held"] for each in cases) / len(cases),
        "said_over_true_median": float(np.median(tight)), "said_over_true_90%": float(np.quantile(tight, 0.9)),
        "proven_over_true_median": float(
            np.median([max(each["proven"], LEAST) / max(each["true"], LEAST) for each in cases])
        ),
        "sd_said_over_true_median": float(np.median(of_sd)), "sd_unknown": len(cases) - len(of_sd),
    }  # fmt: skip


def main(count: int = COUNT) -> None:
    """Judge what is missing, and keep each system as it is done."""
    path = RESULTS / "predictions.json"
    cases = json.loads(path.read_text())["results"]["cases"] if path.exists() else []
    done = {each["seed"] for each in cases}
    for seed in range(count):
        if seed not in done:
            cases.append(judge(seed))
            keep("predictions", {"summary": summary(cases), "cases": cases}, show=False)
            last = cases[-1]
            print(
                seed, last["solver"], f"n={last['n']}", f"said {last['said']:.2g}, true {last['true']:.2g}", flush=True
            )
    print(json.dumps(summary(cases), indent=1))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else COUNT)
