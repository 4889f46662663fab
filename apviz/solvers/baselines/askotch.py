"""ASkotch: accelerated sketch-and-project with Nyström-preconditioned blocks.

Rathore, Frangella, Yang, Dereziński & Udell, "Have ASkotch: a neat solution for large-scale kernel ridge regression",
arXiv:2407.10070.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from apviz.method import Method
from apviz.operators import Operator
from apviz.preconditioners.nystrom import nystrom
from apviz.settings import Auto, chosen, require, require_whole, require_whole_or_auto
from apviz.solvers.baselines.iterates import Iteration, IterativeSolver, updates_of
from apviz.solvers.interface import SOLVERS, Prepared
from apviz.solvers.state import State

# An `auto` block has n/100 rows, as in the paper, and at least 50, because every update has a fixed cost.
BLOCK_SHARE, LEAST_ROWS = 100, 50
# Power iterations for the step length, as in the paper.
POWER_ITERATIONS = 10


@SOLVERS.register("askotch")
@dataclass(frozen=True, kw_only=True)
class ASkotch(IterativeSolver):
    """Approximate projections, by a low-rank approximation of every new random block, with Nesterov's acceleration.

    ASkotch with the paper's defaults: uniform blocks, ρ = σ² + λ_r (damped), μ = σ², ν = n/b. Departures: μ is σ² over
    the largest k(x, x), which is 1 in the paper, and at most the largest value for which acceleration converges.

    Args:
        block_size: b; `auto`: n/100, as in the paper, and at least 50.
        rank: r of the Nyström approximation of a block; at most b.
        accelerated: whether to accelerate; without acceleration this is the paper's Skotch.
        tol, max_epochs, min_epochs, check_every, seed: as for every iterative solver; an epoch is n/b updates, 1.0 work
            and b/n for the entries of the blocks.

    Raises:
        ValueError: a setting out of range, with the accepted values.

    Examples:
        >>> import torch, apviz
        >>> x = torch.linspace(0, 1, 200, dtype=torch.float64)
        >>> system = apviz.KernelSystem(x, torch.sin(6 * x), apviz.Matern52(lengthscale=0.2), noise=0.01, device="cpu")
        >>> apviz.solve(system, apviz.solvers.ASkotch(block_size=50, rank=20)).converged
        True
    """

    block_size: int | Auto = "auto"
    rank: int = 100
    accelerated: bool = True

    name: ClassVar[str] = "ASkotch"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_whole_or_auto("block_size", self.block_size, 1)
        require_whole("rank", self.rank, 1)
        require(isinstance(self.accelerated, bool), "accelerated", self.accelerated, "True or False")

    @property
    def method(self) -> Method:
        variant = None if self.accelerated else "not accelerated"
        return Method(family="askotch", block_size=self.block_size, rank=self.rank, variant=variant)

    def resolve(self, operator: Operator, columns: int = 1) -> tuple[ASkotch, Mapping[str, str]]:
        choices = dict[str, str]()
        if isinstance(self.block_size, str):
            size = min(operator.n, max(LEAST_ROWS, operator.n // BLOCK_SHARE))
            choices["block_size"] = f"{size:,}: n/{BLOCK_SHARE}, as in the paper, and at least {LEAST_ROWS}"
        else:
            size = min(self.block_size, operator.n)
        return replace(self, block_size=size, rank=min(self.rank, size)), choices

    def init(self, prepared: Prepared, state: State) -> _Accelerated:
        return _Accelerated(self, state)


class _Accelerated(Iteration):
    """State of one solve; `point`, v and y are the paper's w, v and z."""

    def __init__(self, settings: ASkotch, start: State) -> None:
        self.settings, n = settings, start.operator.n
        self.size = int(chosen("block_size", settings.block_size))
        super().__init__(start, settings.seed, updates_of(n, self.size))
        nu = n / self.size
        mu = min(self.operator.noise / self.operator.uncounted.largest_signal, 1 / nu, nu)
        self.beta, self.gamma = 1 - math.sqrt(mu / nu), 1 / math.sqrt(mu * nu)
        self.alpha = 1 / (1 + self.gamma * nu)
        self.v, self.y = self.point.copy(), self.point.copy()

    def update(self) -> None:
        rows, at = self.sampled(self.size), self.y if self.settings.accelerated else self.point
        k = self.operator.part(rows, rows)
        noise = self._noise(rows)
        sketch = torch.linalg.qr(torch.randn(len(rows), self.settings.rank, generator=self.generator).to(k)).Q
        u, eigenvalues = nystrom(sketch, k @ sketch)
        rho = self.operator.noise + float(eigenvalues[-1])
        step = _apply(u, eigenvalues, rho, at.r[rows]) / self._scale(k, noise, u, eigenvalues, rho)
        k_step = self.operator.columns_matmul(rows, step)
        if not self.settings.accelerated:
            self.point.step_(rows, step, k_step)
            return
        self.v.mix_(self.beta, self.y).step_(rows, step, k_step, self.gamma)
        self.y.step_(rows, step, k_step)
        self.point.w.copy_(self.y.w)
        self.point.r.copy_(self.y.r)
        self.y.mix_(1 - self.alpha, self.v)

    def _noise(self, rows: Tensor) -> Tensor | float:
        noise = self.operator.uncounted.noise_of(rows)
        return noise[:, None].to(self.point.r) if isinstance(noise, Tensor) else noise

    def _scale(self, k: Tensor, noise: Tensor | float, u: Tensor, eigenvalues: Tensor, rho: float) -> float:
        """Estimate λmax of P⁻¹(K[I, I] + σ²) by power iterations."""
        v = torch.randn(len(k), 1, generator=self.generator).to(k)
        v /= v.norm()
        value = 1.0
        for _ in range(POWER_ITERATIONS):
            before, v = v, _apply(u, eigenvalues, rho, v)
            v = k @ v + noise * v
            value = float((before * v).sum())
            v = v / v.norm()
        return value


def _apply(u: Tensor, eigenvalues: Tensor, rho: float, r: Tensor) -> Tensor:
    """Return (UΛUᵀ + ρ)⁻¹ r."""
    inside = u.T @ r
    return r / rho - u @ (inside * (1 / rho - 1 / (eigenvalues + rho)).to(r)[:, None])
