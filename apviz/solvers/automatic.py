"""The solver that chooses: overlapping alternating projection, CG where low rank is enough, Cholesky for small n."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from apviz.operators import CountingOperator, Operator, make_operator
from apviz.preconditioners import RandomlyPivotedCholesky
from apviz.preconditioners.randomly_pivoted_cholesky import randomly_pivoted_cholesky
from apviz.settings import require_tolerance, require_whole
from apviz.solvers.alternating_projection import AlternatingProjection
from apviz.solvers.choices import coarse_rank
from apviz.solvers.cholesky import Cholesky
from apviz.solvers.conjugate_gradient import ConjugateGradient
from apviz.solvers.interface import SOLVERS, Prepared, Solver

# rows on which the share of k that r vectors leave is looked at
PROBE_ROWS = 2_000
# rows up to which a factorisation takes a tenth of a second
CHOLESKY_ROWS = 2_000
# σ² in the trace of what low rank leaves of k, which bounds the condition number that is left to iterate on: about 130
# on keggundirected, over 4,000 on the photograph, at any n (`benchmarks/notes.md`)
LOW_RANK_TRACE = 400.0


@SOLVERS.register("automatic")
@dataclass(frozen=True, kw_only=True)
class Automatic(Solver):
    """Chooses what suits the system: overlapping alternating projection, CG with low rank, or Cholesky.

    Cholesky up to 2,000 rows, which takes less time than any blocks there. CG with randomly pivoted Cholesky where the
    trace of what r pivots leave of k(X, X) is under about 400 σ², so that a few iterations remain. Else alternating
    projection on blocks of neighbours sized by n and the free memory (`benchmarks/results/solvers` has the times of
    every method on every set).

    Args:
        tol: stop when the mean over right-hand sides of ‖r‖/‖b‖, recomputed, is below this.
        max_epochs: cap, in epochs or iterations.
        seed: of the coarse space.

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
        require_whole("seed", self.seed, 0)

    def resolve(self, operator: Operator, columns: int = 1) -> tuple[Solver, Mapping[str, str]]:
        solver, why = self._choose(operator)
        resolved, reasons = solver.resolve(operator, columns)
        return resolved, {"method": f"{resolved.name}: {why}", **reasons}

    def build(self, operator: CountingOperator, columns: int, like: Tensor | None = None) -> Prepared:
        solver, why = self._choose(operator.uncounted)
        built = solver.build(operator, columns, like)
        return replace(built, choices={"method": f"{solver.name}: {why}", **built.choices})

    def _choose(self, operator: Operator) -> tuple[Solver, str]:
        """The solver, and why."""
        n = operator.n
        if n <= CHOLESKY_ROWS:
            return Cholesky(tol=self.tol), f"n = {n:,} is at most {CHOLESKY_ROWS:,}"
        rank = coarse_rank(n)
        left = n * left_by_low_rank(operator, rank, self.seed) / operator.noise
        why = f"{rank} pivots leave about {left:,.3g} σ² of the trace of k (an estimate)"
        if left < LOW_RANK_TRACE:
            low_rank = RandomlyPivotedCholesky(rank=rank, seed=self.seed)
            solver = ConjugateGradient(preconditioner=low_rank, tol=self.tol, max_epochs=self.max_epochs)
            return solver, f"{why}, under {LOW_RANK_TRACE:g}"
        return overlapping(tol=self.tol, max_epochs=self.max_epochs, seed=self.seed), f"{why}, over {LOW_RANK_TRACE:g}"


def overlapping(**settings: Any) -> AlternatingProjection:
    """Makes the alternating projection that apviz recommends: overlapping blocks of neighbours, and a history.

    Block size, overlap and history are chosen from n, d, the right-hand sides and the free memory
    (`apviz.solvers.choices`). `Automatic` takes it where neither Cholesky nor low rank is the shorter way.

    Args:
        settings: of `AlternatingProjection`, in place of these.

    Examples:
        >>> from apviz.solvers.automatic import overlapping
        >>> overlapping(tol=1e-3, overlap=0.5).partition
        'principal-axis-tree'
    """
    chosen = {
        "block_size": "auto", "partition": "principal-axis-tree", "overlap": "auto", "history": "auto",
        "skeleton_rank": "auto", "inner_dtype": "auto", "factor_dtype": "auto",
    }  # fmt: skip
    return AlternatingProjection(**{**chosen, **settings})


def left_by_low_rank(operator: Operator, rank: int, seed: int) -> float:
    """Estimates the mean of the diagonal of k(X, X) − LLᵀ after `rank` pivots, from up to 2,000 random rows.

    Of those the mean is over the rows that are no pivots: of all rows of the system few are. Rows like no other, which
    2,000 do not hold, are missed; at worst 2.1 times too little was seen (keggundirected, n = 50,886). In float64, for
    float32 cannot tell what is left from rounding. Under 4e6 entries, which the work of the solve leaves out; its
    seconds do not.
    """
    rows = torch.randperm(operator.n, generator=torch.Generator().manual_seed(seed))[:PROBE_ROWS]
    given = operator.given[rows.to(operator.given.device)]
    probe = make_operator("tiled", given, operator.kernel, operator.noise, torch.float64)
    probe.fix_engine(0.0, 1)
    factor = randomly_pivoted_cholesky(probe, rank, seed)
    left = operator.kernel.outputscale - factor.square().sum(1)
    others = left.topk(len(rows) - factor.shape[1]).values  # a pivot has nothing left
    return max(0.0, float(others.mean()))
