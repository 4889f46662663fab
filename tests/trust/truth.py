"""Test random systems: claimed convergence is real; only documented errors are raised; everything ends.

A case is its seed. Residuals are recomputed in extended precision from the given inputs, by the formulas of
`tests/textbook.py`.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

import apviz
from apviz.partitions import partitioner_named
from apviz.preconditioners import Nystrom, TwoLevelSchwarz
from apviz.solvers import Subspace
from tests.textbook import CORRELATIONS
from tests.trust.verdicts import ENDLESS, REFUSALS, Verdict, judged

MARGIN = 1.01
LONG = np.longdouble


@dataclass
class Case:
    """A system and a solver.

    Attributes:
        words: for people.
        parts: (form, kernel of apviz, lengthscale, columns) that are added or multiplied.
    """

    x: torch.Tensor
    b: torch.Tensor
    kernel: Any
    parts: list[tuple[str, Any, np.ndarray]]
    combined: str
    outputscale: float
    noise: float
    dtype: torch.dtype
    operator: str
    solver: Any
    words: dict[str, str] = field(default_factory=dict)


#: partitions for overlapping blocks, and for others
TREES, PARTITIONS = ("kd-tree", "principal-axis-tree"), ("sequential", "kd-tree", "shuffled")
LEAVES = {
    "matern12": apviz.Matern12, "matern32": apviz.Matern32, "matern52": apviz.Matern52, "rbf": apviz.RBF,
    "rational-quadratic": apviz.RationalQuadratic,
}  # fmt: skip


def case(seed: int) -> Case:
    """Return the case of a seed."""
    rng = np.random.default_rng(seed)

    def one_of(*values: Any) -> Any:
        return values[rng.integers(len(values))]

    def often(chance: float) -> bool:
        return bool(rng.random() < chance)

    words = {}
    n, d = int(rng.integers(3, 160)), int(one_of(1, 2, 2, 3, 5))
    x = rng.uniform(-1, 1, (n, d))
    words["points"] = one_of("uniform", "uniform", "clusters", "duplicates", "grid", "one far")
    if words["points"] == "clusters":
        x = x * 1e-3 + rng.uniform(-1, 1, (4, d))[rng.integers(4, size=n)]
    elif words["points"] == "duplicates":
        x = x[rng.integers(max(1, n // 3), size=n)]
    elif words["points"] == "grid":
        x = np.round(x * 4) / 4
    elif words["points"] == "one far":
        x[0] += 1e4
    scale = float(10 ** rng.uniform(-1.3, 1.3)) if often(0.7) else 0.3
    unit = float(10 ** rng.uniform(-6, 6)) if often(0.3) else 1.0
    offset = float(10 ** rng.uniform(0, 6)) * scale if often(0.3) else 0.0
    x = (x + offset) * unit
    given = torch.from_numpy(x)
    words["inputs"] = one_of("float64", "float64", "float32", "strided", "expanded")
    if words["inputs"] == "float32":
        given = given.float()
    elif words["inputs"] == "strided":
        given = torch.stack([given, given], 2).reshape(n, 2 * d)[:, ::2] if d == 1 else given.T.contiguous().T
    elif words["inputs"] == "expanded":
        given = given[:1].expand(n, d)
    words["unit, offset"] = f"{unit:.1e}, {offset:.1e}"

    parts = []
    for _ in range(one_of(1, 1, 1, 2)):
        name = one_of(*LEAVES)
        lengthscale = (
            scale * unit * (rng.uniform(0.5, 2, d) if often(0.4) and d > 1 else np.full(1, rng.uniform(0.5, 2)))
        )
        made = LEAVES[name](lengthscale=tuple(lengthscale) if len(lengthscale) > 1 else float(lengthscale[0]))
        parts.append((name, made, lengthscale))
    combined = one_of("+", "×")
    outputscale = float(10 ** rng.uniform(-12, 12)) if often(0.2) else 1.0
    kernel = parts[0][1] if len(parts) == 1 else (
        parts[0][1] + parts[1][1] if combined == "+" else parts[0][1] * parts[1][1]
    )  # fmt: skip
    if outputscale != 1.0:
        kernel = outputscale * kernel
    noise = outputscale * float(10 ** rng.uniform(-6, 0))
    if often(0.1):
        noise = float(10 ** rng.uniform(-12, 6))
    words["kernel"], words["noise"] = str(kernel), f"{noise:.1e}"

    columns = int(one_of(1, 1, 2, 4))
    dtype = one_of(torch.float32, torch.float64)
    b = rng.standard_normal((n, columns))
    if often(0.4):
        sizes = rng.uniform(-200, 100, columns) if dtype == torch.float64 else rng.uniform(-30, 25, columns)
        b = b * 10.0**sizes
        words["columns of B"] = ", ".join(f"{size:.0f}" for size in sizes)
    if often(0.1):
        b[:, 0] = 0.0
        words["zero column"] = "yes"
    sides = torch.from_numpy(b)
    if columns == 1 and often(0.5):
        sides = sides[:, 0]
    solver = _solver(rng, n)
    words["solver"] = solver.method.name
    words["dtype"] = str(dtype)
    operator = one_of("dense", "tiled", "auto")
    return Case(given, sides, kernel, parts, combined, outputscale, noise, dtype, operator, solver, words)


def _solver(rng: np.random.Generator, n: int) -> Any:
    def one_of(*values: Any) -> Any:
        return values[rng.integers(len(values))]

    tol = float(10 ** rng.uniform(-8, -1))
    common = {"tol": tol, "max_epochs": int(rng.integers(1, 80))}
    size = int(rng.integers(1, n + 1))
    which = rng.integers(9)
    if which < 3:
        overlap = float(one_of(0.0, 0.0, 0.3, 1.0))
        return apviz.AlternatingProjection(
            block_size=size, rule=one_of("gauss-southwell", "cyclic", "random", "shuffled"),
            partition=partitioner_named(one_of(*(TREES if overlap else PARTITIONS)), overlap=overlap),
            step=one_of("plain", "plain", Subspace(length=4)), **common,
        )  # fmt: skip
    if which < 5:
        rank = int(rng.integers(1, n))
        preconditioner = one_of(
            None, apviz.PivotedCholesky(rank=rank), apviz.RandomlyPivotedCholesky(rank=rank), Nystrom(rank=rank),
            TwoLevelSchwarz(block_size=max(2, size), coarse_rank=min(rank, 20)),
        )  # fmt: skip
        return apviz.ConjugateGradient(preconditioner=preconditioner, **common)
    if which == 5:
        return apviz.Cholesky(tol=tol)
    if which == 6:
        return apviz.Automatic(**common)
    if which == 7:
        return apviz.solvers.overlapping(**common)
    rival = one_of(
        apviz.solvers.CoordinateDescentPlusPlus, apviz.solvers.ASkotch, apviz.solvers.StochasticDualDescent,
        apviz.solvers.GradientDescent,
    )  # fmt: skip
    return rival(**common)


def true_residual(case: Case, weights: np.ndarray) -> float:
    """Return the mean of ‖bᵢ − Kwᵢ‖/‖bᵢ‖ in extended precision; a column of zeros as ‖Kwᵢ‖."""
    x, b = case.x.double().numpy().astype(LONG), case.b.double().numpy().astype(LONG).reshape(len(case.x), -1)
    values = []
    for name, made, lengthscale in case.parts:
        gaps = (x[:, None] - x[None]) / lengthscale.astype(LONG)
        values.append(CORRELATIONS[name](np.sqrt((gaps**2).sum(-1)), **made.parameters))
    k = values[0] if len(values) == 1 else values[0] + values[1] if case.combined == "+" else values[0] * values[1]
    k = LONG(case.outputscale) * k + LONG(case.noise) * np.eye(len(x), dtype=LONG)
    r = b - k @ weights.astype(LONG).reshape(b.shape)
    norms = np.sqrt((b**2).sum(0))
    return float((np.sqrt((r**2).sum(0)) / np.where(norms > 0, norms, 1)).mean())


@judged(*REFUSALS)
def judge(seed: int) -> Verdict:
    """Solve the case of a seed, and check its claims."""
    made = case(seed)
    began = time.monotonic()
    system = apviz.KernelSystem(
        made.x, made.b, made.kernel, noise=made.noise, dtype=made.dtype, operator=made.operator, device="cpu"
    )
    solution = apviz.solve(system, made.solver)
    if time.monotonic() - began > ENDLESS:
        return Verdict("endless", f"{time.monotonic() - began:.0f} s")
    if not solution.converged:
        return Verdict("ended", str(solution.stop_reason.name), solution.residual)
    true = true_residual(made, solution.weights.double().numpy())
    how = "converged" if true <= MARGIN * made.solver.tol else "false"
    return Verdict(how, f"tol {made.solver.tol:.2e}", solution.residual, true)


def described(seed: int) -> dict[str, str]:
    """Describe a case in words."""
    made = case(seed)
    return {"n, d": f"{len(made.x)}, {made.x.shape[1]}", "operator": made.operator, **made.words}
