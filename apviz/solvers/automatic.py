"""The solver that chooses: overlapping alternating projection, CG where low rank is enough, Cholesky for small n."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from apviz.memory import SHARE, free_memory
from apviz.methods import RECOMMENDED
from apviz.operators import CountingOperator, Operator
from apviz.partitions import with_overlap
from apviz.preconditioners import RandomlyPivotedCholesky
from apviz.settings import require_seed, require_tolerance, require_whole
from apviz.solvers.cholesky import Cholesky, arrays
from apviz.solvers.coloured_cost import expected
from apviz.solvers.coloured_projection import ColouredProjection
from apviz.solvers.conjugate_gradient import ConjugateGradient
from apviz.solvers.interface import SOLVERS, Prepared, Resolved, Solver
from apviz.solvers.projection import AlternatingProjection
from apviz.solvers.recommended import coarse_rank, usual_work
from apviz.solvers.rehearsal import affordable_iterations, cheapest
from apviz.solvers.state import Events, State

# Up to this number of rows a factorisation takes a tenth of a second.
CHOLESKY_ROWS = 2_000
# The limit on a GPU in float32, if K fits. At 50,000 rows a factorisation takes 1.05 s on an H100, and blocks take
# 1.6 s to 0.001 (`benchmarks/results/gpu/solves.json`).
GPU_CHOLESKY_ROWS = 50_000
# CG is rehearsed on this number of rows: at most a sixth of all rows, at least four times the rank.
REHEARSAL_ROWS, REHEARSAL_SHARE, REHEARSAL_RANKS = 1_000, 6, 4
# Work of a factorisation in addition to its flops: the entries of K, and a pass in float64.
ENTRIES, PASS = 1.0, 2.0
# Share of the free memory for coloured projections.
MEMORY_SHARE = 0.6
# Share of the expected seconds of blocks that those of coloured projections may take: easy systems take half of it.
WORTH = 0.6


@SOLVERS.register("automatic")
@dataclass(frozen=True, kw_only=True)
class Automatic(Solver):
    """Automatic choice of a solver: overlapping alternating projection, CG with low rank, or Cholesky.

    It chooses the first of these whose condition holds:

    - Coloured projections with Fourier products, for 30,000 rows or more of up to three inputs, if these are expected
      to take clearly less time than blocks that evaluate entries.
    - Cholesky, for up to 2,000 rows, where it takes less time than blocks of any size. On a GPU in float32 for up to
      50,000 rows. For more rows if its n³/3 flops take less time than the entries that blocks usually evaluate: with
      hundreds of inputs, or without a C++ compiler. Beyond 2,000 rows Cholesky must also fit the memory, and σ² must be
      above the rounding of its dtype.
    - CG, alone or with randomly pivoted Cholesky, if a rehearsal on 1,000 rows takes few enough iterations to cost less
      than blocks.
    - Alternating projection on blocks of neighbours, sized by n and the free memory. It hands over to CG if it turns
      out to be slow.

    `benchmarks/results/solvers` has the times of every method on every data set.

    Args:
        tol: stop when the mean over right-hand sides of ‖r‖/‖b‖, recomputed, is below this.
        max_epochs: maximum number of epochs or iterations.
        seed: seed of rehearsals, partitions and pivots.

    Examples:
        >>> import torch, apviz
        >>> x = torch.linspace(0, 1, 200, dtype=torch.float64)
        >>> system = apviz.KernelSystem(x, torch.sin(6 * x), apviz.Matern52(lengthscale=0.2), noise=0.01, device="cpu")
        >>> solver, reasons = apviz.Automatic(tol=1e-4).resolve(system.operator)
        >>> solver
        Cholesky(tol=0.0001)
        >>> reasons["method"]
        'Cholesky: n = 200 is at most 2,000'
    """

    tol: float = 1e-2
    max_epochs: int = 1000
    seed: int = 0
    name: ClassVar[str] = "Automatic"

    def __post_init__(self) -> None:
        require_tolerance(self.tol)
        require_whole("max_epochs", self.max_epochs, 1)
        require_seed(self.seed)

    def resolve(self, operator: Operator, columns: int = 1) -> Resolved:
        solver, why = self._choose(operator, columns, None)
        resolved, reasons = solver.resolve(operator, columns)
        return resolved, {"method": f"{resolved.name}: {why}", **reasons}

    def resolve_for(self, operator: CountingOperator, columns: int, like: Tensor | None) -> Resolved:
        solver, why = self._choose(operator.uncounted, columns, like)
        resolved, reasons = solver.resolve_for(operator, columns, like)
        return resolved, {"method": f"{resolved.name}: {why}", **reasons}

    def epochs(self, prepared: Prepared, state: State) -> Events:
        return prepared.solver.epochs(prepared, state)

    def _choose(self, operator: Operator, columns: int, like: Tensor | None) -> tuple[Solver, str]:
        """Return the solver and the reason."""
        n = operator.n
        operator.fix_engine(10.0 * n**2, columns)  # the engine sets the cost of an entry
        if (found := self._coloured(operator, columns)) is not None:
            return found
        if n <= (few := cholesky_rows(operator)):
            return Cholesky(tol=self.tol), f"n = {n:,} is at most {few:,}"
        usual = usual_work(n, self.tol)
        direct = cholesky_work(operator, columns)
        least = min(usual, direct)
        rank = coarse_rank(n)
        ranks, rows = (
            [rank, rank // 2, rank // 4, 0],
            max(min(REHEARSAL_ROWS, n // REHEARSAL_SHARE), REHEARSAL_RANKS * rank),
        )
        plan = operator.layout.agreed(cheapest(operator, like, ranks, self.tol, columns, least, rows, self.seed))
        if plan is None and direct <= usual:
            return Cholesky(tol=self.tol), f"factoring K takes about {direct:.0f} work, blocks {usual:.0f} (estimates)"
        if plan is None:
            most = affordable_iterations(operator, columns, rank, usual)
            why = f"CG with rank {rank} is cheaper only within {most:.0f} iterations, and would take more (an estimate)"
            return overlapping(tol=self.tol, max_epochs=self.max_epochs, seed=self.seed), why
        low_rank = RandomlyPivotedCholesky(rank=plan.rank, seed=self.seed) if plan.rank else None
        solver = ConjugateGradient(preconditioner=low_rank, tol=self.tol, max_epochs=self.max_epochs)
        how = f"with rank {plan.rank} would take" if plan.rank else "would take"
        return solver, f"CG {how} about {math.ceil(plan.iterations)} iterations (an estimate), cheaper than blocks"

    def _coloured(self, operator: Operator, columns: int) -> tuple[Solver, str] | None:
        """Return coloured projections with Fourier products where they are expected to be faster; None elsewhere."""
        sweeps = expected(operator, columns, self.tol)
        if sweeps is None or sweeps.memory > MEMORY_SHARE * free_memory(operator.x.device):
            return None
        entries = usual_work(operator.n, self.tol) * operator.n**2 * operator.seconds_of_entry(columns)
        if sweeps.seconds > WORTH * entries:
            return None
        solver = ColouredProjection(products="fourier", tol=self.tol, max_epochs=self.max_epochs, seed=self.seed)
        return (
            solver,
            f"about {_rounded(sweeps.seconds)} s with Fourier products, blocks {_rounded(entries)} s (estimates)",
        )


def _rounded(seconds: float) -> str:
    return f"{seconds:.2g}" if seconds < 95 else f"{float(f'{seconds:.2g}'):,.0f}"


def cholesky_rows(operator: Operator) -> int:
    """Return the number of rows up to which a factorisation of K is fastest on the operator's device."""
    x, n = operator.x, operator.n
    is_fast = x.is_cuda and x.dtype == torch.float32 and operator.layout.ranks == 1
    fits = is_fast and arrays(n) * x.element_size() <= SHARE * free_memory(x.device)
    return (
        GPU_CHOLESKY_ROWS if fits and survives_rounding(n, operator.noise, operator.largest_signal) else CHOLESKY_ROWS
    )


def cholesky_work(operator: Operator, columns: int) -> float:
    """Estimate the work of factoring K; inf if it does not fit, or if rounding hides the noise."""
    x, n = operator.x, operator.n
    fits = arrays(n) * x.element_size() <= SHARE * free_memory(x.device)
    is_right = survives_rounding(n, operator.noise, operator.largest_signal, x.dtype)
    if x.is_cuda or operator.layout.ranks > 1 or not (fits and is_right):
        return math.inf
    flops = n / 3 + 2 * columns  # ÷ n²: the factor and the triangular solves
    return flops / operator.entry_price(columns) + ENTRIES + PASS


def survives_rounding(n: int, noise: float, signal: float, dtype: torch.dtype = torch.float32) -> bool:
    """Test whether σ² is above the rounding of a factorisation of K (Higham 2002, theorem 10.3).

    Below it a factor needs jitter, with which refinement may stagnate while smaller blocks converge.
    """
    return noise >= n * torch.finfo(dtype).eps / 2 * (signal + noise)


def overlapping(**settings: Any) -> AlternatingProjection:
    """Make the alternating projection that apviz recommends: overlapping blocks of neighbours, and a history.

    Block size, overlap and history are chosen from n, d, the right-hand sides and the free memory
    (`apviz.solvers.recommended`). `Automatic` uses it if neither Cholesky nor low rank is faster.

    Args:
        settings: settings of `AlternatingProjection` that replace the recommended ones.

    Examples:
        >>> from apviz.solvers.automatic import overlapping
        >>> overlapping(tol=1e-3).partition
        PrincipalAxisTree(overlap='auto')
    """
    return AlternatingProjection(**{**with_overlap(RECOMMENDED), **settings})
