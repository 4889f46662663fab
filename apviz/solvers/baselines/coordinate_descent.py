"""CD++: block coordinate descent with kept factors and adaptive momentum (arXiv:2501.11673)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from apviz.factors import cholesky_with_jitter
from apviz.memory import free_memory, require_memory
from apviz.method import Method
from apviz.operators import Operator
from apviz.settings import Auto, chosen, require_number, require_whole_or_auto
from apviz.solvers.baselines.iterates import Iteration, IterativeSolver, updates_of
from apviz.solvers.interface import SOLVERS, Prepared
from apviz.solvers.state import State, column_squares

# An `auto` block has n/20 rows: the paper uses 200 of 4,096.
BLOCK_SHARE = 20
# Share of the free memory for kept factors if their number is `auto`.
MEMORY_SHARE = 0.5


@SOLVERS.register("coordinate-descent++")
@dataclass(frozen=True, kw_only=True)
class CoordinateDescentPlusPlus(IterativeSolver):
    """Descent on random blocks of rows with kept factors, and momentum that adapts to the observed rate.

    CD++ of Dereziński, Needell, Rebrova & Yang, "Randomized Kaczmarz methods with beyond-Krylov convergence" (2025),
    for symmetric positive definite systems. Update t draws a new block with probability min(1, n·log n/(b·t)), else
    reuses an earlier block. Departures: rows are drawn without the randomised Hadamard transform, which would require
    storing K (the authors measure that variant too); the number of kept factors is capped; every right-hand side has
    its own momentum; the regularisation of the projections is relative to k(x, x).

    Args:
        block_size: b; `auto`: n/20, as in the paper's experiments.
        kept_blocks: largest number of kept factors, b² numbers each; `auto`: the number that fits half of the free
            memory.
        regularisation: λ of (K[I, I] + λ)⁻¹, times the largest k(x, x).
        tol, max_epochs, min_epochs, check_every, seed: as for every iterative solver; an epoch is n/b updates, 1.0 work
            and the entries of new blocks.

    Raises:
        ValueError: a setting out of range, with the accepted values.

    Examples:
        >>> import torch, apviz
        >>> x = torch.linspace(0, 1, 200, dtype=torch.float64)
        >>> system = apviz.KernelSystem(x, torch.sin(6 * x), apviz.Matern52(lengthscale=0.2), noise=0.01, device="cpu")
        >>> apviz.solve(system, apviz.solvers.CoordinateDescentPlusPlus(block_size=50)).converged
        True
    """

    block_size: int | Auto = "auto"
    kept_blocks: int | Auto = "auto"
    regularisation: float = 1e-8

    name: ClassVar[str] = "CoordinateDescentPlusPlus"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_whole_or_auto("block_size", self.block_size, 1)
        require_whole_or_auto("kept_blocks", self.kept_blocks, 1)
        require_number("regularisation", self.regularisation, 0.0, "a finite number, at least 0")

    @property
    def method(self) -> Method:
        return Method(family="coordinate-descent++", block_size=self.block_size)

    def resolve(self, operator: Operator, columns: int = 1) -> tuple[CoordinateDescentPlusPlus, Mapping[str, str]]:
        n, item, choices = operator.n, operator.x.element_size(), dict[str, str]()
        if isinstance(self.block_size, str):
            size = max(1, n // BLOCK_SHARE)
            choices["block_size"] = f"{size:,}: n/{BLOCK_SHARE}, as in the paper's experiments"
        else:
            size = min(self.block_size, n)
        require_memory(2 * size**2 * item, operator.x.device, f"a factor of {size:,} rows needs", "use smaller blocks")
        kept = self.kept_blocks
        if isinstance(kept, str):
            kept = max(1, int(MEMORY_SHARE * free_memory(operator.x.device) / (size**2 * item)))
            choices["kept_blocks"] = f"{kept:,}: as many as fit half of the free memory"
        return replace(self, block_size=size, kept_blocks=kept), choices

    def init(self, prepared: Prepared, state: State) -> _Descent:
        return _Descent(self, state)


class _Descent(Iteration):
    """State of one solve; names are the paper's."""

    def __init__(self, settings: CoordinateDescentPlusPlus, start: State) -> None:
        self.settings, n = settings, start.operator.n
        self.size = int(chosen("block_size", settings.block_size))
        super().__init__(start, settings.seed, updates_of(n, self.size))
        self.t, self.skip = 0, round(n / self.size + 1)  # half of the updates between two estimates of the rate
        self.blocks: list[tuple[Tensor, Tensor]] = []  # rows, and the factor of K[I, I] + λ
        self.z = self.point.direction()
        zeros = torch.zeros(self.b.shape[1], dtype=torch.float64, device=self.b.device)
        self.momentum, self.eta, self.ratio, self.looks = torch.ones_like(zeros), 0.0, zeros, 1
        self.before, self.after = zeros.clone(), zeros.clone()  # Σ‖R_I‖² over each half

    def update(self) -> None:
        self.t += 1
        rows, factor = self._block()
        r = self.point.r[rows]
        u = torch.cholesky_solve(r, factor)
        ku = self.operator.columns_matmul(rows, u)
        self.z.step_(rows, u, ku).scale_(self.momentum)
        self.point.step_(rows, u, ku)
        if self.eta:
            self.point.add_(self.z, self.eta)
        half = self.before if self.t % (2 * self.skip) <= self.skip else self.after
        half += column_squares(r).to(half)
        if self.t % (2 * self.skip) == 0:
            self._adapt()

    def _block(self) -> tuple[Tensor, Tensor]:
        """Return the rows and factor of a new block or of a kept one."""
        n, t = len(self.b), self.t
        kept = int(chosen("kept_blocks", self.settings.kept_blocks))
        is_new = float(torch.rand((), generator=self.generator)) < min(1.0, n * math.log(n) / (self.size * t))
        if self.blocks and (len(self.blocks) >= kept or not is_new):
            return self.blocks[int(torch.randint(len(self.blocks), (), generator=self.generator))]
        rows = self.sampled(self.size)
        k = self.operator.block(rows)
        k.diagonal().add_(self.settings.regularisation * self.operator.uncounted.largest_signal)
        factor, _ = cholesky_with_jitter(k, f"block {len(self.blocks)} of K", float(k.diagonal().max()))
        self.blocks.append((rows, factor))
        return rows, factor

    def _adapt(self) -> None:
        """Set the momentum from the decrease of the block residuals, averaged over the estimates so far."""
        share = (self.looks ** math.log(self.looks)) / ((self.looks + 1) ** math.log(self.looks + 1))
        seen = torch.where(self.before > 0, self.after / self.before, 0.0).clamp(max=1.0)
        self.ratio = self.ratio * share + seen * (1 - share)
        rho = (1 - self.ratio ** (1 / self.skip)).clamp(min=0.0)
        self.momentum, self.eta = (1 - rho) / (1 + rho), self.size / (2 * len(self.b))
        self.looks += 1
        self.before.zero_()
        self.after.zero_()
