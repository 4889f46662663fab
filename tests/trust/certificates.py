"""Test random solves by Fourier products: no certificate claims a smaller residual than dense algebra finds.

Systems have 2,048 to 3,500 rows in one to three inputs, so that products are certified by a bound or by a sample.
K is evaluated in NumPy by the formulas of `tests/textbook.py`, in float64; its rounding is allowed for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

import apviz
from apviz.solvers import attempt
from tests.textbook import CORRELATIONS
from tests.trust.verdicts import REFUSALS, Verdict, judged

KERNELS = {"matern12": apviz.Matern12, "matern32": apviz.Matern32, "matern52": apviz.Matern52, "rbf": apviz.RBF}
#: rounding errors of an entry of K and its product, in the oracle
ROUNDINGS = 64 * float(np.finfo(np.float64).eps)
#: rows of K in memory at a time
ROWS = 500


@dataclass
class Case:
    """A system with its solver, and a description in words."""

    x: np.ndarray
    b: np.ndarray
    kernel: Any
    noise: float
    dtype: torch.dtype
    solver: Any
    words: dict[str, str]


def case(seed: int) -> Case:
    """Return the case of a seed."""
    rng = np.random.default_rng([43, seed])
    n, d, p = int(rng.integers(2_048, 3_500)), int(rng.integers(1, 4)), int(rng.integers(1, 4))
    layout = str(rng.choice(["uniform", "clusters", "grid", "far", "copies"]))
    x = rng.uniform(size=(n, d))
    if layout == "clusters":
        x = rng.uniform(size=(5, d))[rng.integers(5, size=n)] + 0.02 * rng.standard_normal((n, d))
    elif layout == "grid":
        x = np.round(x * 40) / 40
    elif layout == "far":
        x = 1_000 + x
    elif layout == "copies":
        x = x[rng.integers(n // 3, size=n)]
    name = str(rng.choice(list(KERNELS)))
    lengthscale, outputscale = 10 ** rng.uniform(-1.7, 0.5), 10 ** rng.uniform(-2, 2)
    noise, tol = outputscale * 10 ** rng.uniform(-4, 0), 10 ** rng.uniform(-5, -1)
    b = np.sin(6 * x.sum(1))[:, None] + rng.standard_normal((n, p)) * 10 ** rng.uniform(-2, 0)
    solver = [
        apviz.ConjugateGradient(tol=tol, max_epochs=60),
        apviz.ConjugateGradient(preconditioner=apviz.PivotedCholesky(rank=50), tol=tol, max_epochs=40),
        apviz.AlternatingProjection(block_size=int(rng.integers(100, 800)), tol=tol, max_epochs=8),
        apviz.solvers.overlapping(tol=tol, max_epochs=20),
        apviz.Cholesky(tol=tol),
        apviz.ColouredProjection(tol=tol, max_epochs=12),
        apviz.ColouredProjection(block_size=int(rng.integers(50, 800)), rank=0, tol=tol, max_epochs=8),
    ][int(rng.integers(7))]
    dtype = (torch.float32, torch.float64)[int(rng.integers(2))]
    words = {
        "n, d, columns": f"{n}, {d}, {p}", "inputs": layout, "kernel": f"{name}, lengthscale {lengthscale:.3g}",
        "noise ÷ outputscale": f"{noise / outputscale:.2g}", "solver": solver.method.name, "tol": f"{tol:.1g}",
        "dtype": str(dtype),
    }  # fmt: skip
    # what a system in float32 is given, so that both see the same numbers
    x, b = (np.asarray(torch.from_numpy(a).to(dtype).double()) for a in (x, b))
    return Case(x, b, KERNELS[name](lengthscale=lengthscale, outputscale=outputscale), noise, dtype, solver, words)


def residual(made: Case, w: np.ndarray) -> tuple[float, float]:
    """Return the mean of ‖b − Kw‖/‖b‖, and a bound on the rounding of this number."""
    r, size = made.b.copy(), np.abs(made.b)
    for start in range(0, len(w), ROWS):
        rows = slice(start, start + ROWS)
        gaps = [np.subtract.outer(made.x[rows, k], made.x[:, k]) for k in range(made.x.shape[1])]
        distance = np.sqrt(sum(gap**2 for gap in gaps)) / made.kernel.lengthscale
        k = made.kernel.outputscale * CORRELATIONS[made.kernel.name](distance)
        r[rows] -= k @ w + made.noise * w[rows]
        size[rows] += k @ np.abs(w) + made.noise * np.abs(w[rows])
    norms = np.linalg.norm(made.b, axis=0)
    return float((np.linalg.norm(r, axis=0) / norms).mean()), ROUNDINGS * float(
        (np.linalg.norm(size, axis=0) / norms).mean()
    )


@judged(*REFUSALS)
def judge(seed: int) -> Verdict:
    """Solve the case of a seed, and compare its certificate with dense algebra."""
    made = case(seed)
    system = apviz.KernelSystem(
        torch.from_numpy(made.x).to(made.dtype), torch.from_numpy(made.b).to(made.dtype), made.kernel,
        noise=made.noise, operator="fourier", device="cpu",
    )  # fmt: skip
    solution = attempt(system, made.solver)
    certificate = solution.certificate
    if certificate is None:
        return Verdict("error", "a solve that no hook stopped has no certificate")
    true, rounding = residual(made, solution.weights.numpy().reshape(made.b.shape))
    if true - rounding > certificate.residual or (solution.converged and true - rounding >= made.solver.tol):
        said = f"residual {true:.6g}, certified {certificate.residual:.6g} with error {certificate.error:.2g}"
        return Verdict("false", said, certificate.residual, true)
    return Verdict(f"{certificate.kind}, {'converged' if solution.converged else 'not converged'}")


def described(seed: int) -> dict[str, str]:
    """Describe a case in words."""
    return case(seed).words
